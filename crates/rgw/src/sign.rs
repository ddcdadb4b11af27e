//! AWS Signature Version 4 in the header form, for service `s3`.
//!
//! Signed are the host, the date, the body's hash and every header a request sets by itself: the gateway refuses an
//! `x-amz-…` header that is not signed.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use jiff::{Timestamp, tz::TimeZone};
use sha2::{Digest, Sha256};

use crate::{request::Request, secret::Credentials};

/// The headers that make a request authentic, besides `Host` and its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// `Authorization`
    pub(crate) authorization: String,
    /// `x-amz-date`
    pub(crate) date: String,
    /// `x-amz-content-sha256`; the gateway refuses a request that does not send it.
    pub(crate) content_sha256: String,
}

pub(crate) fn sign(
    request: &Request,
    host: &str,
    region: &str,
    credentials: &Credentials,
    now: Timestamp,
) -> Signature {
    let date = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &date[..8];
    let content_sha256 = content_sha256(request);

    let mut headers: BTreeMap<&str, Vec<u8>> =
        request.headers.iter().map(|(name, value)| (name.as_str(), single_spaced(value.as_bytes()))).collect();
    headers.insert("host", host.into());
    headers.insert("x-amz-content-sha256", content_sha256.as_str().into());
    headers.insert("x-amz-date", date.as_str().into());
    let signed_headers = headers.keys().copied().collect::<Vec<_>>().join(";");

    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query()).into_bytes();
    for (name, value) in &headers {
        canonical.extend([name.as_bytes(), b":", value, b"\n"].concat());
    }
    canonical.extend(format!("\n{signed_headers}\n{content_sha256}").into_bytes());

    let scope = format!("{day}/{region}/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let signature = hex(&mac(&signing_key(credentials, day, region), &to_sign));
    let access_key = &credentials.access_key;
    Signature {
        authorization: format!(
            "AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={signed_headers}, Signature={signature}"
        ),
        date,
        content_sha256,
    }
}

/// What stands for the body in the signature.
fn content_sha256(request: &Request) -> String {
    if request.signs_body { hex(&Sha256::digest(&request.body)) } else { "UNSIGNED-PAYLOAD".to_owned() }
}

/// A value as it is signed; it is sent as it is.
fn single_spaced(value: &[u8]) -> Vec<u8> {
    value.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' ')
}

fn signing_key(credentials: &Credentials, day: &str, region: &str) -> Vec<u8> {
    let secret = format!("AWS4{}", credentials.secret_key.expose()).into_bytes();
    [day, region, "s3", "aws4_request"].into_iter().fold(secret, |key, part| mac(&key, part))
}

fn mac(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;

    const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// The example account, host and date of the AWS documentation, "Signature Calculations for the Authorization
    /// Header".
    fn signature_of(request: &Request) -> Signature {
        sign(
            request,
            "examplebucket.s3.amazonaws.com",
            "us-east-1",
            &Credentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            "2013-05-24T00:00:00Z".parse().unwrap(),
        )
    }

    #[test]
    fn a_flag_in_the_query_is_signed_as_aws_documents() {
        let signature = signature_of(&Request::new(String::new(), Method::GET, "/").flag("lifecycle"));
        assert_eq!(
            signature,
            Signature {
                authorization: "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                                SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
                                Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
                    .into(),
                date: "20130524T000000Z".into(),
                content_sha256: EMPTY_SHA256.into(),
            }
        );
    }

    #[test]
    fn query_parameters_are_signed_as_aws_documents() {
        let request = Request::new(String::new(), Method::GET, "/").with("prefix", "J").with("max-keys", 2);
        let expected = "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(signature_of(&request).authorization.ends_with(expected));
    }

    /// "PUT object" of the same documentation, which signs a `Date` header besides `x-amz-date`.
    #[test]
    fn the_headers_of_a_request_are_signed_as_aws_documents() {
        let mut request =
            Request::new(String::new(), Method::PUT, "/test$file.text").with_body("Welcome to Amazon S3.");
        request.headers.insert("date", HeaderValue::from_static("Fri,  24 May 2013 00:00:00 GMT "));
        request.headers.insert("x-amz-storage-class", HeaderValue::from_static("REDUCED_REDUNDANCY"));
        assert_eq!(
            signature_of(&request).authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, \
             Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
    }

    #[test]
    fn the_hash_of_the_body_is_part_of_the_signature() {
        let put = |body: &'static str| signature_of(&Request::new(String::new(), Method::PUT, "/k").with_body(body));
        assert_eq!(
            put("Welcome to Amazon S3.").content_sha256,
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
        );
        assert_ne!(put("one").authorization, put("two").authorization);
        let unsigned = Request::new(String::new(), Method::PUT, "/k").unsigned_body("{}");
        assert_eq!(signature_of(&unsigned).content_sha256, "UNSIGNED-PAYLOAD");
    }
}
