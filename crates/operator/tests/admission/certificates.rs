//! Certificates that somebody else supplies, and a client's view of what is served.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{
    CA_SECRET, first_refusal, kubernetes, refusal, secret,
    support::{PATIENCE, World, eventually},
    trusted,
};

/// The first certificate of a bundle, in PEM.
pub(crate) fn first_certificate(bundle: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    let end = bundle.find(END).unwrap() + END.len();
    bundle[..end].trim()
}

/// Whether a client that trusts `authority` alone accepts what is served on `port`.
pub(crate) async fn is_served_by(port: u16, authority: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
}

/// A Secret as cert-manager makes it, by an authority of its own, and that authority's certificate.
fn supplied() -> (Value, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "supplied", "namespace": "croft-system" },
        "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": leaf.pem(), "tls.key": key.serialize_pem(), "ca.crt": authority.pem() },
    });
    (secret, authority.pem())
}

#[tokio::test]
async fn a_supplied_certificate_is_served_and_reloaded_when_it_is_renewed() -> Result<()> {
    let (bed, installed) = World::installed(kubernetes()).await?;
    let client = bed.admin().client.clone();
    let settings = bed.dir().join("settings.yaml");
    std::fs::write(&settings, "admission:\n  certificateSecret: supplied\n")?;
    let arguments = ["--config", settings.to_str().unwrap()];
    let operator = installed.start(&bed, "own", &installed.identity.kubeconfig, &arguments)?;
    eventually("a replica without its certificate to be running, not ready, and to say so", || async {
        let (ready, detail) = operator.readiness().await?;
        assert!(!ready, "the API server cannot reach admission yet:\n{detail}");
        Ok(detail.contains("[-] admission: waiting for a certificate").then_some(()))
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "croft-system");
    for _ in ["issued", "renewed by another authority"] {
        let (wanted, authority) = supplied();
        secrets.patch("supplied", &PatchParams::apply("cert-manager").force(), &Patch::Apply(&wanted)).await?;
        eventually("the supplied authority to be trusted", || async {
            let told = trusted(&client).await? == Some(authority.clone());
            Ok((told && is_served_by(installed.webhook_port, &authority).await).then_some(()))
        })
        .await;
        first_refusal(&client).await;
        operator.ready(PATIENCE).await?;
    }
    assert!(secret(&client, CA_SECRET).await?.is_none(), "no authority of our own is made");
    Ok(())
}

#[tokio::test]
async fn a_supplied_certificate_of_another_authority_takes_over_without_a_request_unanswered() -> Result<()> {
    let (bed, installed) = World::installed(kubernetes()).await?;
    let client = bed.admin().client.clone();
    let settings = bed.dir().join("settings.yaml");
    std::fs::write(&settings, "admission:\n  certificateSecret: supplied\n")?;
    let arguments = ["--config", settings.to_str().unwrap()];
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "croft-system");
    let supply = async |wanted: Value| {
        secrets.patch("supplied", &PatchParams::apply("cert-manager").force(), &Patch::Apply(&wanted)).await
    };
    supply(supplied().0).await?;
    let operator = installed.start(&bed, "own", &installed.identity.kubeconfig, &arguments)?;
    operator.ready(PATIENCE).await?;
    first_refusal(&client).await;
    let (wanted, authority) = supplied();
    supply(wanted).await?;
    let taken_over = eventually("the new authority alone to be trusted", || async {
        if let Err(unanswered) = refusal(&client).await {
            return Ok(Some(Err(unanswered)));
        }
        Ok((trusted(&client).await? == Some(authority.clone())).then_some(Ok(())))
    })
    .await;
    taken_over?;
    assert!(is_served_by(installed.webhook_port, &authority).await);
    Ok(())
}
