//! One run: its folder, the mark that its processes carry, and the end of both.
//!
//! A run lives as long as its process holds the file `alive`. The kernel lets go of it however the
//! process ends, so a folder whose file is free belongs to a dead or kept run and may be cleared.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write, stdin};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::{env, process};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::root;

use super::place::{is_root, open_to_others};
use super::sweep::{MARK, sweep};

/// Where runs live when the checkout is closed to the user that servers run as.
const ELSEWHERE: &str = "/var/tmp/postbox-world";

/// What a run tells its guard when its servers shall outlive it.
const KEEP: &[u8] = b"keep";

/// A living run.
pub(crate) struct Run {
    folder: PathBuf,
    /// The well-known path of the world file: a link to that of the newest run.
    link: PathBuf,
    guard: Child,
    kept: bool,
    _alive: File,
}

impl Run {
    /// Clears up after runs that are no more, then opens a new one.
    pub(crate) fn open(root: &Path) -> Result<Run> {
        let base = base(root)?;
        let _door = hold(&base.join("door"))?;
        clear_dead(&base)?;
        let folder = base.join(process::id().to_string());
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let alive = hold(&folder.join("alive"))?;
        fs::create_dir(folder.join("bin"))?;
        let short = env::temp_dir().join(format!("postbox-{}", process::id()));
        fs::create_dir(&short).with_context(|| short.display().to_string())?;
        fs::set_permissions(&short, fs::Permissions::from_mode(0o1777))?;
        symlink(&short, folder.join("tmp"))?;
        let guard = Command::new(env::current_exe().context("own path")?)
            .arg("guard")
            .arg(&folder)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("the guard does not start")?;
        let link = root.join("target/world/world.json");
        Ok(Run { folder, link, guard, kept: false, _alive: alive })
    }

    /// Returns the folder of the run, which is also its mark.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a folder with a short path, for programs that put sockets into it.
    pub(super) fn short(&self) -> PathBuf {
        self.folder.join("tmp").read_link().unwrap_or_else(|_| env::temp_dir())
    }

    /// Returns the path of the world file.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("world.json")
    }

    /// Makes a command whose process, with all that it starts, ends with the run.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(MARK, &self.folder).stdin(Stdio::null());
        command
    }

    /// Returns the folder of programs that the machine lacks; on the path of [`Run::script`].
    pub(super) fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Makes a command that finds the run's programs and the fresh `postbox` by their names.
    pub(crate) fn script(&self, program: impl AsRef<OsStr>) -> Command {
        let path = env::var_os("PATH").unwrap_or_default();
        let own = [self.programs(), root().join("target/debug")];
        let mut command = self.command(program);
        // No folder of ours holds a colon, which is all that could fail.
        if let Ok(path) = env::join_paths(own.into_iter().chain(env::split_paths(&path))) {
            command.env("PATH", path);
        }
        command
    }

    /// Writes the world file, and lets the well-known path lead to it.
    pub(super) fn write<T: Serialize>(&self, servers: &BTreeMap<&'static str, T>) -> Result<()> {
        fs::write(self.file(), serde_json::to_vec_pretty(servers)?)?;
        fs::create_dir_all(self.link.parent().context("target/world")?)?;
        let fresh = self.link.with_extension(process::id().to_string());
        symlink(self.file(), &fresh)?;
        fs::rename(&fresh, &self.link).context("world.json")
    }

    /// Leaves processes and folder when this value goes; the next run clears them.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.kept {
            let pipe = self.guard.stdin.as_mut();
            let _ = pipe.map(|pipe| pipe.write_all(KEEP));
        } else {
            let left = sweep(&self.folder);
            if left > 0 {
                eprintln!("{left} processes were still there at the end and were ended");
            }
            if self.link.read_link().is_ok_and(|to| to == self.file()) {
                let _ = fs::remove_file(&self.link);
            }
            remove(&self.folder);
        }
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Waits for the end of a run, and clears up unless the run has done so or is to be kept.
pub(crate) fn guard(run: &Path) -> Result<ExitCode> {
    let mut said = Vec::new();
    stdin().read_to_end(&mut said).context("the run's pipe")?;
    if said != KEEP {
        sweep(run);
        remove(run);
    }
    Ok(ExitCode::SUCCESS)
}

/// Clears every run that is no more and returns how many processes that ended.
pub(super) fn clear(root: &Path) -> Result<usize> {
    let base = base(root)?;
    let _door = hold(&base.join("door"))?;
    clear_dead(&base)
}

fn clear_dead(base: &Path) -> Result<usize> {
    let mut ended = 0;
    for entry in fs::read_dir(base).with_context(|| base.display().to_string())? {
        let folder = entry?.path();
        if !folder.join("alive").exists() {
            continue;
        }
        let alive = File::open(folder.join("alive"))?;
        if alive.try_lock().is_ok() {
            ended += sweep(&folder);
            remove(&folder);
        }
    }
    Ok(ended)
}

/// Removes a run's folder, and the short one that it leads to.
fn remove(folder: &Path) {
    if let Ok(short) = folder.join("tmp").read_link() {
        let _ = fs::remove_dir_all(short);
    }
    let _ = fs::remove_dir_all(folder);
}

fn base(root: &Path) -> Result<PathBuf> {
    let usual = root.join("target/world");
    fs::create_dir_all(&usual).with_context(|| usual.display().to_string())?;
    let usual = usual.canonicalize()?;
    if !is_root() || open_to_others(&usual) {
        return Ok(usual);
    }
    println!("{} is closed to other users: servers live in {ELSEWHERE}", usual.display());
    fs::create_dir_all(ELSEWHERE)?;
    Ok(PathBuf::from(ELSEWHERE))
}

fn hold(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    file.lock().with_context(|| path.display().to_string())?;
    Ok(file)
}
