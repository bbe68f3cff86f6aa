//! A receiver over HTTP in Python, with the packages that its users have: what it understands, any
//! receiver of CloudEvents does.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::cache::Cache;
use super::command::output;
use super::place::Place;
use super::python::Python;
use super::{Installed, Running, Server};
use crate::root;

/// What the receiver needs.
const PYTHON: Python =
    Python { name: "http-python", packages: &["cloudevents==2.2.0", "standardwebhooks==1.1.0"] };

const SCRIPT: &str = "crates/it/foreign/http/receive.py";

/// What its senders sign with.
const SECRET: &str = "whsec_cG9zdGJveC1vZi1hLXJlY2VpdmVyLWluLXB5dGhvbg==";

/// The receiver.
pub(super) struct Http;

impl Server for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        PYTHON.get(cache)?;
        let mut installed =
            Installed { version: String::new(), prefix: cache.folder.join(PYTHON.name) };
        let mut python = cache.command(PYTHON.program(&installed)?);
        let told = output(python.args(["-c", "import platform; print(platform.python_version())"]));
        told?.trim().clone_into(&mut installed.version);
        Ok(installed)
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let mut receiver = place.command(PYTHON.program(installed)?)?;
        receiver.arg(root().join(SCRIPT)).args([&place.address.port().to_string(), SECRET]);
        let details = BTreeMap::from([
            ("url", format!("http://{}/", place.address)),
            ("secret", SECRET.to_owned()),
        ]);
        Ok(Running { child: receiver.spawn().context("Python does not start")?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.answers("/", "ready")
    }
}
