//! Small programs that tests and pages call by name: the machine's own, else Debian's packages.

use std::env;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};

use super::cache::Cache;
use super::debian::Packages;
use super::run::Run;

/// A program, and the package that has it in `usr/bin`.
struct Tool {
    name: &'static str,
    packages: Packages,
}

const TOOLS: &[Tool] = &[Tool {
    name: "sqlite3",
    packages: Packages { suite: "bookworm", names: &["sqlite3"], programs: &["usr/bin/sqlite3"] },
}];

/// Puts what the machine lacks into the run's own folder of programs.
pub(crate) fn tools(run: &Run) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    for Tool { name, packages } in TOOLS {
        if env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
            continue;
        }
        let had = Cache::open(run).and_then(|cache| packages.unpacked(&cache, name));
        let prefix = had.with_context(|| format!("{name} cannot be had"))?;
        symlink(prefix.join("usr/bin").join(name), run.programs().join(name))?;
    }
    Ok(())
}
