//! The key under which digests of Secrets are made: in a Secret of the operator's own namespace, made once, the same for all
//! replicas. Losing it costs one read of every stamped Secret.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use croft_core::{
    backoff::Backoff,
    namespaces::witness::Seal,
    plan::{Failure, FailureClass},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use tokio::sync::Notify;
use tracing::warn;

use crate::{
    engine::{Writer, write::read},
    objects,
};

pub(crate) const KEY_SECRET: &str = "croft-digest-key";
const FIELD: &str = "key";
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), most: Duration::from_secs(30) };
/// Then a key of this process alone serves: Secrets in classes are looked after, at the price of a read each after a restart.
const ATTEMPTS: u32 = 6;

/// The key, once it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedSeal {
    seal: Arc<OnceLock<Seal>>,
    known: Arc<Notify>,
}

impl SharedSeal {
    pub(crate) fn get(&self) -> Option<&Seal> {
        self.seal.get()
    }

    /// Ends when the key is known.
    pub(crate) async fn known(&self) -> &Seal {
        loop {
            let known = self.known.notified();
            if let Some(seal) = self.seal.get() {
                return seal;
            }
            known.await;
        }
    }

    /// Reads the key, or makes it.
    pub(super) async fn find(self, writer: Writer, namespace: String) {
        let (mut attempt, mut failures) = (0, 0);
        let key = loop {
            match stored(&writer, &namespace).await {
                Ok(Some(key)) => break key,
                Ok(None) => {}
                Err(failure) => {
                    // An API server that is away is waited for.
                    attempt += u32::from(failure.class != FailureClass::Transient);
                    failures += 1;
                    warn!(%failure, secret = KEY_SECRET, "cannot read or make the key of digests");
                }
            }
            if attempt >= ATTEMPTS {
                warn!(secret = KEY_SECRET, "digests of Secrets are good until the next start only");
                break rand::random();
            }
            tokio::time::sleep(RETRY.delay(failures, 0)).await;
        };
        let _ = self.seal.set(Seal::new(key));
        self.known.notify_waiters();
    }
}

/// The key that is stored; nothing if another replica was faster to make one, which the next look will find.
async fn stored(writer: &Writer, namespace: &str) -> Result<Option<[u8; 32]>, Failure> {
    let api: Api<Secret> = Api::namespaced(writer.client(), namespace);
    if let Some(secret) = read(api.get_opt(KEY_SECRET)).await? {
        let unusable =
            format!("the Secret {KEY_SECRET} has no `{FIELD}` of 32 bytes; delete it to have a new one made");
        return key_in(&secret)
            .map(Some)
            .ok_or_else(|| Failure::new(FailureClass::Rejected, "UnreadableKey", unusable));
    }
    let key: [u8; 32] = rand::random();
    match writer.create(&secret_of(namespace, key)).await {
        Ok(_) => Ok(Some(key)),
        Err(failure) if failure.reason == "AlreadyExists" => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn key_in(secret: &Secret) -> Option<[u8; 32]> {
    secret.data.as_ref()?.get(FIELD)?.0.as_slice().try_into().ok()
}

fn secret_of(namespace: &str, key: [u8; 32]) -> Secret {
    objects::own_secret(namespace, KEY_SECRET, [(FIELD, ByteString(key.to_vec()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_can_be_read_back_and_nothing_else_is_taken_for_one() {
        assert_eq!(key_in(&secret_of("croft-system", [7; 32])), Some([7; 32]));
        let mut short = secret_of("croft-system", [7; 32]);
        short.data.as_mut().unwrap().insert(FIELD.into(), ByteString(vec![1, 2, 3]));
        assert_eq!(key_in(&short), None);
    }
}
