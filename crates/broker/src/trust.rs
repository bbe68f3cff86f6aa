//! How thin clients of our own connect: plainly, or with TLS from the first byte.

use std::io;
use std::sync::Arc;

use event::Cause;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::roots;

/// Both ways of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Whose certificates are trusted.
#[derive(Clone, Debug)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts the CAs of the machine.
    pub fn machine() -> Result<Trust, Cause> {
        Ok(Trust::of(roots::machine()?))
    }

    /// Trusts some CAs; what cannot be read is none.
    pub(crate) fn of(cas: impl IntoIterator<Item = CertificateDer<'static>>) -> Trust {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(cas);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks every safe version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Trust(Arc::new(config))
    }
}

/// Connects to `HOST:PORT`.
pub(crate) async fn connect(address: &str, trust: Option<&Trust>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(Trust(config)) = trust else { return Ok(Box::new(stream)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?))
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;

    /// Returns the side of a server that is called `localhost`, and the CA that vouches for it.
    pub(crate) fn certified() -> (TlsAcceptor, CertificateDer<'static>) {
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
}
