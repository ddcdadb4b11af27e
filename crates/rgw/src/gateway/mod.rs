//! The Admin Ops API.

mod buckets;
mod probe;
mod users;

use std::{sync::Arc, time::Duration};

use crate::{Credentials, Endpoint, RgwError, S3, answer::Answer, request::Request, transport::Session, turns::Turns};

pub use probe::Probe;

/// A gateway, called with an administrator's key that has the capabilities `users=*` and `buckets=*`. Clones share
/// their connections.
///
/// The gateway refuses most writes that meet on one user or one bucket, with
/// [`ErrorClass::Conflict`](crate::ErrorClass::Conflict). Clones therefore write to a user one after the other, and to
/// a bucket likewise; the time allowed for a call includes the wait for its turn. Another process, or a `Gateway` made
/// with [`new`](Self::new), knows nothing of these turns. Reads never wait.
#[derive(Clone, Debug)]
pub struct Gateway {
    session: Session,
    turns: Arc<Turns>,
}

impl Gateway {
    pub fn new(endpoint: Endpoint, admin: Credentials) -> Result<Self, RgwError> {
        Ok(Self { session: Session::new(endpoint, admin)?, turns: Arc::default() })
    }

    /// The same gateway with more, or less, patience: removing a bucket with a million objects takes minutes.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { session: self.session.with_timeout(timeout), ..self }
    }

    /// The S3 API of the same gateway, over the same connections, with a user's key.
    pub fn s3(&self, credentials: Credentials) -> S3 {
        S3::over(self.session.with_credentials(credentials))
    }

    async fn write(&self, subject: String, request: Request) -> Result<Answer, RgwError> {
        self.session.send_after(Arc::clone(&self.turns).next(subject), request).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::UserId;

    const AT_ONCE: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_write_waits_for_the_one_before_it_and_a_read_does_not() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let endpoint = Endpoint { url, region: "default".into(), ca_pem: None };
        let gateway = Gateway::new(endpoint, Credentials::new("AK", "SK")).unwrap();
        let bob = UserId::new("acme", "bob").unwrap();
        let next_request = || tokio::time::timeout(AT_ONCE, silent.accept());

        let (first, user) = (gateway.clone(), bob.clone());
        let first = tokio::spawn(async move { first.put_key(&user, None, "AK1").await });
        let _first = next_request().await.expect("nothing is before the first write");

        let hasty = gateway.clone().with_timeout(AT_ONCE);
        let (second, arrived) = tokio::join!(hasty.put_key(&bob, None, "AK2"), next_request());
        assert_eq!(second.unwrap_err().reason(), "GatewayTimeout");
        arrived.expect_err("the second write was not sent");

        let (_, arrived) = tokio::join!(hasty.user(&bob), next_request());
        let _read = arrived.expect("a read is sent at once");
        first.abort();
    }
}
