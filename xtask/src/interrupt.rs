//! Ctrl-C: asks the run to end. What is being waited for is ended, so that the run looks up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::world::sweep;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens from now on. The first signal ends every process of the run, the second ends it hard.
pub(crate) fn listen(run: &Path) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals")?;
    let run = run.to_owned();
    thread::spawn(move || {
        for _ in signals.forever() {
            let again = ASKED.swap(true, Ordering::SeqCst);
            sweep::signal(&run, if again { Signal::KILL } else { Signal::TERM });
        }
    });
    Ok(())
}

/// Tells whether the run was asked to end.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Fails when the run was asked to end.
pub(crate) fn check() -> Result<()> {
    ensure!(!asked(), "interrupted");
    Ok(())
}
