//! Data folders: made once, kept in the cache, and copied for every instance.
//!
//! Making one takes a server seconds, the copy a fraction of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Installed;
use super::cache::Cache;
use super::command::output;
use super::place::{Nobody, Place};

/// Makes the template of a server, unless the cache has one from the same `recipe`. The command
/// that `fill` returns writes into the given folder, as the user that servers run as.
pub(super) fn make(
    cache: &Cache<'_>,
    name: &str,
    recipe: &str,
    fill: impl FnOnce(&Path) -> Result<Command>,
) -> Result<()> {
    cache.once(&folder(name), recipe, |folder| {
        let data = folder.join("data");
        fs::create_dir(&data)?;
        let mut command = fill(&data)?;
        command.current_dir("/");
        if let Some(nobody) = Nobody::if_root()? {
            nobody.own(folder)?;
            nobody.own(&data)?;
            nobody.run(&mut command);
        }
        output(&mut command)?;
        // MySQL keeps its identity there; no two instances may have the same.
        let _ = fs::remove_file(data.join("auto.cnf"));
        Ok(())
    })?;
    Ok(())
}

/// Copies the template into the place of an instance, and returns where its data now lies.
pub(super) fn copy(installed: &Installed, name: &str, place: &Place<'_>) -> Result<PathBuf> {
    let data = place.folder.join("data");
    let mut copy = place.command("cp")?;
    copy.args(["--archive", "--sparse=always"]).arg(path(installed, name)?).arg(&data);
    output(&mut copy)?;
    if let Some(nobody) = Nobody::if_root()? {
        nobody.own(&place.folder)?;
    }
    Ok(data)
}

/// Returns where the template of a server lies.
pub(super) fn path(installed: &Installed, name: &str) -> Result<PathBuf> {
    let cache = installed.prefix.parent().context("the cache")?;
    Ok(cache.join(folder(name)).join("data"))
}

fn folder(name: &str) -> String {
    format!("{name}-template")
}
