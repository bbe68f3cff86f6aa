//! How name servers and brokers are connected to: plainly, or with TLS from the first byte.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Both ways of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Whose certificates are trusted.
#[derive(Clone, Debug)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts the roots of the system.
    pub fn system() -> Trust {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Trust::roots(roots)
    }

    pub(super) fn roots(roots: RootCertStore) -> Trust {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks every safe version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Trust(Arc::new(config))
    }
}

/// Connects to `HOST:PORT`.
pub(super) async fn connect(address: &str, trust: Option<&Trust>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(Trust(config)) = trust else { return Ok(Box::new(stream)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?))
}
