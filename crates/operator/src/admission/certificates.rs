//! Which certificate we serve: a leaf of our own authority, or one that is supplied in a Secret.
//!
//! Our authority lives in the Secret [`CA_SECRET`], which is the one truth for all replicas: the first to find it absent makes
//! it, the others use what they find. A Secret that cannot be read is never overwritten. Deleting the Secret asks for a new
//! authority; running replicas go on trusting the old one beside it, so nothing is refused in between.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use croft_core::plan::{Failure, FailureClass};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, ResourceExt};
use rustls::{pki_types::CertificateDer, sign::CertifiedKey};
use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

use super::{
    authority::{Authority, CertificateError, Leaf, Validity, supplied},
    injection::Trust,
    server::ServingCertificate,
    succession::{SPREAD, Succession, Turn},
};
use crate::{
    engine::{
        Target, Writer,
        watch::{Surroundings, follow},
    },
    objects,
    settings::SharedSettings,
};

/// Holds the certificate authority: `ca.crt` and `ca.key`.
pub const CA_SECRET: &str = "croft-webhook-ca";

/// How often the wall clock and the settings are looked at: timers stand still while a machine sleeps, clocks do not.
const LOOK: Duration = Duration::from_secs(5);

pub(super) struct Certificates {
    pub(super) secrets: Api<Secret>,
    pub(super) surroundings: Surroundings,
    pub(super) writer: Writer,
    pub(super) namespace: String,
    /// The names our leafs are good for.
    pub(super) hosts: Vec<String>,
    pub(super) settings: SharedSettings,
    pub(super) serving: Arc<ServingCertificate>,
    pub(super) trust: watch::Sender<Option<Trust>>,
}

/// The Secret of our authority, as last seen.
enum Stored {
    Unknown,
    Absent,
    Unreadable,
    Readable { uid: String, version: Option<String> },
}

/// Our own authority at work.
struct Own {
    stored: Stored,
    authority: Option<Authority>,
    /// When this authority was first seen.
    since: Instant,
    /// The leaf being served, and the certificate of the authority that signed it.
    leaf: Option<(Validity, CertificateDer<'static>)>,
}

impl Own {
    fn new() -> Self {
        Self { stored: Stored::Unknown, authority: None, since: Instant::now(), leaf: None }
    }

    /// The authority that must sign a new leaf now, if one is needed.
    fn signer(&self, now: SystemTime) -> Option<&Authority> {
        let authority = self.authority.as_ref()?;
        let needed = match &self.leaf {
            None => true,
            Some((validity, signer)) => {
                validity.is_due(now) || (signer != authority.certificate() && self.since.elapsed() >= SPREAD)
            }
        };
        needed.then_some(authority)
    }
}

impl Certificates {
    /// Never returns; follows the setting `admission.certificateSecret`.
    pub(super) async fn keep(&self) {
        loop {
            let chosen = self.chosen();
            tokio::select! {
                () = self.serve_own(), if chosen.is_none() => {}
                () = self.serve_supplied(chosen.as_deref().unwrap_or_default()), if chosen.is_some() => {}
                () = self.chosen_other_than(chosen.as_ref()) => info!("another source of certificates was chosen"),
            }
        }
    }

    fn chosen(&self) -> Option<String> {
        self.settings.load().admission.certificate_secret.clone()
    }

    async fn chosen_other_than(&self, chosen: Option<&String>) {
        while self.chosen().as_ref() == chosen {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn serve_supplied(&self, name: &str) {
        let mut secret = follow(self.secrets.clone(), name, self.surroundings.clone());
        let mut succession = Succession::new();
        loop {
            let due = succession.due();
            let turns = tokio::select! {
                seen = secret.next() => match seen.as_deref().map(read_supplied) {
                    None => {
                        warn!(name, "no certificate: the Secret that admission.certificateSecret names does not exist yet");
                        Vec::new()
                    }
                    Some(Ok((certified, trust))) => succession.arrives(certified, trust, Instant::now()),
                    Some(Err(error)) => {
                        warn!(name, %error, "the supplied certificate cannot be used; the last one stays");
                        Vec::new()
                    }
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    succession.goes_on(Instant::now()).into_iter().collect()
                }
            };
            for turn in turns {
                match turn {
                    Turn::Trust(trust) => self.trust(trust),
                    Turn::Serve(certified) => {
                        self.serving.set(certified);
                        info!(name, "serving the supplied certificate");
                    }
                }
            }
        }
    }

    async fn serve_own(&self) {
        let mut secret = follow(self.secrets.clone(), CA_SECRET, self.surroundings.clone());
        let mut own = Own::new();
        loop {
            tokio::select! {
                seen = secret.next() => self.accept(&mut own, seen.as_deref()),
                () = tokio::time::sleep(LOOK) => {}
            }
            let now = SystemTime::now();
            if let Err(failure) = self.store_authority(&mut own, now).await
                && failure.class != FailureClass::Stale
            {
                warn!(%failure, secret = CA_SECRET, "cannot store the certificate authority; will try again");
            }
            self.renew_leaf(&mut own, now);
        }
    }

    fn accept(&self, own: &mut Own, secret: Option<&Secret>) {
        own.stored = match secret {
            None => Stored::Absent,
            Some(secret) => match read_authority(secret) {
                Ok(authority) => {
                    self.adopt(own, authority);
                    Stored::Readable { uid: secret.uid().unwrap_or_default(), version: secret.resource_version() }
                }
                Err(error) => {
                    warn!(secret = CA_SECRET, %error, "not a usable certificate authority; delete the Secret to have a new one made");
                    Stored::Unreadable
                }
            },
        };
    }

    fn adopt(&self, own: &mut Own, authority: Authority) {
        self.trust(Some(Trust::Ours(authority.bundle().into())));
        let known = own.authority.as_ref().map(Authority::certificate);
        if known != Some(authority.certificate()) {
            own.since = Instant::now();
        }
        own.authority = Some(authority);
    }

    /// Makes the Secret if it is absent, and a successor when the authority has two thirds of its life behind it. The
    /// outcome comes back through the watch; a replica that was faster wins.
    async fn store_authority(&self, own: &mut Own, now: SystemTime) -> Result<(), Failure> {
        let due = own.authority.as_ref().is_some_and(|authority| authority.validity().is_due(now));
        match &own.stored {
            Stored::Unknown | Stored::Unreadable => Ok(()),
            Stored::Readable { .. } if !due => Ok(()),
            Stored::Absent => {
                let made = generate(own.authority.as_ref(), now)?;
                self.writer.create(&secret_of(&made, &self.namespace)).await?;
                info!(secret = CA_SECRET, "made a certificate authority");
                Ok(())
            }
            Stored::Readable { uid, version } => {
                let made = generate(own.authority.as_ref(), now)?;
                let target = Target { namespace: &self.namespace, name: CA_SECRET, uid };
                let patch = json!({ "data": contents(&made) });
                self.writer.merge::<Secret>(target, version.as_deref(), patch).await?;
                info!(secret = CA_SECRET, "renewed the certificate authority");
                Ok(())
            }
        }
    }

    fn renew_leaf(&self, own: &mut Own, now: SystemTime) {
        let Some(signer) = own.signer(now) else { return };
        match signer.leaf(&self.hosts, now) {
            Ok(Leaf { certified, validity }) => {
                let signed_by = signer.certificate().clone();
                own.leaf = Some((validity, signed_by));
                self.serving.set(certified);
                info!(hosts = ?self.hosts, "serving a new certificate");
            }
            Err(error) => warn!(%error, hosts = ?self.hosts, "cannot make a serving certificate"),
        }
    }

    fn trust(&self, trust: Option<Trust>) {
        self.trust.send_if_modified(|current| {
            let changed = *current != trust;
            *current = trust;
            changed
        });
    }
}

fn generate(predecessor: Option<&Authority>, now: SystemTime) -> Result<Authority, Failure> {
    Authority::generate(predecessor, now)
        .map_err(|error| Failure::new(FailureClass::Rejected, "NoCertificate", error.to_string()))
}

fn contents(authority: &Authority) -> BTreeMap<&'static str, ByteString> {
    [("ca.crt", authority.bundle().to_owned()), ("ca.key", authority.key())]
        .map(|(name, text)| (name, ByteString(text.into_bytes())))
        .into()
}

fn secret_of(authority: &Authority, namespace: &str) -> Secret {
    objects::own_secret(namespace, CA_SECRET, contents(authority))
}

fn read_authority(secret: &Secret) -> Result<Authority, CertificateError> {
    Authority::parse(text(secret, "ca.crt")?, text(secret, "ca.key")?)
}

/// The certificate to serve, and the authority behind it if the Secret names one.
fn read_supplied(secret: &Secret) -> Result<(CertifiedKey, Option<Trust>), CertificateError> {
    let certified = supplied(value(secret, "tls.crt")?, value(secret, "tls.key")?)?;
    Ok((certified, text(secret, "ca.crt").ok().map(|bundle| Trust::Supplied(bundle.into()))))
}

fn value<'a>(secret: &'a Secret, name: &'static str) -> Result<&'a [u8], CertificateError> {
    let found = secret.data.as_ref().and_then(|data| data.get(name)).filter(|value| !value.0.is_empty());
    found.map(|value| value.0.as_slice()).ok_or(CertificateError::Missing(name))
}

fn text<'a>(secret: &'a Secret, name: &'static str) -> Result<&'a str, CertificateError> {
    std::str::from_utf8(value(secret, name)?).map_err(|_| CertificateError::NotPem(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(authority: Authority, leaf: Option<(Validity, CertificateDer<'static>)>, known_for: Duration) -> Own {
        Own { stored: Stored::Unknown, since: Instant::now() - known_for, authority: Some(authority), leaf }
    }

    fn leaf_of(authority: &Authority, now: SystemTime) -> (Validity, CertificateDer<'static>) {
        (authority.leaf(&["croft.svc".into()], now).unwrap().validity, authority.certificate().clone())
    }

    #[test]
    fn a_new_authority_signs_only_after_it_had_time_to_be_trusted() {
        let now = SystemTime::now();
        let old = Authority::generate(None, now).unwrap();
        let leaf = leaf_of(&old, now);
        let new = || Authority::generate(Some(&old), now).unwrap();
        assert!(own(new(), None, Duration::ZERO).signer(now).is_some(), "without a leaf we could not serve at all");
        assert!(own(new(), Some(leaf.clone()), Duration::ZERO).signer(now).is_none());
        assert!(own(new(), Some(leaf.clone()), SPREAD).signer(now).is_some());
        let unchanged = Authority::parse(old.bundle(), &old.key()).unwrap();
        assert!(own(unchanged, Some(leaf), SPREAD).signer(now).is_none(), "a fresh leaf of the same authority stays");
    }

    #[test]
    fn the_secret_of_an_authority_can_be_read_back() {
        let made = Authority::generate(None, SystemTime::now()).unwrap();
        let mut secret = secret_of(&made, "croft-system");
        assert_eq!(read_authority(&secret).unwrap().bundle(), made.bundle());
        secret.data.as_mut().unwrap().remove("ca.key");
        assert_eq!(read_authority(&secret).err().unwrap().to_string(), "the key `ca.key` is missing");
    }
}
