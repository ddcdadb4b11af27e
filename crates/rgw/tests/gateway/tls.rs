//! https with a private certificate authority: a TLS terminator in front of the real gateway.

use std::{net::SocketAddr, sync::Arc};

use crate::support::{admin, endpoint};
use croft_rgw::{Endpoint, ErrorClass, Gateway, UserId};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{io::copy_bidirectional, net::TcpListener, net::TcpStream};
use tokio_rustls::TlsAcceptor;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn acceptor(authority: &Authority) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Serves https on the address given back, until the test's runtime ends.
async fn terminator(authority: &Authority) -> SocketAddr {
    let acceptor = acceptor(authority);
    let plain = endpoint().await.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let mut tls = acceptor.accept(socket).await?;
                copy_bidirectional(&mut tls, &mut TcpStream::connect(plain).await?).await
            });
        }
    });
    address
}

async fn gateway_over_tls(address: SocketAddr, ca_pem: Option<String>) -> Gateway {
    let endpoint = Endpoint { url: format!("https://{address}"), ca_pem, ..endpoint().await };
    Gateway::new(endpoint, admin().await).unwrap()
}

#[tokio::test]
async fn a_private_authority_is_trusted_when_given_and_only_then() {
    let ours = authority();
    let address = terminator(&ours).await;
    let nobody = UserId::new("tls", "nobody").unwrap();

    let trusting = gateway_over_tls(address, Some(ours.pem())).await;
    assert_eq!(trusting.user(&nobody).await, Ok(None));

    for other in [None, Some(authority().pem())] {
        let refused = gateway_over_tls(address, other).await.user(&nobody).await.unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Transient);
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
}
