//! Secrets and the urls that hold them: where they are written, and their value once it is read.
//!
//! Neither ever prints its value: what prints is what the operator wrote, masked.

use std::fmt;
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
    /// Fills the url in.
    pub(crate) fn read(written: &str) -> Result<Url, String> {
        let mut value = String::new();
        let mut rest = written;
        while let Some(start) = rest.find("${") {
            value += &rest[..start];
            let inner = &rest[start + 2..];
            let end = inner.find('}').ok_or("a `${` has no `}`")?;
            value += &match inner[..end].split_once(':') {
                Some(("env", name)) => read_variable(name)?,
                Some(("file", path)) => read_file(Path::new(path))?,
                _ => return Err("inside `${…}` write env:NAME or file:PATH".to_owned()),
            };
            rest = &inner[end + 1..];
        }
        value += rest;
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
    let mut inside = false;
    text.find(|c| {
        inside = (inside || c == '{') && c != '}';
        !inside && wanted(c)
    })
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
