//! Which addresses the sink `http` may connect to: public ones, unless the config allows all.
//!
//! The check comes after name resolution, and only checked addresses are handed to the connection,
//! so a name that changes its mind in between gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use event::{Cause, Code};
use thiserror::Error;
use url::{Host, Url};

use super::client::Failure;

/// An address that is not public.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{address} is not a public address ({why}); allow_private allows it")]
pub(super) struct Forbidden {
    address: IpAddr,
    why: &'static str,
}

/// Reads the destination's URL. The text is in no error: a path or a query may hold a secret.
pub(super) fn read(text: &str, allow_private: bool) -> Result<Url, Cause> {
    let invalid = |why: &str| Cause::new(Code::ConfigInvalid, format_args!("url: {why}"));
    let url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("only http and https can be published to"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("user and password do not belong there; use a header"));
    }
    let literal = match url.host() {
        None => return Err(invalid("no host")),
        Some(Host::Domain(_)) => None,
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
    };
    if let (false, Some(address)) = (allow_private, literal) {
        check(address).map_err(|error| Cause::new(Code::AddressRefused, error))?;
    }
    Ok(url)
}

/// Resolves a name with the machine's resolver, and drops what is forbidden.
pub(super) async fn resolve(
    name: &str,
    port: u16,
    allow_private: bool,
) -> Result<Vec<SocketAddr>, Failure> {
    let found = tokio::net::lookup_host((name, port)).await.map_err(Failure::down)?;
    if allow_private {
        return Ok(found.collect());
    }
    public(found).map_err(Failure::Forbidden)
}

/// Keeps the public addresses; it is an error when there are others only.
fn public(found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, Forbidden> {
    let mut allowed = Vec::new();
    let mut refused = None;
    for address in found {
        match check(address.ip()) {
            Ok(()) => allowed.push(address),
            Err(forbidden) => refused = Some(forbidden),
        }
    }
    match refused {
        Some(forbidden) if allowed.is_empty() => Err(forbidden),
        _ => Ok(allowed),
    }
}

/// Tells whether an address is public.
pub(super) fn check(address: IpAddr) -> Result<(), Forbidden> {
    let why = match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    };
    why.map_or(Ok(()), |why| Err(Forbidden { address, why }))
}

/// IPv4 blocks that IANA lists as not globally reachable, and multicast.
const V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "carrier-grade NAT"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
    (Ipv4Addr::BROADCAST, 32, "broadcast"),
];

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |&&(block, bits, _): &&(Ipv4Addr, u32, &str)| {
        (address.to_bits() ^ block.to_bits()) >> (32 - bits) == 0
    };
    V4.iter().find(within).map(|(_, _, why)| *why)
}

/// IPv6 blocks inside the global unicast space that are not public.
const V6: [(Ipv6Addr, u32, &str); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol assignments, Teredo"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
];

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let nat64 = address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    if nat64 || address.to_ipv4_mapped().is_some() {
        let [.., a, b, c, d] = address.octets();
        return special_v4(Ipv4Addr::new(a, b, c, d));
    }
    let within =
        |block: Ipv6Addr, bits: u32| (address.to_bits() ^ block.to_bits()) >> (128 - bits) == 0;
    if !within(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3) {
        return Some("loopback, link-local, unique-local, multicast or reserved");
    }
    V6.iter().find(|(block, bits, _)| within(*block, *bits)).map(|(_, _, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &[&str] = &[
        "0.0.0.0",
        "0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.254",
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "169.254.169.254",
        "0xA9FEA9FE",
        "2852039166",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:10.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[100::1]",
        "[2001::1]",
        "[2001:10::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::]",
        "[3fff::1]",
        "[5f00::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[febf::1]",
        "[fec0::1]",
        "[ff02::1]",
    ];

    const ALLOWED: &[&str] = &[
        "1.1.1.1",
        "9.255.255.255",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.1",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::8.8.8.8]",
        "[2606:4700::1111]",
        "[2001:4860:4860::8888]",
        "[2001:200::1]",
        "[2a00:1450::1]",
        "example.org",
        "localhost",
    ];

    #[test]
    fn a_literal_that_is_not_public_is_refused_however_it_is_written() {
        assert!(REFUSED.len() >= 40);
        for host in REFUSED {
            let read = read(&format!("http://{host}:8080/x"), false);
            assert_eq!(read.map_err(|cause| cause.code), Err(Code::AddressRefused), "{host}");
            super::read(&format!("http://{host}/"), true).expect("allowed by the config");
        }
    }

    #[test]
    fn public_literals_and_names_pass() {
        for host in ALLOWED {
            read(&format!("https://{host}/"), false).unwrap_or_else(|cause| panic!("{cause}"));
        }
    }

    #[test]
    fn of_the_addresses_of_a_name_only_public_ones_are_kept() {
        let parse = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
        };
        let mixed = parse(&["127.0.0.1", "1.1.1.1", "::1", "2606:4700::1111"]);
        assert_eq!(public(mixed.into_iter()), Ok(parse(&["1.1.1.1", "2606:4700::1111"])));
        let forbidden = public(parse(&["127.0.0.1", "fe80::1"]).into_iter());
        assert!(forbidden.is_err_and(|error| error.to_string().contains("allow_private")));
        assert_eq!(public(std::iter::empty()), Ok(vec![]));
    }
}
