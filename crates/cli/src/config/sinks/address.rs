//! What a broker's url may look like. Every answer says what to write, and none repeats the url,
//! because it may hold a password.

/// Checks what stands behind the hosts, and says what to write instead.
type Behind = fn(&str) -> Result<(), &'static str>;

/// What is allowed in the url of one kind.
pub(super) struct Address {
    /// The schemes, without `://`.
    pub(super) schemes: &'static [&'static str],
    /// One that works.
    pub(super) example: &'static str,
    /// Whether several hosts may stand there, with commas between them.
    pub(super) several: bool,
    /// Whether a host may leave its port to the protocol.
    pub(super) usual_port: bool,
    /// The keys that hold user and password, if they do not belong into the url.
    pub(super) login: Option<(&'static str, &'static str)>,
    /// What may stand behind the hosts.
    pub(super) behind: Option<Behind>,
}

impl Address {
    /// Checks a url. The text of an error says what to write.
    pub(super) fn check(&self, url: &str) -> Result<(), String> {
        let schemes: Vec<String> = self.schemes.iter().map(|name| format!("{name}://")).collect();
        let Some(rest) = schemes.iter().find_map(|scheme| url.strip_prefix(scheme.as_str())) else {
            return Err(self.say(&format!("it must begin with {}", schemes.join(" or "))));
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (hosts, behind) = rest.split_at(end);
        let behind = behind.strip_prefix('/').unwrap_or(behind);
        if !self.several && hosts.contains(',') {
            return Err(self.say("it names one host"));
        }
        for host in hosts.split(',') {
            self.check_host(host)?;
        }
        match self.behind {
            Some(check) => check(behind).map_err(|wrong| self.say(wrong)),
            None if behind.is_empty() => Ok(()),
            None => Err(self.say("nothing may follow the hosts")),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), String> {
        let host = match (host.rsplit_once('@'), self.login) {
            (None, _) => host,
            (Some((_, host)), None) => host,
            (Some(_), Some((user, password))) => {
                return Err(format!(
                    "user and password do not belong there: write them as `{user}` and `{password}`"
                ));
            }
        };
        // The colons of an IPv6 address stand between brackets.
        let inside = host.rfind(']').map_or(0, |end| end + 1);
        let (name, port) = match host[inside..].rfind(':') {
            Some(colon) => (&host[..inside + colon], Some(&host[inside + colon + 1..])),
            None => (host, None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(self.say("it names no host"));
        }
        match port {
            None if self.usual_port => Ok(()),
            None => Err(self.say("a host is without its port")),
            Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
            Some(_) => Err(self.say("a port is no number from 1 to 65535")),
        }
    }

    fn say(&self, wrong: &str) -> String {
        format!("{wrong}; write for example {}", self.example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Address = Address {
        schemes: &["kafka"],
        example: "kafka://127.0.0.1:9092",
        several: true,
        usual_port: false,
        login: Some(("user", "password")),
        behind: None,
    };
    const LOOSE: Address = Address {
        schemes: &["amqp", "amqps"],
        example: "amqp://127.0.0.1/",
        several: false,
        usual_port: true,
        login: None,
        behind: Some(|_| Ok(())),
    };

    #[test]
    fn what_a_kind_allows_passes() {
        for url in ["kafka://a:1", "kafka://a:1,b:2", "kafka://[::1]:9092/"] {
            assert_eq!(STRICT.check(url), Ok(()), "{url}");
        }
        for url in ["amqp://a", "amqps://me:a@b:c@a:1/shop", "amqp://[::1]/?heartbeat=5"] {
            assert_eq!(LOOSE.check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn what_it_does_not_is_told_with_what_to_write_and_without_the_url() {
        for (address, url, expected) in [
            (STRICT, "canary:9092", "it must begin with kafka://; write for example kafka://127"),
            (LOOSE, "http://canary", "it must begin with amqp:// or amqps://; write for example"),
            (STRICT, "kafka://me:canary@a:1", "write them as `user` and `password`"),
            (STRICT, "kafka://canary", "a host is without its port"),
            (STRICT, "kafka://canary:0", "a port is no number"),
            (STRICT, "kafka://canary:1,", "it names no host"),
            (STRICT, "kafka://canary:1/orders", "nothing may follow the hosts"),
            (LOOSE, "amqp://me:canary@:1", "it names no host"),
            (LOOSE, "amqp://a,canary", "it names one host"),
            (LOOSE, "amqp://me:can/ary@host", "a port is no number"),
        ] {
            let said = address.check(url).unwrap_err();
            assert!(said.contains(expected) && !said.contains("canary"), "{url}: {said}");
        }
    }
}
