//! Whose broker a quay stands at: the world's, which is everybody's, or one of its own, which may
//! be stopped and killed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use broker::manner::Manner;
use event::Sink;
use tokio::time::sleep;

use crate::instance::Instance;

/// How long a broker may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The place of a broker.
pub(super) struct Berth(Option<Mutex<Instance>>);

impl Berth {
    /// Stands at the broker of the world.
    pub(super) fn shared() -> Berth {
        Berth(None)
    }

    /// Stands at a broker of its own.
    pub(super) fn own(instance: Instance) -> Berth {
        Berth(Some(Mutex::new(instance)))
    }

    /// Returns the manner of a sink that only asks whether a broker is there.
    pub(super) fn asking() -> Manner {
        Manner { timeout: Duration::from_secs(5), ..Manner::new("it") }
    }

    /// Waits until the broker answers a sink.
    pub(super) async fn answers(&self, sink: &dyn Sink) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while let Err(refusal) = sink.probe().await {
            self.instance()?.lives()?;
            ensure!(Instant::now() < until, "it does not answer: {refusal:?}");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Stops its process, or lets it go on.
    pub(super) fn pause(&self, paused: bool) -> Result<()> {
        self.instance()?.pause(paused)
    }

    /// Kills it; returns when it is gone.
    pub(super) fn kill(&self) -> Result<()> {
        self.instance()?.kill()
    }

    /// Starts it again; returns when it answers a sink.
    pub(super) async fn revive(&self, sink: &dyn Sink) -> Result<()> {
        self.instance()?.revive()?;
        self.answers(sink).await
    }

    /// Returns the server of its own.
    pub(super) fn instance(&self) -> Result<MutexGuard<'_, Instance>> {
        let own = self.0.as_ref().context("the world's broker is everybody's")?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
