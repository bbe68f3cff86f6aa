//! From an address of a config to the settings of the client library.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::{Cause, Code};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::way::Way;
use super::{Access, Mechanism};
use crate::roots;
use crate::trust::Trust;

/// How long the client rests before it connects again, at the least and at the most.
const REST: [&str; 2] = ["100", "1000"];

/// What brings the client library TLS and SCRAM.
const OPENSSL: bool = cfg!(feature = "kafka-tls");

/// How many letters of a certificate stand in a line.
const LINE: usize = 64;

/// A cluster whose address was checked.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    /// `HOST:PORT,HOST:PORT`, as the client library and a person read it.
    pub(super) hosts: String,
    /// How a client of our own reaches each broker.
    pub(super) way: Way,
    /// Whom the client library trusts, as it reads it; without them nothing is encrypted.
    cas: Option<String>,
}

impl Cluster {
    /// Checks an address. Nothing is connected.
    pub(super) fn new(access: &Access) -> Result<Cluster, Cause> {
        let Access { url, user, mechanism } = access.clone();
        let (tls, hosts) = read(&url)?;
        if !OPENSSL && mechanism != Mechanism::Plain {
            return Err(without_openssl("mechanism: SCRAM"));
        }
        // Both clients trust the same.
        let cas = tls.then(roots::machine).transpose()?;
        let trust = cas.clone().map(Trust::of);
        let way = Way { trust, user, mechanism };
        Ok(Cluster { hosts, way, cas: cas.map(|cas| written(&cas)) })
    }

    /// Returns what every client of the cluster is told.
    pub(super) fn config(&self, timeout: Duration) -> ClientConfig {
        let mut config = ClientConfig::new();
        let millis = timeout.as_millis().clamp(1000, 300_000).to_string();
        config.set("bootstrap.servers", &self.hosts);
        config.set("client.id", "postbox");
        config.set("socket.timeout.ms", &millis);
        config.set("socket.connection.setup.timeout.ms", &millis);
        config.set("socket.keepalive.enable", "true");
        // Asking for the cluster anew while all of it is away can leave a client without any broker
        // for good, though they come back. Whoever knows none any more makes a fresh client.
        config.set("metadata.recovery.strategy", "none");
        config.set("reconnect.backoff.ms", REST[0]).set("reconnect.backoff.max.ms", REST[1]);
        let Way { user, mechanism, .. } = &self.way;
        let protocol = match (&self.cas, user) {
            (None, None) => "plaintext",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), None) => "ssl",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(cas) = &self.cas {
            config.set("ssl.ca.pem", cas).set("ssl.endpoint.identification.algorithm", "https");
        }
        if let Some((user, password)) = user {
            config.set("sasl.mechanisms", mechanism.name());
            config.set("sasl.username", user).set("sasl.password", password.reveal());
        }
        // By its lines the library tells of connections that were lost; see `live`.
        config.set_log_level(RDKafkaLogLevel::Info);
        config
    }
}

/// Reads whether all is encrypted, and the hosts.
fn read(url: &str) -> Result<(bool, String), Cause> {
    let invalid = |why: &str| Cause::new(Code::ConfigInvalid, format_args!("url: {why}"));
    let (tls, rest) = match url.split_once("://") {
        Some(("kafka", rest)) => (false, rest),
        Some(("kafka+tls", rest)) if OPENSSL => (true, rest),
        Some(("kafka+tls", _)) => return Err(without_openssl("url: Kafka over TLS")),
        _ => return Err(invalid("write kafka://HOST:PORT,HOST:PORT or kafka+tls://…")),
    };
    if rest.contains('@') {
        return Err(invalid("user and password have keys of their own, `user` and `password`"));
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let host = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(host.to_owned())
        }
        None if !host.is_empty() => Ok(format!("{host}:9092")),
        _ => Err(invalid(&format!("{host:?} is no HOST:PORT"))),
    };
    if rest.contains(['/', '?', '#', ' ']) {
        return Err(invalid("it holds nothing but hosts and ports"));
    }
    let hosts: Result<Vec<String>, Cause> = rest.split(',').map(host).collect();
    Ok((tls, hosts?.join(",")))
}

fn without_openssl(what: &str) -> Cause {
    let detail = format_args!(
        "{what} is not in this build: its client library knows only OpenSSL's, which was left out. \
         Build with the feature kafka-tls, or write kafka://… and no `mechanism`, and let a tunnel \
         or a mesh encrypt the way"
    );
    Cause::new(Code::ConfigInvalid, detail)
}

/// Writes certificates down as OpenSSL reads them.
fn written(cas: &[CertificateDer<'_>]) -> String {
    let mut all = String::new();
    for ca in cas {
        let text = STANDARD.encode(ca);
        all.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(LINE) {
            all.extend(line.iter().map(|letter| char::from(*letter)));
            all.push('\n');
        }
        all.push_str("-----END CERTIFICATE-----\n");
    }
    all
}

#[cfg(test)]
mod tests {
    use event::Secret;

    use super::*;
    #[cfg(feature = "kafka-tls")]
    use crate::trust::tests::certified;

    fn cluster(url: &str) -> Result<Cluster, Cause> {
        Cluster::new(&Access::open(url))
    }

    #[test]
    fn an_address_is_a_list_of_hosts() {
        let hosts = |url: &str| cluster(url).map(|cluster| cluster.hosts);
        assert_eq!(hosts("kafka://a:1,b:2/").unwrap(), "a:1,b:2");
        assert_eq!(hosts("kafka://a,[::1]:2").unwrap(), "a:9092,[::1]:2");
        for wrong in ["a:1", "http://a:1", "kafka://", "kafka://a:x", "kafka://a:1,", "kafka://a/b"]
        {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
        let told = hosts("kafka://joe:canary@a:1").unwrap_err();
        assert!(told.detail.contains("`password`") && !told.detail.contains("canary"), "{told}");
    }

    #[cfg(not(feature = "kafka-tls"))]
    #[test]
    fn without_openssl_tls_and_scram_are_refused_with_what_to_do_instead() {
        let mechanism = Mechanism::ScramSha256;
        for access in
            [Access::open("kafka+tls://a:1"), Access { mechanism, ..Access::open("kafka://a:1") }]
        {
            let told = Cluster::new(&access).unwrap_err();
            assert_eq!(told.code, Code::ConfigInvalid);
            assert!(
                told.detail.contains("kafka-tls") && told.detail.contains("kafka://"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_user_shows_a_password_as_the_mechanism_says_and_nobody_else_shows_any() {
        for (mechanism, name) in [
            (Mechanism::Plain, "PLAIN"),
            #[cfg(feature = "kafka-tls")]
            (Mechanism::ScramSha256, "SCRAM-SHA-256"),
            #[cfg(feature = "kafka-tls")]
            (Mechanism::ScramSha512, "SCRAM-SHA-512"),
        ] {
            let user = Some(("joe".to_owned(), Secret::new("pw")));
            let access = Access { user, mechanism, ..Access::open("kafka://a:1") };
            let config = Cluster::new(&access).unwrap().config(Duration::from_secs(1));
            assert_eq!(config.get("security.protocol"), Some("sasl_plaintext"));
            assert_eq!(config.get("sasl.mechanisms"), Some(name));
            assert_eq!(
                (config.get("sasl.username"), config.get("sasl.password")),
                (Some("joe"), Some("pw"))
            );
        }
        let config = cluster("kafka://a:1").unwrap().config(Duration::ZERO);
        assert_eq!(config.get("security.protocol"), Some("plaintext"));
        assert_eq!(config.get("sasl.password"), None);
    }

    #[cfg(feature = "kafka-tls")]
    #[test]
    fn with_tls_the_library_takes_every_ca_and_looks_at_names() {
        let cas = [certified().1, certified().1];
        let mut cluster = cluster("kafka://a:1").unwrap();
        cluster.cas = Some(written(&cas));
        let config = cluster.config(Duration::from_secs(1));
        assert_eq!(config.get("security.protocol"), Some("ssl"));
        assert_eq!(config.get("ssl.endpoint.identification.algorithm"), Some("https"));
        let read = config.get("ssl.ca.pem").unwrap();
        assert_eq!(read.matches("-----BEGIN CERTIFICATE-----\n").count(), 2);
        assert!(read.lines().all(|line| line.len() <= LINE), "{read}");
        let made = config.create::<rdkafka::producer::BaseProducer>();
        assert!(made.is_ok(), "the library reads them");
        cluster.way.user = Some(("joe".to_owned(), Secret::new("pw")));
        let config = cluster.config(Duration::from_secs(1));
        assert_eq!(config.get("security.protocol"), Some("sasl_ssl"));
    }
}
