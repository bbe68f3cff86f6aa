//! Small things done with processes.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to end in good order.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a command to its end and returns what it printed; its complaints become the error.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("{program} does not start"))?;
    if !done.status.success() {
        // Maven complains on its standard output.
        let told = if done.stderr.is_empty() { &done.stdout } else { &done.stderr };
        let complaint = String::from_utf8_lossy(told);
        bail!("{program}: {}: {}", done.status, complaint.trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Asks a program for its version: the first word of its answer that starts with a digit.
pub(super) fn version(command: &mut Command) -> Result<String> {
    let answer = output(command.arg("--version"))?;
    let word =
        answer.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    Ok(word.with_context(|| format!("no version in {answer:?}"))?.to_owned())
}

/// Asks a process to end.
pub(super) fn ask(child: &mut Child, farewell: Signal) {
    if let (false, Some(pid)) = (ended(child), Pid::from_raw(child.id().cast_signed())) {
        let _ = kill_process(pid, farewell);
    }
}

/// Waits for the end of a process that was asked for it, and ends it hard when that takes too long.
pub(super) fn wait(child: &mut Child) {
    let began = Instant::now();
    while !ended(child) {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
        }
        sleep(Duration::from_millis(5));
    }
}

fn ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}
