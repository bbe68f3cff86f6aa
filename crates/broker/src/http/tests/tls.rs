//! TLS: a trusted destination gets the event; anything else is down before it could read it.

use std::sync::Arc;
use std::time::Duration;

use event::{Answer, Code, Sink};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::server::{Server, status};
use super::{event, kind, options, publish_one};
use crate::http::{Http, Options, address};

/// Makes a server's side, and the certificate that a client must trust.
fn identity() -> (TlsAcceptor, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), cert.der().clone())
}

fn trusting(given: Options, trusted: Option<CertificateDer<'static>>) -> Http {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted);
    let url = address::read(&given.url, true).unwrap();
    Http::with(given, url, Some(roots)).unwrap()
}

async fn publish_to(port: u16, trusted: Option<CertificateDer<'static>>) -> Answer {
    let http = trusting(options(format!("https://localhost:{port}/")), trusted);
    let answer = publish_one(&http, event()).await;
    assert_eq!(http.probe().await.is_ok(), answer.is_ok());
    answer
}

#[tokio::test]
async fn a_trusted_destination_gets_the_event() {
    let (acceptor, certificate) = identity();
    let server = Server::tls(acceptor).await;
    assert_eq!(kind(&publish_to(server.port, Some(certificate)).await), ("receipt", None));
}

#[tokio::test]
async fn an_untrusted_certificate_is_down_and_nothing_is_read() {
    let server = Server::tls(identity().0).await;
    let other = identity().1;
    for trusted in [None, Some(other)] {
        let answer = publish_to(server.port, trusted).await;
        assert_eq!(kind(&answer), ("down", Some(Code::SinkDown)));
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn a_destination_that_speaks_no_tls_is_down() {
    let server = Server::start(|_| status(200)).await;
    let answer = publish_to(server.port, None).await;
    assert_eq!(kind(&answer), ("down", Some(Code::SinkDown)));
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let timeout = Duration::from_millis(600);
    let http = trusting(Options { timeout, ..options(url) }, None);
    let answer = publish_one(&http, event()).await;
    assert_eq!(kind(&answer), ("down", Some(Code::SinkDown)));
}

#[test]
fn the_platforms_roots_are_trusted_where_there_are_any() {
    let made = Http::new(Options::new("https://example.org/", "orders"));
    if let Err(cause) = made {
        assert!(cause.detail.contains("No CA certificates"), "{cause}");
    }
}
