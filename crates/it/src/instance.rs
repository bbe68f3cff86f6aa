//! A server of one's own, for a test that must kill it. Those of the world are shared.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ports::Ports;
use crate::world::need;

/// How long the parts of a killed server may take to notice.
const PATIENCE: Duration = Duration::from_secs(60);

/// What stands for its ports in a recipe.
const PORTS: [&str; 6] = ["{port}", "{port2}", "{port3}", "{port4}", "{port5}", "{port6}"];

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A fresh instance of a server of the world, with the same settings.
pub struct Instance {
    /// Where to connect.
    pub url: String,
    /// Its ports, in a row: `{port}` of the recipe, then `{port2}` to `{port6}`. They are its own
    /// also while it is dead.
    pub ports: [u16; PORTS.len()],
    _reserved: Ports<{ PORTS.len() }>,
    recipe: Vec<String>,
    run: PathBuf,
    child: Child,
    folder: TempDir,
}

impl Instance {
    /// Starts one. It takes a while until it answers.
    pub fn start(server: &str) -> Result<Instance> {
        Instance::start_with(server, &[])
    }

    /// Starts one with further arguments, which outdo those of the world. They may hold `{data}`
    /// and `{port}` as a recipe does.
    pub fn start_with(server: &str, more: &[&str]) -> Result<Instance> {
        let server = need(server);
        // A short path, for the server puts a socket into it.
        let folder = tempfile::tempdir_in(server.run.join("tmp").canonicalize()?)?;
        // The server may run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let data = folder.path().join("data").display().to_string();
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--sparse=always", server.detail("template"), &data]);
        ensure!(copy.status()?.success(), "the template cannot be copied");
        let reserved = Ports::reserve()?;
        let ports = reserved.numbers;
        let fill = |word: String| {
            let filled = word.replace("{data}", &data);
            let named = PORTS.iter().zip(ports);
            named.fold(filled, |word, (name, port)| word.replace(name, &port.to_string()))
        };
        let words: Vec<String> = serde_json::from_str(server.detail("recipe"))?;
        let words = words.into_iter().chain(more.iter().map(|word| (*word).to_owned()));
        let recipe: Vec<_> = words.map(fill).collect();
        let shared = server.socket.port().to_string();
        let url = server.detail("url").replace(&shared, &ports[0].to_string());
        let child = spawn(&recipe, &server.run, &folder)?;
        let run = server.run;
        Ok(Instance { url, ports, _reserved: reserved, recipe, run, child, folder })
    }

    /// Kills it as nothing that it could prepare for, and returns when it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        // The sessions of PostgreSQL outlive the process that made them, and may still commit.
        let (began, data) = (Instant::now(), self.data());
        while works_in(&data)? {
            ensure!(began.elapsed() < PATIENCE, "a part of the server lives on");
            sleep(LOOK);
        }
        Ok(())
    }

    /// Returns where its data is.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Lets it read its settings anew (SIGHUP), where it knows that.
    pub fn reread(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::HUP)?)
    }

    /// Starts it with these further arguments from the next time on.
    pub fn add(&mut self, more: &[&str]) {
        self.recipe.extend(more.iter().map(|word| (*word).to_owned()));
    }

    /// Starts it again on what the dead one left.
    pub fn revive(&mut self) -> Result<()> {
        self.child = spawn(&self.recipe, &self.run, &self.folder)?;
        Ok(())
    }

    /// Stops its processes in the midst of whatever they do, or lets them go on. Returns when they
    /// have stopped: on a busy machine some of their threads go on for a while.
    pub fn pause(&mut self, paused: bool) -> Result<()> {
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        stop(Pid::from_child(&self.child), signal)?;
        // The sessions of PostgreSQL are processes of their own, and no more are made now.
        for process in working_in(&self.data())? {
            if process != Pid::from_child(&self.child) {
                stop(process, signal)?;
            }
        }
        Ok(())
    }

    /// Kills it and keeps a copy of what it has, as a replica would that falls behind from now on;
    /// then it goes on.
    pub fn copy(&mut self) -> Result<()> {
        self.kill()?;
        let (data, copy) = (self.data(), self.folder.path().join("copy"));
        let copied = Command::new("cp").arg("--archive").args([data, copy]).status()?;
        ensure!(copied.success(), "the data cannot be copied");
        self.revive()
    }

    /// Kills it and starts that replica in its place: another server, without the newest commits.
    /// One of PostgreSQL is a standby until it is promoted.
    pub fn fail_over(&mut self) -> Result<()> {
        self.kill()?;
        let data = self.data();
        fs::remove_dir_all(&data)?;
        fs::rename(self.folder.path().join("copy"), &data)?;
        match data.join("PG_VERSION").exists() {
            true => fs::write(data.join("standby.signal"), "")?,
            false => {
                // By this file MySQL knows who it is.
                let _ = fs::remove_file(data.join("auto.cnf"));
                self.recipe.push("--server-id=2".to_owned());
            }
        }
        self.revive()
    }

    /// Fails with its last words when it has ended.
    pub fn lives(&mut self) -> Result<()> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        ensure!(self.child.try_wait()?.is_none(), "the server ended:\n{log}");
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Stops a process, and returns when it has stopped; or lets it go on. It may be gone.
pub(crate) fn stop(process: Pid, signal: Signal) -> Result<()> {
    let began = Instant::now();
    match kill_process(process, signal) {
        Err(Errno::SRCH) => return Ok(()),
        sent => sent?,
    }
    while signal == Signal::STOP && !has_stopped(process) {
        ensure!(began.elapsed() < PATIENCE, "the server does not stop");
        sleep(LOOK);
    }
    Ok(())
}

/// Tells whether every thread of a process stands still, or is gone.
fn has_stopped(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    // The state follows the name, which stands in brackets and may hold anything.
    let state = |stat: String| stat.rsplit_once(") ")?.1.chars().next();
    stats.filter_map(state).all(|state| state == 'T')
}

/// Tells whether any process works in a folder, as each of a server does in its data.
fn works_in(folder: &Path) -> Result<bool> {
    Ok(!working_in(folder)?.is_empty())
}

/// Finds the processes that work in a folder.
fn working_in(folder: &Path) -> Result<Vec<Pid>> {
    let works = |process: &fs::DirEntry| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
    };
    let id = |process: fs::DirEntry| process.file_name().to_str()?.parse().ok();
    let working = fs::read_dir("/proc")?.flatten().filter(works).filter_map(id);
    Ok(working.filter_map(Pid::from_raw).collect())
}

fn spawn(recipe: &[String], run: &Path, folder: &TempDir) -> Result<Child> {
    let (program, args) = recipe.split_first().context("a recipe begins with a program")?;
    let log = File::options().create(true).append(true).open(folder.path().join("log"))?;
    let mut command = Command::new(program);
    // However the test ends, the instance ends with the run.
    command.args(args).env("POSTBOX_RUN", run).current_dir("/").stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log).spawn().context("the server does not start")
}
