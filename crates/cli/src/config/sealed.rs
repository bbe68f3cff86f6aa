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

    /// Returns the url itself, for the one call that needs it.
    pub(crate) fn reveal(&self) -> &str {
        self.value.reveal()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scrub(&self.written))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
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
    fn a_url_is_filled_in_and_prints_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "canary\n").unwrap();
        let written = format!("https://me:${{file:{}}}@host/x", file.display());
        let url = Url::read(&written).unwrap();
        assert_eq!(url.reveal(), "https://me:canary@host/x");
        assert!(!format!("{url} {url:?}").contains("canary"));
    }

    #[test]
    fn a_password_in_a_url_does_not_print() {
        let url = Url::read("mysql://me:canary@host/orders?token=canary").unwrap();
        assert!(!format!("{url} {url:?}").contains("canary"), "{url}");
    }

    #[test]
    fn a_secret_that_cannot_be_read_says_where_it_should_be() {
        let missing = SecretOrigin(Origin::File("/nowhere/at/all".into()));
        assert!(Sealed::read(&missing).unwrap_err().contains("/nowhere/at/all"));
        let missing = Url::read("http://${env:POSTBOX_TEST_NOT_SET}/").unwrap_err();
        assert!(missing.contains("POSTBOX_TEST_NOT_SET"), "{missing}");
    }
}
