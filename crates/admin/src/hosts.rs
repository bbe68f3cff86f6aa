//! Which `Host` a request may name. A page of another site that points its own name at this
//! machine (DNS rebinding) carries that name, and is turned away.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::{Authority, Uri};

/// The names this listener answers to.
pub(crate) struct Hosts {
    local: IpAddr,
    extra: Vec<String>,
}

impl Hosts {
    /// Takes the listener's address and further names, each with or without a port.
    pub(crate) fn new(local: SocketAddr, extra: &[String]) -> Hosts {
        let extra = extra.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        Hosts { local: local.ip(), extra }
    }

    /// Tells whether a request may name this host.
    pub(crate) fn allows(&self, host: &str) -> bool {
        let Some(authority) = authority(host) else { return false };
        let name = authority.host().to_ascii_lowercase();
        let whole = authority.as_str().to_ascii_lowercase();
        if name == "localhost" || self.extra.iter().any(|e| *e == name || *e == whole) {
            return true;
        }
        let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // A literal address cannot be rebound, so a wildcard listener answers to any of them.
        literal.is_ok_and(|ip| ip.is_loopback() || ip == self.local || self.local.is_unspecified())
    }
}

/// Tells whether an `Origin` is the origin that a request to `host` has.
pub(crate) fn same_origin(origin: &str, host: &str) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    web && uri.authority().is_some_and(|of| of.as_str().eq_ignore_ascii_case(host))
}

fn authority(host: &str) -> Option<Authority> {
    host.parse::<Authority>().ok().filter(|authority| !authority.as_str().contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(local: &str, extra: &[&str]) -> Hosts {
        let extra: Vec<String> = extra.iter().map(|name| (*name).to_string()).collect();
        Hosts::new(local.parse().unwrap(), &extra)
    }

    #[test]
    fn loopback_names_and_the_allowed_ones_pass_and_no_other() {
        let hosts = hosts("127.0.0.1:9000", &["Postbox.internal", "box.internal:8443"]);
        let passing = ["localhost:1", "127.0.0.1:9000", "127.9.9.9", "[::1]:80", "LOCALHOST"];
        for host in passing.into_iter().chain(["postbox.internal:80", "box.internal:8443"]) {
            assert!(hosts.allows(host), "{host}");
        }
        let refused = ["evil.example", "localhost.evil.example", "10.0.0.1", "", "x@localhost"];
        for host in refused.into_iter().chain(["127.0.0.1.evil.example", "box.internal:1"]) {
            assert!(!hosts.allows(host), "{host}");
        }
    }

    #[test]
    fn a_wildcard_listener_answers_to_literal_addresses_only() {
        let hosts = hosts("0.0.0.0:9000", &[]);
        assert!(hosts.allows("10.1.2.3:9000"));
        assert!(!hosts.allows("rebound.example:9000"));
    }

    #[test]
    fn an_origin_is_the_same_only_with_the_same_host_and_port() {
        assert!(same_origin("http://127.0.0.1:9000", "127.0.0.1:9000"));
        assert!(same_origin("https://Box.internal", "box.internal"));
        for origin in ["http://127.0.0.1:9001", "null", "", "file://127.0.0.1:9000", "http://evil"]
        {
            assert!(!same_origin(origin, "127.0.0.1:9000"), "{origin}");
        }
    }
}
