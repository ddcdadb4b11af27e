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
    /// A client that calls with the keys of an administrator. Nothing is sent yet.
    pub fn new(endpoint: Endpoint, admin: Credentials) -> Result<Self, RgwError> {
        Ok(Self { session: Session::new(endpoint, admin)?, turns: Arc::default() })
    }

    /// The same gateway with more, or less, patience: removing a bucket with a million objects takes minutes.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { session: self.session.with_timeout(timeout), ..self }
    }

    /// Where it is: the same for all that were told the same URL.
    pub fn address(&self) -> String {
        self.session.origin().to_string()
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

    /// For what does not happen.
    const A_MOMENT: Duration = Duration::from_millis(100);
    /// For what happens at once, on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_write_waits_for_the_one_before_it_and_a_read_does_not() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let endpoint = Endpoint { url, region: "default".into(), ca_pem: None };
        let gateway = Gateway::new(endpoint, Credentials::new("AK", "SK")).unwrap().with_timeout(PATIENCE * 2);
        let bob = UserId::new("acme", "bob").unwrap();
        let request_within = |limit| tokio::time::timeout(limit, silent.accept());

        let (client, user) = (gateway.clone(), bob.clone());
        let first = tokio::spawn(async move { client.put_key(&user, None, "AK1").await });
        let _first = request_within(PATIENCE).await.expect("nothing is before the first write");

        let hasty = gateway.clone().with_timeout(A_MOMENT);
        let (second, request) = tokio::join!(hasty.put_key(&bob, None, "AK2"), request_within(A_MOMENT));
        assert_eq!(second.unwrap_err().reason(), "GatewayTimeout");
        request.expect_err("the second write was not sent");

        let read = tokio::spawn(async move { gateway.user(&bob).await });
        let _read = request_within(PATIENCE).await.expect("a read is sent at once");
        first.abort();
        read.abort();
    }
}
