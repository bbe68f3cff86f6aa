//! The real servers that `cargo xtask` started. Tests ask for one by name; one that is missing
//! fails the test by name, it is never passed over.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// One running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub socket: SocketAddr,
    /// Its version, as its program tells it.
    pub version: String,
    /// The folder of its run. A process with `POSTBOX_RUN` set to it ends with the run.
    pub run: PathBuf,
    details: BTreeMap<String, String>,
}

impl Address {
    /// Returns what else is known of it, for example `url`.
    ///
    /// # Panics
    /// When nothing is known under that name.
    pub fn detail(&self, name: &str) -> &str {
        let known = self.details.keys();
        self.details.get(name).unwrap_or_else(|| panic!("no detail {name} among {known:?}"))
    }
}

/// Finds a running server by name.
///
/// # Panics
/// When it does not run; the text says what to do.
pub fn need(name: &str) -> Address {
    let file = file();
    look(&file, name).unwrap_or_else(|error| {
        panic!(
            "this test needs the server {name}: {error:#}\n\
             `cargo xtask test` runs every test with its servers. To run some by hand, start\n\
             `cargo xtask up {name}` beside them and set what it prints:\n\
             export POSTBOX_WORLD={}\n",
            file.display()
        )
    })
}

fn file() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let usual = workspace.expect("crates/it lies two folders deep").join("target/world/world.json");
    env::var_os("POSTBOX_WORLD").map_or(usual, PathBuf::from)
}

fn look(file: &Path, name: &str) -> Result<Address> {
    let text = fs::read(file).with_context(|| format!("no world at {}", file.display()))?;
    let world: Value = serde_json::from_slice(&text).context("the world file is broken")?;
    let server = world.get(name).with_context(|| format!("{} has none", file.display()))?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let socket = server["address"].as_str().and_then(|address| address.parse().ok());
    let run = server["folder"].as_str().and_then(|folder| Path::new(folder).parent());
    let details = server["details"].as_object().into_iter().flatten();
    Ok(Address {
        socket: socket.context("the world file is broken")?,
        version: text(&server["version"]).context("the world file is broken")?,
        run: run.context("the world file is broken")?.to_owned(),
        details: details.filter_map(|(name, it)| Some((name.clone(), text(it)?))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("world.json");
        let error = look(&file, "postgres").unwrap_err();
        assert!(error.to_string().starts_with("no world at "), "{error:#}");
        let one = r#"{"nats": {"version": "2", "address": "127.0.0.1:4222", "folder": "/7/nats",
                      "details": {"url": "nats://127.0.0.1:4222"}}}"#;
        fs::write(&file, one).unwrap();
        assert!(look(&file, "postgres").unwrap_err().to_string().ends_with(" has none"));
        let nats = look(&file, "nats").unwrap();
        assert_eq!((nats.socket.port(), nats.version.as_str()), (4222, "2"));
        assert_eq!((nats.detail("url"), &*nats.run), ("nats://127.0.0.1:4222", Path::new("/7")));
    }
}
