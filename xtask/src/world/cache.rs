//! Where installs stay between runs: outside `target/`, so that `cargo clean` costs no download.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::{is_root, open_to_others};
use super::run::Run;

/// The folder of installs: `POSTBOX_CACHE`, or `postbox-world` in the user's cache.
pub(super) struct Cache<'a> {
    pub(super) folder: PathBuf,
    run: &'a Run,
}

impl Cache<'_> {
    pub(super) fn open(run: &Run) -> Result<Cache<'_>> {
        let folder = chosen().context("set POSTBOX_CACHE to a folder for installs")?;
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let folder = folder.canonicalize()?;
        ensure!(
            !is_root() || open_to_others(&folder),
            "servers that refuse root cannot read {}; set POSTBOX_CACHE to a folder that all can",
            folder.display(),
        );
        Ok(Cache { folder, run })
    }

    /// Makes a command that ends with the run.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.run.command(program)
    }

    /// Makes a folder once: whole or not at all, by one run at a time. An existing one serves as
    /// long as it was made from the same `recipe`.
    pub(super) fn once(
        &self,
        name: &str,
        recipe: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        let made = |folder: &Path| {
            fs::read_to_string(folder.join(".recipe")).is_ok_and(|made| made == recipe)
        };
        if made(&folder) {
            return Ok(folder);
        }
        let _busy = self.hold()?;
        if made(&folder) {
            return Ok(folder);
        }
        for stale in [&folder, &self.folder.join(format!("{name}.new"))] {
            if stale.exists() {
                fs::remove_dir_all(stale).with_context(|| stale.display().to_string())?;
            }
        }
        let fresh = self.folder.join(format!("{name}.new"));
        fs::create_dir(&fresh)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
        make(&fresh)?;
        fs::write(fresh.join(".recipe"), recipe)?;
        fs::rename(&fresh, &folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    fn hold(&self) -> Result<File> {
        let file = File::create(self.folder.join("busy")).context("the cache")?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            println!("waiting for another run that fills {}", self.folder.display());
            file.lock()?;
        }
        Ok(file)
    }
}

fn chosen() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(given) = folder("POSTBOX_CACHE") {
        return Some(given);
    }
    let home = folder("HOME");
    if is_root() && home.as_deref().is_none_or(|home| !open_to_others(home)) {
        return Some(PathBuf::from("/var/cache/postbox-world"));
    }
    let user = folder("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    Some(user?.join("postbox-world"))
}
