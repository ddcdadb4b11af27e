//! Just enough of AWS Signature Version 4 to see that the gateway answers, and to send it whatever a client may.

use anyhow::Result;
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Bytes;
use jiff::Timestamp;
use sha2::Sha256;

use crate::digest::{hex, sha256_hex};

const PAYLOAD: &str = "UNSIGNED-PAYLOAD";
const SIGNED_HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";

/// A call as raw as a client may send it; `path` and `query` are as they go over the wire, the query sorted and `name=value`.
#[derive(Clone, Debug, Default)]
pub struct S3Call<'a> {
    pub method: Method,
    pub path: &'a str,
    pub query: &'a str,
    pub header: Option<(&'a str, &'a str)>,
    pub body: &'a [u8],
}

pub(crate) struct Signer<'a> {
    pub(crate) region: &'a str,
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
}

impl Signer<'_> {
    pub(crate) fn request(&self, authority: &str, call: &S3Call<'_>) -> Result<Request<Full<Bytes>>> {
        let S3Call { method, path, query, header, body } = call;
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/{}/s3/aws4_request", &time[..8], self.region);
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{authority}\nx-amz-content-sha256:{PAYLOAD}\nx-amz-date:{time}\n\n{SIGNED_HEADERS}\n{PAYLOAD}"
        );
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256_hex(canonical));
        let signature = hex(&hmac(&self.signing_key(&time[..8]), &to_sign));
        let separator = if query.is_empty() { "" } else { "?" };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{authority}{path}{separator}{query}"))
            .header("host", authority)
            // Where there is no body, nobody else would say so, and the gateway wants to know before it copies.
            .header("content-length", body.len())
            .header("x-amz-date", &time)
            .header("x-amz-content-sha256", PAYLOAD)
            .header(
                "authorization",
                format!(
                    "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={SIGNED_HEADERS}, Signature={signature}",
                    self.access_key
                ),
            );
        let request = header.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Ok(request.body(Full::from((*body).to_owned()))?)
    }

    fn signing_key(&self, date: &str) -> Vec<u8> {
        let seed = format!("AWS4{}", self.secret_key).into_bytes();
        [date, self.region, "s3", "aws4_request"].into_iter().fold(seed, |key, part| hmac(&key, part))
    }
}

fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}
