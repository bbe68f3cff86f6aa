//! Packages of PyPI for readers written in Python: an environment each, made once in the cache.
//!
//! The machine's own Python makes it when it can, else Debian's. Nothing is installed into either.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Installed;
use super::cache::Cache;
use super::command::output;
use super::debian::Packages;

/// What makes environments when the machine has no Python that can.
const DEBIAN: Packages = Packages {
    suite: "bookworm",
    names: &["python3", "python3-pip", "ca-certificates"],
    programs: &["usr/bin/python3.11"],
};

/// An environment with packages of its own.
pub(super) struct Python {
    /// Its name in the cache, where no other may have the same.
    pub(super) name: &'static str,
    /// Packages with their versions, as `pip` reads them.
    pub(super) packages: &'static [&'static str],
}

impl Python {
    /// Brings the packages onto this machine, unless they are there.
    pub(super) fn get(&self, cache: &Cache<'_>) -> Result<()> {
        let Python { name, packages } = self;
        let (base, version) = base(cache)?;
        let recipe = format!("{} {version} {packages:?}", base.display());
        cache.once(name, &recipe, |folder| {
            println!("getting {}", packages.join(", "));
            output(cache.command(&base).args(["-m", "venv", "--without-pip"]).arg(folder))?;
            let mut pip = cache.command(&base);
            pip.args(["-m", "pip", "--python"]).arg(folder.join("bin/python"));
            pip.args(["install", "--quiet", "--no-input", "--disable-pip-version-check"]);
            // The environment is renamed once it is whole: scripts of packages would lead astray.
            output(pip.arg("--no-warn-script-location").args(*packages)).map(drop)
        })?;
        Ok(())
    }

    /// Returns the program that knows the packages. `installed` is any server of the same cache.
    pub(super) fn program(&self, installed: &Installed) -> Result<PathBuf> {
        let cache = installed.prefix.parent().context("the cache")?;
        Ok(cache.join(self.name).join("bin/python"))
    }
}

/// Finds a Python that can make environments and fill them, and tells its version.
fn base(cache: &Cache<'_>) -> Result<(PathBuf, String)> {
    if let Ok(found) = ask(cache.command("python3")) {
        return Ok(found);
    }
    let prefix = DEBIAN.unpacked(cache, "python")?;
    ask(cache.command(prefix.join(DEBIAN.programs[0])))
}

fn ask(mut python: Command) -> Result<(PathBuf, String)> {
    const ABLE: &str = "\
import sys, venv, pip
assert sys.version_info >= (3, 10) and int(pip.__version__.split('.')[0]) >= 23
print(sys.executable)
print(sys.version.split()[0])";
    let told = output(python.args(["-c", ABLE]))?;
    let (program, version) = told.trim().split_once('\n').context("Python told no version")?;
    Ok((Path::new(program).to_owned(), version.to_owned()))
}
