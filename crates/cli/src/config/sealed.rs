//! Secrets and the urls that hold them: where they are written, and their value once it is read.
//!
//! Neither ever prints its value: what prints is what the operator wrote, masked.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use event::{Secret, scrub};

/// Where a secret is written.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the config itself.
    Inline(String),
    /// In a file; a line break at its end is not part of it.
    File(PathBuf),
    /// In the environment.
    Variable(String),
}

/// A secret that was not read yet.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretOrigin(pub(crate) Origin);

impl SecretOrigin {
    /// Tells whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.0, Origin::Inline(text) if text.is_empty())
    }
}

impl fmt::Debug for SecretOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::Inline(_) => f.write_str("***"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Variable(name) => write!(f, "env {name}"),
        }
    }
}

/// A secret, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// Where it is written.
    pub(crate) origin: SecretOrigin,
    /// Its value.
    pub(crate) value: Secret,
}

impl Sealed {
    /// Reads the secret.
    pub(crate) fn read(origin: &SecretOrigin) -> Result<Sealed, String> {
        let value = match &origin.0 {
            Origin::Inline(text) => text.clone(),
            Origin::File(path) => read_file(path)?,
            Origin::Variable(name) => read_variable(name)?,
        };
        Ok(Sealed { origin: origin.clone(), value: Secret::new(value) })
    }

    /// Reads the console's token; an empty one is none.
    pub(crate) fn read_token(origin: &SecretOrigin) -> Result<Sealed, String> {
        let token = Sealed::read(origin)?;
        if !token.value.reveal().is_empty() {
            admin::check_token(&token.value).map_err(|error| error.to_string())?;
        }
        Ok(token)
    }

    /// Returns the file it is in, if it is in one: its own, or the config.
    pub(crate) fn file<'a>(&'a self, config: &'a Path) -> Option<&'a Path> {
        match &self.origin.0 {
            Origin::File(path) => Some(path),
            Origin::Inline(_) => Some(config),
            Origin::Variable(_) => None,
        }
    }
}

/// A url that may hold `${env:NAME}` and `${file:PATH}`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    written: String,
    value: Secret,
}

impl Url {
    /// Fills the url in. What goes into a login is encoded, so that no password moves the host.
    pub(crate) fn read(written: &str) -> Result<Url, String> {
        let outside = blank(written);
        refuse_cut(&outside)?;
        let logins = logins(&outside);
        let mut value = String::new();
        let mut from = 0;
        while let Some(start) = written[from..].find("${").map(|at| from + at) {
            value += &written[from..start];
            let end = written[start..].find('}').ok_or("a `${` has no `}`")? + start;
            let filled = match written[start + 2..end].split_once(':') {
                Some(("env", name)) => read_variable(name)?,
                Some(("file", path)) => read_file(Path::new(path))?,
                _ => return Err("inside `${…}` write env:NAME or file:PATH".to_owned()),
            };
            match logins.iter().any(|login| login.contains(&start)) {
                true => value += &encode(&filled),
                false => value += &filled,
            }
            from = end + 1;
        }
        value += &written[from..];
        if !outside.contains("://") {
            refuse_cut(&value)?;
        }
        Ok(Url { written: written.to_owned(), value: Secret::new(value) })
    }

    /// Returns the files that hold a secret of it: those that it names, and the config if a
    /// password stands there.
    pub(crate) fn files<'a>(&'a self, config: &'a Path) -> Vec<&'a Path> {
        let named = self.written.split("${file:").skip(1);
        let named = named.filter_map(|rest| Some(Path::new(rest.split_once('}')?.0)));
        let rest = self.written.split_once("://").map_or("", |(_, rest)| rest);
        let rest = &rest[..find_outside(rest, |c| SLASHES.contains(&c)).unwrap_or(rest.len())];
        let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
        let password = find_outside(login, |c| c == ':').map_or("", |at| &login[at + 1..]);
        let here = !password.is_empty() && !password.starts_with("${");
        named.chain(here.then_some(config)).collect()
    }

    /// Returns the url itself, for the one call that needs it.
    pub(crate) fn reveal(&self) -> &str {
        self.value.reveal()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.written))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Masks everything but the scheme and the host: a path or a query is often all that one needs to
/// post somewhere. The url of a file is shown, and so is a url that stands elsewhere as a whole.
fn shown(written: &str) -> String {
    let colon = find_outside(written, |c| c == ':');
    let parts = colon.map(|at| (&written[..at], &written[at + 1..]));
    let Some((scheme, rest)) = parts.filter(|(scheme, _)| *scheme != "sqlite") else {
        return scrub(written);
    };
    let rest = rest.trim_start_matches(SLASHES);
    let end = find_outside(rest, |c| SLASHES.contains(&c) || c == '?' || c == '#');
    let (who, beyond) = rest.split_at(end.unwrap_or(rest.len()));
    let (user, host) = who.rsplit_once('@').map_or(("", who), |(_, host)| ("***@", host));
    let beyond = if beyond.trim_start_matches(SLASHES).is_empty() { "" } else { "/***" };
    format!("{scheme}://{user}{host}{beyond}")
}

/// What begins a path.
const SLASHES: [char; 2] = ['/', '\\'];

/// Finds a character outside of every `${…}`.
fn find_outside(text: &str, wanted: impl Fn(char) -> bool) -> Option<usize> {
    blank(text).find(wanted)
}

/// Puts a letter in the place of every byte of each `${…}`, so that only what stands outside is
/// found, and where it stands.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    while let Some(start) = text[out.len()..].find("${").map(|at| out.len() + at) {
        out += &text[out.len()..start];
        let end = text[start..].find('}').map_or(text.len(), |at| start + at + 1);
        out += &"x".repeat(end - start);
    }
    out += &text[out.len()..];
    out
}

/// Returns where the logins of a url are; each of several urls with commas between them has one.
fn logins(outside: &str) -> Vec<Range<usize>> {
    let hosts = authorities(outside).into_iter();
    let login = |hosts: Range<usize>| {
        let at = outside[hosts.clone()].rfind('@')?;
        Some(hosts.start..hosts.start + at)
    };
    hosts.filter_map(login).collect()
}

/// Returns where the logins and hosts of a url are. A file has none.
fn authorities(outside: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut next = outside.find("://").filter(|_| !outside.starts_with("sqlite:"));
    while let Some(colon) = next {
        let start = colon + 3;
        let end = outside[start..].find(['/', '?', '#']).map_or(outside.len(), |at| start + at);
        let hosts = &outside[start..end];
        // As in nats://a,nats://b.
        let scheme = hosts.rsplit_once(',').and_then(|(_, scheme)| scheme.strip_suffix(':'));
        let named = scheme.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()));
        next = (named && outside[end..].starts_with("//")).then(|| end - 1);
        found.push(start..end);
    }
    found
}

/// Refuses a url whose password ends its host, and repeats nothing of it. A webhook may have an
/// `@` in its path.
fn refuse_cut(outside: &str) -> Result<(), String> {
    let scheme = outside.split_once("://").map_or("", |(scheme, _)| scheme);
    let beyond = authorities(outside).last().map_or("", |hosts| &outside[hosts.end..]);
    if matches!(scheme, "http" | "https") || !beyond.contains('@') {
        return Ok(());
    }
    let wrong = "its password holds `/`, `?` or `#`: write it percent-encoded (`%2F`), or as \
                 `${env:NAME}`; an `@` behind the host is written `%40`";
    Err(wrong.to_owned())
}

/// Encodes what every client decodes again.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(each).collect()
}

fn read_file(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the secret in {}: {error}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_variable(name: &str) -> Result<String, String> {
    std::env::var(name)
        .map_err(|_| format!("the environment has no {name}, which holds the secret: set it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_filled_in_and_prints_without_what_was_filled_in() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "canary\n").unwrap();
        let written = format!("https://me:${{file:{}}}@host/x", file.display());
        let url = Url::read(&written).unwrap();
        assert_eq!(url.reveal(), "https://me:canary@host/x");
        assert!(!format!("{url} {url:?}").contains("canary"));
    }

    #[test]
    fn a_password_that_is_filled_in_stays_in_the_login() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "p@h/ü?#:~%\n").unwrap();
        let (raw, safe) = ("p@h/ü?#:~%", "p%40h%2F%C3%BC%3F%23%3A~%25");
        for (written, filled) in [
            ("postgres://me:{}@host/orders", format!("postgres://me:{safe}@host/orders")),
            ("nats://{}@h1,h2", format!("nats://{safe}@h1,h2")),
            ("nats://a:{}@h1,nats://b:{}@h2", format!("nats://a:{safe}@h1,nats://b:{safe}@h2")),
            ("https://a@b:{}@host/{}", format!("https://a@b:{safe}@host/{raw}")),
            ("amqp://me@{}/{}", format!("amqp://me@{raw}/{raw}")),
            ("https://host/a@{}@b", format!("https://host/a@{raw}@b")),
            ("sqlite://{}@x", format!("sqlite://{raw}@x")),
        ] {
            let place = format!("${{file:{}}}", file.display());
            let url = Url::read(&written.replace("{}", &place)).unwrap();
            assert_eq!(url.reveal(), filled);
        }
        std::fs::write(&file, "postgres://me:canary%2F@host/orders").unwrap();
        let whole = Url::read(&format!("${{file:{}}}", file.display())).unwrap();
        assert_eq!(whole.reveal(), "postgres://me:canary%2F@host/orders");
    }

    #[test]
    fn a_password_that_would_end_the_host_is_refused_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("url");
        std::fs::write(&file, "postgres://me:1/canary@host/orders").unwrap();
        let whole = format!("${{file:{}}}", file.display());
        for written in [
            "postgres://me:1/canary@host/orders",
            "mysql://me:1?canary@host/orders",
            "redis://:canary#@host/0",
            "nats://a:b@c,nats://a:canary/@d",
            &whole,
        ] {
            let said = Url::read(written).unwrap_err();
            assert!(said.contains("%2F") && said.contains("${env:NAME}"), "{said}");
            assert!(!said.contains("canary") && !said.contains("host/"), "{said}");
        }
        for fine in
            ["nats://a:b@c,nats://d:e@f", "https://host/@me", "sqlite:///var/a@b", "amqp://a@b/%40"]
        {
            Url::read(fine).unwrap();
        }
    }

    #[test]
    fn of_a_url_only_the_scheme_and_the_host_print() {
        for (written, shown) in [
            ("https://me:canary@host:81/orders?token=canary", "https://***@host:81/***"),
            ("https://host/hooks/canary", "https://host/***"),
            ("https://host?sig=canary", "https://host/***"),
            ("https://host#canary", "https://host/***"),
            ("https://canary${file:/dev/null}:canary@host/", "https://***@host"),
            ("https:host/canary", "https://host/***"),
            ("https://host\\canary", "https://host/***"),
            ("https://host", "https://host"),
            ("${file:/dev/null}https://host/canary", "${file:/dev/null}https://host/***"),
            ("sqlite:orders.sqlite3", "sqlite:orders.sqlite3"),
            ("sqlite:///var/orders.sqlite3", "sqlite:///var/orders.sqlite3"),
        ] {
            let url = Url::read(written).unwrap();
            assert_eq!(
                (format!("{url}"), format!("{url:?}")),
                (shown.into(), format!("{shown:?}"))
            );
        }
    }

    #[test]
    fn a_url_tells_which_files_hold_a_secret_of_it() {
        let config = Path::new("postbox.toml");
        let files = |written: &str| {
            let url = Url { written: written.to_owned(), value: Secret::new("") };
            url.files(config).iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(files("nats://me:canary@a,b"), ["postbox.toml"]);
        assert_eq!(files("redis://:canary@a/0"), ["postbox.toml"]);
        assert_eq!(files("amqp://me:${file:/run/secrets/x}@a/"), ["/run/secrets/x"]);
        let none = ["redis://a:6379", "amqp://me:${env:WORD}@a", "sqlite:/var/a:b@c.sqlite3"];
        for written in none {
            assert!(files(written).is_empty(), "{written}");
        }
    }

    #[test]
    fn a_token_that_could_be_guessed_is_refused_and_none_is_none() {
        let token = |text: &str| Sealed::read_token(&SecretOrigin(Origin::Inline(text.to_owned())));
        assert!(token("canary").unwrap_err().contains("shorter than 16 characters"));
        assert!(token("").is_ok() && token("a-long-enough-token").is_ok());
    }

    #[test]
    fn a_secret_that_cannot_be_read_says_where_it_should_be() {
        let missing = SecretOrigin(Origin::File("/nowhere/at/all".into()));
        assert!(Sealed::read(&missing).unwrap_err().contains("/nowhere/at/all"));
        let missing = Url::read("http://${env:POSTBOX_TEST_NOT_SET}/").unwrap_err();
        assert!(missing.contains("POSTBOX_TEST_NOT_SET"), "{missing}");
    }
}
