//! Finding and ending every process of a run.
//!
//! Each process that a run starts inherits the run's folder in its environment. That mark reaches
//! what process groups and parents do not (a browser's helpers open sessions of their own), and
//! unlike a process id it is never given to a stranger.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that marks a process of a run.
pub(crate) const MARK: &str = "POSTBOX_RUN";

/// What to say to the processes of a run, and how long to wait for its effect. A database takes
/// SIGTERM as leave to wait for its clients, and SIGINT as the end.
const WORDS: [(Signal, Duration); 3] = [
    (Signal::TERM, Duration::from_millis(500)),
    (Signal::INT, Duration::from_secs(5)),
    (Signal::KILL, Duration::from_secs(5)),
];

/// Ends every process of the run and returns how many there were.
pub(crate) fn sweep(run: &Path) -> usize {
    let found = marked(run).len();
    for (word, patience) in WORDS {
        let began = Instant::now();
        signal(run, word);
        while began.elapsed() < patience {
            if marked(run).is_empty() {
                return found;
            }
            sleep(Duration::from_millis(10));
        }
    }
    found
}

/// Signals every process of the run.
pub(crate) fn signal(run: &Path, signal: Signal) {
    for pid in marked(run) {
        // It may have ended by itself, which is as good.
        let _ = kill_process(pid, signal);
    }
}

fn marked(run: &Path) -> Vec<Pid> {
    let mark = [MARK.as_bytes(), b"=", run.as_os_str().as_bytes()].concat();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pid = |name: &str| name.parse().ok().and_then(Pid::from_raw);
    processes
        .flatten()
        .filter_map(|process| Some((pid(process.file_name().to_str()?)?, process.path())))
        .filter(|(_, path)| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark)
        })
        .map(|(pid, _)| pid)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_processes_that_carry_the_mark_are_ended() {
        let start = |mark: &str| {
            Command::new("sleep").arg("600").env(MARK, mark).stdin(Stdio::null()).spawn().unwrap()
        };
        let ours = format!("/nowhere/run-{}", std::process::id());
        let (mut mine, mut stranger) = (start(&ours), start(&format!("{ours}0")));
        while marked(Path::new(&ours)).is_empty()
            || marked(Path::new(&format!("{ours}0"))).is_empty()
        {
            std::thread::yield_now();
        }
        assert_eq!(sweep(Path::new(&ours)), 1);
        assert!(mine.wait().unwrap().code().is_none(), "ended by a signal");
        assert!(stranger.try_wait().unwrap().is_none(), "a stranger lives on");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
