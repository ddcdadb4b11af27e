//! An upload that takes its time, as one over a slow line does.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    Ceph,
    s3::{S3Call, Signer},
};

/// The gateway has let it in and waits for its body.
#[derive(Debug)]
pub struct Upload {
    stream: TcpStream,
    body: Vec<u8>,
}

impl Ceph {
    /// Begins to write an object: ends when the gateway asks for the body.
    pub async fn begin(&self, (access_key, secret_key): (&str, &str), call: &S3Call<'_>) -> Result<Upload> {
        let signer = Signer { region: &self.region, access_key, secret_key };
        let authority = self.endpoint.trim_start_matches("http://");
        let (head, body) = signer.request(authority, call)?.into_parts();
        let body = body.collect().await?.to_bytes().to_vec();
        let mut lines = format!("{} {} HTTP/1.1\r\n", head.method, head.uri.path());
        for (name, value) in &head.headers {
            write!(lines, "{name}: {}\r\n", value.to_str()?)?;
        }
        lines += "expect: 100-continue\r\nconnection: close\r\n\r\n";
        let mut stream = TcpStream::connect(authority).await?;
        stream.write_all(lines.as_bytes()).await?;
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await?;
        let answer = String::from_utf8_lossy(answer.get(..length).context("what was read")?).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 100"), "{}: {answer}", call.path);
        Ok(Upload { stream, body })
    }
}

impl Upload {
    /// Sends the body. Ends when the gateway has stored it.
    pub async fn finish(mut self) -> Result<()> {
        self.stream.write_all(&self.body).await?;
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(answer.trim_start().starts_with("HTTP/1.1 200"), "{answer}");
        Ok(())
    }
}
