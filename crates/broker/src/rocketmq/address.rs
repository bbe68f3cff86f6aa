//! From the url of a config to the addresses of proxies, or of name servers, or of both.

use event::{Cause, Code};

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// `HOST:PORT` of each proxy, at least one.
    pub(super) proxies: Vec<String>,
    /// Whether to speak TLS with them.
    pub(super) tls: bool,
    /// `HOST:PORT` of each name server: only they lead to the settings of brokers.
    pub(super) names: Vec<String>,
    /// Whether to speak TLS with them, and with the brokers that they tell.
    pub(super) names_tls: bool,
}

const PLAIN: &str = "rocketmq://";
const TLS: &str = "rocketmq+tls://";
const NAMES: &str = "nameserver";
const PLAIN_NAMES: &str = "plain-nameserver";
const REMOTING: &str = "rocketmq+remoting://";
const REMOTING_TLS: &str = "rocketmq+remoting+tls://";

/// Tells whether a url leads to brokers without a proxy.
pub(super) fn is_remoting(url: &str) -> bool {
    url.starts_with(REMOTING) || url.starts_with(REMOTING_TLS)
}

/// Reads `rocketmq://HOST:PORT,HOST:PORT?nameserver=HOST:PORT,HOST:PORT`. Name servers are spoken
/// with as proxies are, unless they are called plain. No text of an error repeats what it read.
pub(super) fn read(url: &str) -> Result<Places, Cause> {
    let (rest, tls) = match (url.strip_prefix(PLAIN), url.strip_prefix(TLS)) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ if is_remoting(url) => return Err(wrong("without a proxy events can only be published")),
        _ => return Err(wrong("it must begin with rocketmq:// or rocketmq+tls://")),
    };
    let (hosts, query) = rest.split_once('?').map_or((rest, None), |(rest, it)| (rest, Some(it)));
    let proxies = several(hosts.strip_suffix('/').unwrap_or(hosts))?;
    let (names, names_tls) = match query.map(|query| query.split_once('=')) {
        None => (Vec::new(), false),
        Some(Some((NAMES, names))) => (several(names)?, tls),
        Some(Some((PLAIN_NAMES, names))) => (several(names)?, false),
        Some(_) => return Err(wrong("behind the hosts only ?nameserver=HOST:PORT may stand")),
    };
    Ok(Places { proxies, tls, names, names_tls })
}

/// Reads `rocketmq+remoting://HOST:PORT,HOST:PORT`, the name servers, and whether to speak TLS.
#[cfg(feature = "rocketmq-remoting")]
pub(super) fn read_names(url: &str) -> Result<(Vec<String>, bool), Cause> {
    let (hosts, tls) = match (url.strip_prefix(REMOTING), url.strip_prefix(REMOTING_TLS)) {
        (Some(hosts), _) => (hosts, false),
        (_, Some(hosts)) => (hosts, true),
        _ => return Err(wrong("it must begin with rocketmq+remoting://")),
    };
    if hosts.contains('?') {
        return Err(wrong("behind name servers nothing may stand"));
    }
    Ok((several(hosts.strip_suffix('/').unwrap_or(hosts))?, tls))
}

fn several(hosts: &str) -> Result<Vec<String>, Cause> {
    hosts.split([',', ';']).map(one).collect()
}

fn one(host: &str) -> Result<String, Cause> {
    if host.contains('@') {
        return Err(wrong("keys do not belong there: write them as access_key and secret_key"));
    }
    let (name, port) = host.rsplit_once(':').ok_or_else(|| wrong("a host is without its port"))?;
    let odd = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#');
    if name.is_empty() || name.contains(odd) {
        return Err(wrong("it names no host"));
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(host.to_owned()),
        _ => Err(wrong("a port is no number from 1 to 65535")),
    }
}

fn wrong(what: &str) -> Cause {
    let example = "write for example rocketmq://127.0.0.1:8081, the address of a proxy, or \
                   rocketmq+remoting://127.0.0.1:9876, that of a name server";
    Cause::new(Code::ConfigInvalid, format_args!("url: {what}; {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_and_name_servers_are_told_apart() {
        let plain = read("rocketmq://a:1,[::1]:2/?nameserver=n:3;m:4").unwrap();
        assert_eq!(plain.proxies, ["a:1", "[::1]:2"]);
        assert_eq!((plain.tls, plain.names), (false, vec!["n:3".to_owned(), "m:4".to_owned()]));
        assert!(read("rocketmq+tls://a:1").unwrap().tls);
    }

    #[test]
    fn name_servers_are_spoken_with_as_proxies_are_unless_they_are_called_plain() {
        for (url, tls) in [
            ("rocketmq://a:1?nameserver=n:3", false),
            ("rocketmq+tls://a:1?nameserver=n:3", true),
            ("rocketmq+tls://a:1?plain-nameserver=n:3", false),
        ] {
            let places = read(url).unwrap();
            assert_eq!((places.names_tls, &*places.names), (tls, &["n:3".to_owned()][..]), "{url}");
        }
    }

    #[cfg(feature = "rocketmq-remoting")]
    #[test]
    fn without_a_proxy_the_hosts_are_name_servers() {
        let plain = read_names("rocketmq+remoting://n:1,[::1]:2/").unwrap();
        assert_eq!(plain, (vec!["n:1".to_owned(), "[::1]:2".to_owned()], false));
        assert!(read_names("rocketmq+remoting+tls://n:1").unwrap().1);
        assert!(is_remoting("rocketmq+remoting+tls://n:1") && !is_remoting("rocketmq://n:1"));
        for url in [
            "rocketmq://canary:1",
            "rocketmq+remoting://canary",
            "rocketmq+remoting://a:1?nameserver=canary:1",
            "rocketmq+remoting://me:canary@a:1",
        ] {
            let cause = read_names(url).unwrap_err();
            assert!(!cause.detail.contains("canary"), "{cause}");
        }
        let cause = read("rocketmq+remoting://n:1").unwrap_err();
        assert!(cause.detail.contains("only be published"), "{cause}");
    }

    #[test]
    fn what_is_no_address_is_told_without_repeating_it() {
        for url in [
            "http://canary:1",
            "rocketmq://canary",
            "rocketmq://canary:0",
            "rocketmq://:1",
            "rocketmq://me:canary@a:1",
            "rocketmq://a:1/canary",
            "rocketmq://a:1?canary=1",
            "rocketmq://a:1?plain-nameserver=canary",
        ] {
            let cause = read(url).unwrap_err();
            assert_eq!(cause.code, Code::ConfigInvalid, "{url}");
            assert!(!cause.detail.contains("canary"), "{cause}");
        }
    }
}
