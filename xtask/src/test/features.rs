//! Each broker is a feature of its own: the crate of brokers compiles with any one of them alone,
//! and with none. What that needs is built beside what the workspace needs, and replaces nothing.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{cargo_step, run_cargo};
use crate::world::Run;

const CRATE: &str = "postbox-broker";

/// Fails at the first feature with which it does not compile alone.
pub(super) fn check(run: &Run) -> Result<()> {
    for name in [String::new()].into_iter().chain(names(run)?) {
        let only = ["--no-default-features", "--features", &name];
        cargo_step(run, &[&["check", "--quiet", "--package", CRATE][..], &only].concat())
            .with_context(|| format!("{CRATE} with no feature but {name:?}"))?;
    }
    Ok(())
}

/// Asks cargo which features there are.
fn names(run: &Run) -> Result<Vec<String>> {
    let mut command = run_cargo(run);
    command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let told = command.output()?;
    ensure!(told.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout)?;
    let mut packages = told["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == CRATE).context("no such crate")?;
    let features = package["features"].as_object().context("it has no features")?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}
