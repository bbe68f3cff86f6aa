//! A process that stands before a server and passes on whatever comes, as a load balancer does. It
//! can be stopped and killed as any broker can; what it has not passed on yet goes with it.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};

use crate::instance::stop;
use crate::process::built;
use crate::world::need;

/// How long it may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// One such process, which ends when this is dropped.
pub struct Front {
    at: SocketAddr,
    to: SocketAddr,
    child: Child,
}

impl Front {
    /// Starts one at an address; returns when it listens.
    pub fn start(at: SocketAddr, to: SocketAddr) -> Result<Front> {
        let mut front = Front { at, to, child: spawn(at, to)? };
        front.listens()?;
        Ok(front)
    }

    /// Stops it in the midst of whatever it does (SIGSTOP), or lets it go on.
    pub fn pause(&self, paused: bool) -> Result<()> {
        stop(Pid::from_child(&self.child), if paused { Signal::STOP } else { Signal::CONT })
    }

    /// Kills it (SIGKILL), and returns when it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts a killed one again; returns when it listens.
    pub fn revive(&mut self) -> Result<()> {
        self.child = spawn(self.at, self.to)?;
        self.listens()
    }

    fn listens(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(self.at).is_err() {
            ensure!(self.child.try_wait()?.is_none(), "it ended at once");
            ensure!(Instant::now() < until, "it does not listen");
            sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn spawn(at: SocketAddr, to: SocketAddr) -> Result<Child> {
    let mut command = Command::new(built("front", "postbox-it")?);
    // However the test ends, it ends with the run.
    command.env("POSTBOX_RUN", need("http").run).args([at.to_string(), to.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("it does not start")
}
