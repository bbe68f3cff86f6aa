//! Upkeep that fails, on tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Chores, Clock, Code, Keep, Millis, StoreError, Swept};
use postbox_relay::chores;
use tokio_util::sync::CancellationToken;
use tracing::span::Record;
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};

const EVERY: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_trouble_of_the_chores_is_told_once_until_they_go_well_or_another_comes() {
    let lines = Arc::<AtomicUsize>::default();
    let _listening = tracing::subscriber::set_default(Lines(lines.clone()));
    let (missing, denied) = (Some(Code::SchemaMissing), Some(Code::StoreBroken));
    let script = [missing, missing, missing, denied, denied, None, denied, denied];
    let (stop, seen) = (CancellationToken::new(), Arc::<AtomicUsize>::default());
    let upkeep = Arc::new(Script { script: script.to_vec(), seen, stop: stop.clone() });
    let keep = Keep { sent: EVERY, inbox: EVERY, step: 10, lease: EVERY };
    chores::run("orders", upkeep, keep, EVERY, Arc::new(Paused), stop).await;
    assert_eq!(lines.load(Ordering::SeqCst), 3);
}

/// Upkeep that fails as it is told, and then stops.
struct Script {
    script: Vec<Option<Code>>,
    seen: Arc<AtomicUsize>,
    stop: CancellationToken,
}

#[async_trait]
impl Chores for Script {
    async fn sweep(&self, _: &Keep) -> Result<Swept, StoreError> {
        let at = self.seen.fetch_add(1, Ordering::SeqCst);
        if at + 1 == self.script.len() {
            self.stop.cancel();
        }
        match self.script[at] {
            Some(code) => Err(StoreError::Broken(Cause::new(code, "as the test says"))),
            None => Ok(Swept::default()),
        }
    }
}

struct Paused;

#[async_trait]
impl Clock for Paused {
    fn now(&self) -> Millis {
        Millis(0)
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Counts what is logged.
struct Lines(Arc<AtomicUsize>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("postbox_relay")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
