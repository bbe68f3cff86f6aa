//! From an address of a config to the settings of the client library.

use std::time::Duration;

use event::{Cause, Code, Secret};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::Access;

/// How long the client rests before it connects again, at the least and at the most.
const REST: [&str; 2] = ["100", "1000"];

/// A cluster whose address was checked.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    access: Access,
    /// `HOST:PORT,HOST:PORT`, as the client library and a person read it.
    pub(super) hosts: String,
}

impl Cluster {
    /// Checks an address. Nothing is connected.
    pub(super) fn new(access: &Access) -> Result<Cluster, Cause> {
        Ok(Cluster { access: access.clone(), hosts: hosts(&access.url)? })
    }

    /// Returns who is let in.
    pub(super) fn user(&self) -> Option<&(String, Secret)> {
        self.access.user.as_ref()
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
        if let Some((user, password)) = &self.access.user {
            config.set("security.protocol", "sasl_plaintext").set("sasl.mechanisms", "PLAIN");
            config.set("sasl.username", user).set("sasl.password", password.reveal());
        }
        // By its lines the library tells of connections that were lost; see `live`.
        config.set_log_level(RDKafkaLogLevel::Info);
        config
    }
}

fn hosts(url: &str) -> Result<String, Cause> {
    let invalid = |why: &str| Cause::new(Code::ConfigInvalid, format_args!("url: {why}"));
    let rest = match url.split_once("://") {
        Some(("kafka", rest)) => rest,
        Some(("kafka+tls" | "kafkas", _)) => {
            return Err(invalid(
                "Kafka over TLS is not there: its client library knows only OpenSSL's, which is \
                 not built in. Write kafka://…, and let a tunnel or a mesh encrypt the way",
            ));
        }
        _ => return Err(invalid("write kafka://HOST:PORT,HOST:PORT")),
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
    Ok(hosts?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(url: &str) -> Access {
        Access { url: url.to_owned(), user: None }
    }

    #[test]
    fn an_address_is_a_list_of_hosts() {
        let hosts = |url: &str| Cluster::new(&access(url)).map(|cluster| cluster.hosts);
        assert_eq!(hosts("kafka://a:1,b:2/").unwrap(), "a:1,b:2");
        assert_eq!(hosts("kafka://a,[::1]:2").unwrap(), "a:9092,[::1]:2");
        for wrong in ["a:1", "http://a:1", "kafka://", "kafka://a:x", "kafka://a:1,", "kafka://a/b"]
        {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
        let told = hosts("kafka://joe:canary@a:1").unwrap_err();
        assert!(told.detail.contains("`password`") && !told.detail.contains("canary"), "{told}");
    }

    #[test]
    fn tls_is_refused_with_what_to_do_instead() {
        let told = Cluster::new(&access("kafka+tls://a:1")).unwrap_err();
        assert_eq!(told.code, Code::ConfigInvalid);
        assert!(told.detail.contains("OpenSSL") && told.detail.contains("kafka://"), "{told}");
    }

    #[test]
    fn a_user_shows_a_password_in_plain_and_nobody_else_shows_any() {
        let user = Some(("joe".to_owned(), Secret::new("pw")));
        let cluster = Cluster::new(&Access { user, ..access("kafka://a:1") }).unwrap();
        let config = cluster.config(Duration::from_secs(1));
        assert_eq!(config.get("security.protocol"), Some("sasl_plaintext"));
        assert_eq!(
            (config.get("sasl.username"), config.get("sasl.password")),
            (Some("joe"), Some("pw"))
        );
        let cluster = Cluster::new(&access("kafka://a:1")).unwrap();
        assert_eq!(cluster.config(Duration::ZERO).get("security.protocol"), None);
    }
}
