//! Upkeep: retention in small steps, by whichever relay holds the chores.

use std::sync::Arc;
use std::time::Duration;

use event::{Chores, Clock, Keep};
use tokio_util::sync::CancellationToken;

/// Sweeps every so often until told to stop. A full step is followed by the next after a short
/// breath, so that a long arrears is worked off without a long transaction. A trouble is told once.
pub async fn run(
    outbox: &str,
    chores: Arc<dyn Chores>,
    keep: Keep,
    every: Duration,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    const BREATH: Duration = Duration::from_millis(50);
    let mut told = None;
    loop {
        let pause = match chores.sweep(&keep).await {
            Ok(swept) => {
                told = None;
                let full = swept.sent >= keep.step as u64 || swept.inbox >= keep.step as u64;
                if full { BREATH } else { every }
            }
            Err(error) => {
                if told.replace(error.cause().code) != Some(error.cause().code) {
                    tracing::warn!(outbox, %error, "the chores failed and are tried again");
                }
                every
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep(pause) => {}
        }
    }
}
