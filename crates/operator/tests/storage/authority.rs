//! A gateway behind https, with a certificate of an authority that nobody knows but its class.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    classes::{class_says, message},
    plot::Plot,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Result<Authority> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor> {
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, authority)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Ends https in front of the gateway.
struct Terminator {
    address: SocketAddr,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    connections: Arc<Mutex<JoinSet<std::io::Result<()>>>>,
}

impl Terminator {
    async fn new(plain: String, authority: &Authority) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let acceptor = Arc::new(Mutex::new(acceptor(authority)?));
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let (acceptors, open) = (acceptor.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptors.lock().expect("a lock").clone(), plain.clone());
                open.lock().expect("a lock").spawn(async move {
                    let mut tls = acceptor.accept(socket).await?;
                    copy_bidirectional(&mut tls, &mut TcpStream::connect(plain).await?).await.map(drop)
                });
            }
        });
        Ok(Self { address, acceptor, connections })
    }

    /// From now on with a certificate of another authority, for those who are connected, too.
    fn is_certified_by(&self, authority: &Authority) -> Result<()> {
        *self.acceptor.lock().expect("a lock") = acceptor(authority)?;
        self.connections.lock().expect("a lock").abort_all();
        Ok(())
    }
}

#[tokio::test]
async fn a_class_trusts_the_authority_it_names_and_the_next_one_when_it_is_told() -> Result<()> {
    let plot = Plot::new("trusts").await?;
    let name = format!("trusts-{}", plot.namespace);
    let plain = plot.ceph.endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let (first, next) = (authority()?, authority()?);
    let gateway = Terminator::new(plain, &first).await?;
    let endpoint = format!("https://{}", gateway.address);

    plot.class(&name, json!({ "endpoint": endpoint, "caBundle": next.pem() })).await?;
    let told = message(&class_says(&plot, &name, "False", "GatewayUnreachable").await);
    assert!(told.contains("certificate"), "{told}");
    plot.class(&name, json!({ "endpoint": endpoint, "caBundle": first.pem() })).await?;
    class_says(&plot, &name, "True", "Reached").await;
    plot.claim(json!({ "s3ClassName": name })).await?;
    plot.ready("data").await;
    assert_eq!(plot.secret("admin").await?["endpoint"], endpoint);

    gateway.is_certified_by(&next)?;
    plot.claim(json!({ "s3ClassName": name, "quota": { "buckets": 7 } })).await?;
    class_says(&plot, &name, "False", "GatewayUnreachable").await;
    plot.class(&name, json!({ "endpoint": endpoint, "caBundle": next.pem() })).await?;
    plot.ready("data").await;
    assert_eq!(plot.user("data").await?.expect("a user").max_buckets, croft_rgw::BucketLimit::AtMost(7));
    Ok(())
}
