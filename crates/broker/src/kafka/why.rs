//! Why a cluster is down, if TLS is: the client library tells neither a CA from a name nor what to
//! write instead, so a client of our own goes to the same hosts and is told.
//!
//! It only ever adds words to a refusal.

use std::io::{self, ErrorKind};
use std::time::Duration;

use event::{Cause, Code, Refusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;
use tokio_rustls::rustls::{CertificateError, Error};

use super::access::Cluster;
use crate::trust::{Trust, connect};

/// How long all hosts together have to say why.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the client library says of a port that does not understand it, which may be one for TLS.
const RIDDLES: [&str; 3] = ["SSL listener", "Invalid response size", "closed by peer"];

/// Returns a refusal with the reason for which TLS fails, if it does.
pub(super) async fn told(cluster: &Cluster, refusal: Refusal) -> Refusal {
    let Refusal::Down(cause) = refusal else { return refusal };
    let is_riddle = RIDDLES.iter().any(|riddle| cause.detail.contains(riddle));
    if cause.code != Code::SinkDown || cluster.way.trust.is_none() && !is_riddle {
        return Refusal::Down(cause);
    }
    let hosts = cluster.hosts.split(',');
    let mut asking: FuturesUnordered<_> = hosts
        .map(|host| wrong(host, cluster.way.trust.as_ref(), cluster.way.user.is_some()))
        .collect();
    let first = async {
        while let Some(told) = asking.next().await {
            if told.is_some() {
                return told;
            }
        }
        None
    };
    match timeout(PATIENCE, first).await {
        Ok(Some(told)) => Refusal::Down(Cause::new(Code::SinkDown, told)),
        _ => Refusal::Down(cause),
    }
}

/// Says what is wrong with TLS at a host, or with going there without.
async fn wrong(host: &str, trust: Option<&Trust>, is_shown: bool) -> Option<String> {
    let Some(trust) = trust else {
        let error = connect(host, Some(&Trust::of([]))).await.err()?;
        // It showed a certificate, and nobody was there to trust it.
        let Some(Error::InvalidCertificate(_)) = tls(&error) else { return None };
        return Some(format!("{host} speaks TLS: write kafka+tls://… in `url`"));
    };
    let error = connect(host, Some(trust)).await.err()?;
    let hung_up = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
    let advice = match tls(&error) {
        Some(Error::InvalidCertificate(why)) => trusted(why),
        // Whoever shows a password is never told to show it where all can read it.
        Some(Error::InvalidMessage(_)) if is_shown => NO_TLS,
        Some(Error::InvalidMessage(_)) => NO_TLS_OR_PLAIN,
        None if hung_up => HUNG_UP,
        Some(_) => "look at the TLS settings of its listener",
        None => return None,
    };
    Some(format!("{host}: TLS: {error}; {advice}"))
}

const NO_TLS: &str = "it seems to speak none there: write the port of its TLS listener in `url`";

const NO_TLS_OR_PLAIN: &str = "it seems to speak none there: write the port of its TLS listener, \
                               or kafka://… in `url`";

const HUNG_UP: &str = "it hung up, as one does that ends or that speaks no TLS there: see whether \
                       it is up, and whether `url` has the port of its TLS listener";

fn tls(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Says how a certificate comes to be trusted.
fn trusted(why: &CertificateError) -> &'static str {
    use CertificateError as Why;
    match why {
        // The second has the name of one that is trusted, and not its key.
        Why::UnknownIssuer | Why::BadSignature => {
            "install its CA on this machine, or name a file of CAs in SSL_CERT_FILE"
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "write a name that its certificate has in `url`, and in advertised.listeners of the \
             broker, or make a certificate for this one"
        }
        Why::Expired
        | Why::ExpiredContext { .. }
        | Why::NotValidYet
        | Why::NotValidYetContext { .. } => "renew it, or set the clock of this machine",
        _ => "make another one for the broker",
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::kafka::Access;
    use crate::trust::tests::certified;

    /// Lets come who comes; returns the port.
    async fn broker(tls: Option<TlsAcceptor>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                match &tls {
                    Some(tls) => drop(tls.accept(stream).await),
                    // Kafka hangs up on whoever announces too much.
                    None => drop(stream.read_u32().await),
                }
            }
        });
        port
    }

    async fn told_of(host: String, trust: Option<Trust>, said: Refusal) -> Refusal {
        let mut cluster = Cluster::new(&Access::open(&format!("kafka://{host}"))).unwrap();
        cluster.way.trust = trust;
        told(&cluster, said).await
    }

    fn down(detail: &str) -> Refusal {
        Refusal::Down(Cause::new(Code::SinkDown, detail))
    }

    fn said(refusal: Refusal) -> String {
        let Refusal::Down(Cause { code: Code::SinkDown, detail }) = refusal else {
            panic!("{refusal:?}")
        };
        detail
    }

    #[tokio::test]
    async fn each_fault_of_tls_is_told_with_what_to_do() {
        let (tls, ca) = certified();
        let (safe, plain) = (broker(Some(tls)).await, broker(None).await);
        let trusting = || Some(Trust::of([ca.clone()]));
        for (name, port, trust, parts) in [
            ("localhost", safe, Some(Trust::of([])), ["UnknownIssuer", "SSL_CERT_FILE"]),
            ("127.0.0.1", safe, trusting(), ["not valid for name", "advertised.listeners"]),
            ("localhost", plain, trusting(), ["it hung up", "the port of its TLS listener"]),
        ] {
            let told = said(told_of(format!("{name}:{port}"), trust, down("gone")).await);
            let all = parts.iter().all(|part| told.contains(part));
            assert!(all && told.starts_with(&format!("{name}:{port}: ")), "{told}");
        }
        let host = || format!("localhost:{safe}");
        for riddle in RIDDLES {
            let told = said(told_of(host(), None, down(riddle)).await);
            assert!(told.contains("write kafka+tls://"), "{told}");
        }
        assert_eq!(said(told_of(host(), None, down("gone")).await), "gone");
        assert_eq!(said(told_of(host(), trusting(), down("gone")).await), "gone", "TLS is well");
        let away = told_of("127.0.0.1:1".to_owned(), trusting(), down("refused")).await;
        assert_eq!(said(away), "refused");
    }

    #[tokio::test]
    async fn what_is_no_matter_of_tls_stays_as_it_is() {
        // TLS fails there.
        let port = broker(None).await;
        let refused = Refusal::Down(Cause::new(Code::AuthRefused, "joe"));
        for refusal in [refused, Refusal::Held] {
            let trust = Some(Trust::of([]));
            assert_eq!(told_of(format!("localhost:{port}"), trust, refusal.clone()).await, refusal);
        }
    }
}
