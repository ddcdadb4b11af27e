//! Our certificate authority and the leafs it signs. The wall clock comes in as an argument.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::parse_x509_certificate;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * DAY.as_secs());
const LEAF_LIFE: Duration = Duration::from_secs(30 * DAY.as_secs());
/// Clocks of other machines may be this far behind.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// Why a certificate cannot be used. Never holds key material.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("the key `{0}` is missing")]
    Missing(&'static str),
    #[error("`{0}` is not PEM of the kind expected")]
    NotPem(&'static str),
    #[error("the first certificate in `ca.crt` is not that of a certificate authority")]
    NotAnAuthority,
    #[error("the private key does not belong to the certificate")]
    WrongKey,
    #[error("cannot sign: {0}")]
    Signing(#[from] rcgen::Error),
    #[error("cannot be served: {0}")]
    Tls(#[from] rustls::Error),
}

/// When a certificate is good, and from when on it should be replaced: after two thirds of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    from: SystemTime,
    to: SystemTime,
}

impl Validity {
    fn starting(now: SystemTime, life: Duration) -> Self {
        Self { from: now.checked_sub(SKEW).unwrap_or(now), to: now.checked_add(life).unwrap_or(now) }
    }

    /// Also true when the clock was set back to before the certificate was made.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        let life = self.to.duration_since(self.from).unwrap_or_default();
        let due = self.from.checked_add(life.saturating_mul(2) / 3);
        now < self.from || due.is_none_or(|due| now >= due)
    }

    fn is_over(&self, now: SystemTime) -> bool {
        now >= self.to
    }
}

/// A certificate authority: it signs leafs with its own key, and vouches for its predecessor's certificates as well.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// PEM: our own certificate first, then those still to be trusted.
    bundle: String,
    validity: Validity,
}

/// A serving certificate with its key.
pub(super) struct Leaf {
    pub(super) certified: CertifiedKey,
    pub(super) validity: Validity,
}

impl Authority {
    /// A new authority. Certificates its `predecessor` signed stay trusted.
    pub(super) fn generate(predecessor: Option<&Authority>, now: SystemTime) -> Result<Self, CertificateError> {
        let validity = Validity::starting(now, AUTHORITY_LIFE);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, "croft admission");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (validity.from.into(), validity.to.into());
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let mut bundle = certificate.pem();
        if let Some(old) = predecessor.filter(|old| !old.validity.is_over(now)) {
            bundle.push_str(old.own_pem());
        }
        Ok(Self { certificate: certificate.der().clone(), issuer: Issuer::new(params, key), bundle, validity })
    }

    /// Reads what [`Self::bundle`] and [`Self::key`] wrote.
    pub(super) fn parse(bundle: &str, key: &str) -> Result<Self, CertificateError> {
        let certificate =
            CertificateDer::from_pem_slice(bundle.as_bytes()).map_err(|_| CertificateError::NotPem("ca.crt"))?;
        let key = KeyPair::from_pem(key).map_err(|_| CertificateError::NotPem("ca.key"))?;
        let (_, parsed) = parse_x509_certificate(&certificate).map_err(|_| CertificateError::NotPem("ca.crt"))?;
        if !parsed.is_ca() {
            return Err(CertificateError::NotAnAuthority);
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(CertificateError::WrongKey);
        }
        let validity = Validity {
            from: parsed.validity().not_before.to_datetime().into(),
            to: parsed.validity().not_after.to_datetime().into(),
        };
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { issuer, certificate: certificate.clone(), bundle: bundle.to_owned(), validity })
    }

    /// What the API server must trust, in PEM.
    pub(super) fn bundle(&self) -> &str {
        &self.bundle
    }

    /// The private key in PEM.
    pub(super) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub(super) fn validity(&self) -> Validity {
        self.validity
    }

    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A serving certificate for `hosts`, names or IP addresses.
    pub(super) fn leaf(&self, hosts: &[String], now: SystemTime) -> Result<Leaf, CertificateError> {
        let validity = Validity::starting(now, LEAF_LIFE);
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, "croft admission server");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (validity.from.into(), validity.to.into());
        let key = KeyPair::generate()?;
        let chain = vec![params.signed_by(&key, &self.issuer)?.der().clone()];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Leaf { certified: CertifiedKey::from_der(chain, key, &ring::default_provider())?, validity })
    }

    /// The part of the bundle that is our own certificate.
    fn own_pem(&self) -> &str {
        self.bundle.split_inclusive("-----END CERTIFICATE-----").next().unwrap_or_default()
    }
}

/// A certificate chain and key that somebody else made, both in PEM.
pub(super) fn supplied(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|_| CertificateError::NotPem("tls.crt"))?;
    if chain.is_empty() {
        return Err(CertificateError::NotPem("tls.crt"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NotPem("tls.key"))?;
    Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn put(good: &str, at: prop::sample::Index, byte: u8) -> String {
        let mut bytes = good.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    proptest! {
        #[test]
        fn a_stored_authority_with_anything_in_it_is_read_or_refused(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), text in "\\PC{0,40}",
        ) {
            static GOOD: LazyLock<(String, String)> = LazyLock::new(|| {
                let made = Authority::generate(None, SystemTime::now()).unwrap();
                (made.bundle().to_owned(), made.key())
            });
            let (bundle, key) = (put(&GOOD.0, at, byte), put(&GOOD.1, at, byte));
            for (bundle, key) in [(&bundle, &GOOD.1), (&GOOD.0, &key), (&text, &text)] {
                if let Ok(read) = Authority::parse(bundle, key) {
                    let _ = (read.validity().is_due(SystemTime::now()), read.own_pem().len());
                }
                let _ = supplied(bundle.as_bytes(), key.as_bytes());
            }
        }
    }

    fn certificates(bundle: &str) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(bundle.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn an_authority_survives_being_written_and_read() {
        let made = Authority::generate(None, SystemTime::now()).unwrap();
        let read = Authority::parse(made.bundle(), &made.key()).unwrap();
        assert_eq!(read.bundle(), made.bundle());
        assert_eq!(read.key(), made.key());
        assert_eq!(read.certificate(), made.certificate());
        let drift = made.validity.to.duration_since(read.validity.to).unwrap();
        assert!(drift < Duration::from_secs(1), "certificates keep whole seconds only");
    }

    #[test]
    fn a_successor_vouches_for_its_predecessor_and_nobody_before() {
        let now = SystemTime::now();
        let first = Authority::generate(None, now).unwrap();
        let second = Authority::generate(Some(&first), now).unwrap();
        let third = Authority::generate(Some(&second), now).unwrap();
        assert_eq!(certificates(third.bundle()), [third.certificate().clone(), second.certificate().clone()]);
        let late = Authority::generate(Some(&first), now + AUTHORITY_LIFE).unwrap();
        assert_eq!(certificates(late.bundle()), [late.certificate().clone()]);
    }

    #[test]
    fn a_key_that_is_not_the_authoritys_is_refused() {
        let one = Authority::generate(None, SystemTime::now()).unwrap();
        let other = Authority::generate(None, SystemTime::now()).unwrap();
        assert!(matches!(Authority::parse(one.bundle(), &other.key()), Err(CertificateError::WrongKey)));
        assert!(matches!(Authority::parse("nonsense", &one.key()), Err(CertificateError::NotPem("ca.crt"))));
        assert!(matches!(Authority::parse(one.bundle(), "nonsense"), Err(CertificateError::NotPem("ca.key"))));
    }

    #[test]
    fn a_leaf_is_due_after_two_thirds_of_its_life_and_when_the_clock_went_back() {
        let now = SystemTime::now();
        let leaf = Authority::generate(None, now).unwrap().leaf(&["127.0.0.1".into()], now).unwrap();
        assert!(!leaf.validity.is_due(now));
        assert!(!leaf.validity.is_due(now + 19 * DAY));
        assert!(leaf.validity.is_due(now + 21 * DAY));
        assert!(leaf.validity.is_due(now - DAY));
    }
}
