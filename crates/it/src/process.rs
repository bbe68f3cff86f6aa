//! The real binary as a child process: started, signalled, listened to, and gone at the end.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

/// How often a fact outside this process is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Finds the binary `postbox` that was built beside this executable.
pub fn postbox() -> Result<PathBuf> {
    built("postbox", "postbox-cli")
}

/// Finds a binary of a package that was built beside this executable.
pub(crate) fn built(name: &str, package: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    let built_as = |profile: &str| own.components().any(|part| part.as_os_str() == profile);
    let profile = match (built_as("release"), built_as("dist")) {
        (true, _) => " --release",
        (_, true) => " --profile dist",
        _ => "",
    };
    found.with_context(|| {
        format!("there is no {name} beside {}: cargo build -p {package}{profile}", own.display())
    })
}

/// One running `postbox`. Dropping it kills the process.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `postbox` with these arguments. It logs into a file in `folder`.
    pub fn start(folder: &Path, name: &str, args: &[&str]) -> Result<Process> {
        let log = folder.join(format!("{name}.log"));
        let errors = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(postbox()?)
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()?;
        Ok(Process { child, log })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            kill_process(pid(self.id())?, signal)?;
        }
        Ok(())
    }

    /// Tells whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Returns what it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has logged a text.
    pub async fn says(&mut self, text: &str, at_most: Duration) -> Result<()> {
        let until = Instant::now() + at_most;
        while !self.log().contains(text) {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended ({status}) and never said {text:?}:\n{}", self.log());
            }
            ensure!(Instant::now() < until, "it does not say {text:?}:\n{}", self.log());
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until it has a console; returns where that listens.
    pub async fn console(&mut self, at_most: Duration) -> Result<SocketAddr> {
        const SAYS: &str = "console at http://";
        self.says(SAYS, at_most).await?;
        let log = self.log();
        let address = log.split(SAYS).nth(1).and_then(|rest| rest.split('/').next());
        Ok(address.context("a console has an address")?.parse()?)
    }

    /// Waits for its end.
    pub async fn ends(&mut self, at_most: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + at_most;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < until, "it does not end:\n{}", self.log());
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Kills the process with this id, as a crash would.
pub fn crash(id: u32) -> Result<()> {
    Ok(kill_process(pid(id)?, Signal::KILL)?)
}

fn pid(id: u32) -> Result<Pid> {
    Pid::from_raw(i32::try_from(id)?).context("a process has an id")
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a process that cannot be killed, and it may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
