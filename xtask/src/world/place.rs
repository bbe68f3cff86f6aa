//! The place of one instance: its folder, its ports, and the user that it runs as.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::ports::Ports;
use super::run::Run;
use super::sweep::MARK;

/// How many further ports an instance may have.
pub(super) const MORE: usize = 5;

/// The ports of an instance: its own, and those further ones.
pub(super) type Reserved = Ports<{ 1 + MORE }>;

/// A fresh folder and ports that are nobody else's.
pub(super) struct Place<'a> {
    pub(super) folder: PathBuf,
    pub(super) address: SocketAddr,
    /// Further ports, for a server that listens at several: `{port2}`, `{port3}` … of a recipe.
    /// They follow that of its address.
    pub(super) more: [u16; MORE],
    pub(super) ports: Reserved,
    run: &'a Run,
}

impl Place<'_> {
    pub(super) fn new<'a>(run: &'a Run, name: &str) -> Result<Place<'a>> {
        let folder = run.folder().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let ports = Reserved::reserve()?;
        let [port, more @ ..] = ports.numbers;
        Ok(Place { folder, address: (Ipv4Addr::LOCALHOST, port).into(), more, ports, run })
    }

    /// Makes the command of a server: with little of this environment, its words in `log`.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        command.env_clear().env(MARK, self.run.folder()).stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", &self.folder).env("TMPDIR", self.run.short());
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        command.stdout(log.try_clone()?).stderr(log).current_dir(&self.folder).process_group(0);
        Ok(command)
    }

    /// Returns the end of the log.
    pub(super) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Tells whether the log holds the given words.
    pub(super) fn logged(&self, words: &str) -> bool {
        fs::read_to_string(self.folder.join("log")).is_ok_and(|log| log.contains(words))
    }

    /// Asks the instance over HTTP and tells whether the answer holds the given words.
    pub(super) fn answers(&self, path: &str, words: &str) -> bool {
        let ask = || -> io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)?;
            let (mut answer, mut part) = (Vec::new(), [0; 4096]);
            // Read no further than the words: some servers never close the connection.
            loop {
                let read = stream.read(&mut part)?;
                answer.extend_from_slice(&part[..read]);
                let said = String::from_utf8_lossy(&answer).contains(words);
                if said || read == 0 {
                    return Ok(said);
                }
            }
        };
        ask().unwrap_or(false)
    }
}

/// Tells whether this is root, as which some servers refuse to run.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Tells whether every folder of a path can be passed by everybody.
pub(super) fn open_to_others(path: &Path) -> bool {
    let passable =
        |folder: &Path| fs::metadata(folder).is_ok_and(|it| it.permissions().mode() & 0o001 != 0);
    path.ancestors().filter(|folder| !folder.as_os_str().is_empty()).all(passable)
}

/// The user that stands in for root: nobody.
#[derive(Clone, Copy)]
pub(super) struct Nobody {
    uid: u32,
    gid: u32,
}

impl Nobody {
    /// Finds the user when this is root; everybody else runs servers as themselves.
    pub(super) fn if_root() -> Result<Option<Nobody>> {
        if !is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
        let line = users.lines().find(|line| line.starts_with("nobody:"));
        let mut ids = line.context("root needs a user called nobody")?.split(':').skip(2);
        let mut id = || ids.next().and_then(|id| id.parse().ok()).context("/etc/passwd");
        Ok(Some(Nobody { uid: id()?, gid: id()? }))
    }

    /// Lets a command run as that user.
    pub(super) fn run(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Returns the words that let a command run as that user.
    pub(super) fn setpriv(self) -> [String; 4] {
        let (uid, gid) = (format!("--reuid={}", self.uid), format!("--regid={}", self.gid));
        ["setpriv".to_owned(), uid, gid, "--clear-groups".to_owned()]
    }

    /// Gives a file or folder to that user.
    pub(super) fn own(self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid)).with_context(|| path.display().to_string())
    }
}
