//! How a connection is made: the name resolved, its addresses checked, TLS where the URL asks for
//! it.
//!
//! It takes no proxy, and trusts nobody but the machine's roots.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Code};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::address;
use super::client::{Failure, Line};
use crate::roots;

/// How long an address may stay silent before the next of a name is tried beside it.
const SILENCE: Duration = Duration::from_millis(300);

/// Where a connection goes to.
pub(super) struct Dial {
    name: String,
    port: u16,
    allow_private: bool,
    timeout: Duration,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dial {
    /// Reads where to from a URL; `https` has TLS with the roots given, or else the machine's.
    pub(super) fn new(
        url: &Url,
        allow_private: bool,
        timeout: Duration,
        roots: Option<RootCertStore>,
    ) -> Result<Dial, Cause> {
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, format_args!("url: {why}"));
        let name = match url.host().ok_or_else(|| invalid("no host"))? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let port = url.port_or_known_default().ok_or_else(|| invalid("no port"))?;
        let tls = if url.scheme() == "https" {
            let mut config = trust(roots.map_or_else(platform, Ok)?)?;
            config.alpn_protocols = vec!["http/1.1".into()];
            let server = ServerName::try_from(name.clone());
            let server = server.map_err(|_| invalid("no certificate can be made for its host"))?;
            Some((TlsConnector::from(Arc::new(config)), server))
        } else {
            None
        };
        Ok(Dial { name, port, allow_private, timeout, tls })
    }

    /// Connects. It runs by itself from then on, until its other end is dropped.
    pub(super) async fn connect(&self) -> Result<Line, Failure> {
        let connecting = timeout(self.timeout, self.open()).await;
        connecting.unwrap_or_else(|_| {
            Err(Failure::Down(format!("no connection within {:?}", self.timeout)))
        })
    }

    async fn open(&self) -> Result<Line, Failure> {
        let addresses = address::resolve(&self.name, self.port, self.allow_private).await?;
        let stream = first(addresses, TcpStream::connect).await.map_err(Failure::down)?;
        stream.set_nodelay(true).map_err(Failure::down)?;
        let Some((tls, server)) = &self.tls else { return speak(stream).await };
        speak(tls.connect(server.clone(), stream).await.map_err(Failure::down)?).await
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("name", &self.name).field("port", &self.port).finish()
    }
}

pub(super) async fn speak<S>(stream: S) -> Result<Line, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (line, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Failure::down)?;
    // Whoever waits for a response is told how it ended.
    tokio::spawn(connection);
    Ok(line)
}

/// Connects to the first address that answers: the next is tried once one fails or stays silent,
/// and a silent one can still win.
async fn first<T, F>(addresses: Vec<SocketAddr>, connect: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let (mut left, mut trying) = (addresses.into_iter(), FuturesUnordered::new());
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        trying.extend(left.next().map(&connect));
        if trying.is_empty() {
            return Err(failed);
        }
        tokio::select! {
            Some(tried) = trying.next() => match tried {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            },
            () = sleep(SILENCE), if left.len() > 0 => {}
        }
    }
}

/// Returns the machine's own roots.
fn platform() -> Result<RootCertStore, Cause> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(roots::machine()?);
    Ok(roots)
}

fn trust(roots: RootCertStore) -> Result<ClientConfig, Cause> {
    let invalid = |error| Cause::new(Code::ConfigInvalid, format_args!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// For plain HTTP, which must work on a machine without certificates.
#[cfg(feature = "rabbitmq")]
pub(crate) fn trust_nobody() -> Result<ClientConfig, Cause> {
    trust(RootCertStore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries addresses of which each answers after so many milliseconds, well or not. Returns the
    /// port that won, if one did, and when.
    async fn race(answers: &[(u64, bool)]) -> (Option<u16>, u128) {
        let ports = 0..u16::try_from(answers.len()).unwrap();
        let addresses = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let began = tokio::time::Instant::now();
        let connect = async |address: SocketAddr| {
            let (millis, well) = answers[usize::from(address.port())];
            sleep(Duration::from_millis(millis)).await;
            if well { Ok(address.port()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
        };
        let won = first(addresses, connect).await;
        (won.ok(), began.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn of_the_addresses_of_a_name_the_first_that_answers_is_taken() {
        assert_eq!(race(&[(10, true), (0, true)]).await, (Some(0), 10));
        assert_eq!(race(&[(10, false), (20, true)]).await, (Some(1), 30), "one that refuses");
        assert_eq!(race(&[(9000, true), (20, true)]).await, (Some(1), 320), "one that is silent");
        assert_eq!(race(&[(500, true), (900, true)]).await, (Some(0), 500), "a late one wins");
        assert_eq!(race(&[(10, false), (20, false)]).await, (None, 30));
        assert_eq!(race(&[]).await, (None, 0));
    }
}
