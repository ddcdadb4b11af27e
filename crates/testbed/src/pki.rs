//! The instance's own certificate authority and keys.

use std::net::Ipv4Addr;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// One authority signs the API server's certificate and those of the tenants.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "croft testbed");
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The authority's private key, for the controller manager, which signs client certificates with it.
    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A serving certificate for whoever comes to one of `addresses`.
    pub(crate) fn server(&self, addresses: &[Ipv4Addr]) -> Result<Pair> {
        let names = addresses.iter().map(ToString::to_string).chain(["localhost".to_owned()]);
        let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        Ok(Pair { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

/// Private and public key in PEM, for service account tokens.
pub(crate) fn signing_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// A certificate signing request for user `name` in group `group`, and the key that goes with it.
pub(crate) fn user_request(name: &str, group: &str) -> Result<Pair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: params.serialize_request(&key)?.pem()?, key: key.serialize_pem() })
}
