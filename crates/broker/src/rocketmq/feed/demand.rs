//! Whether anybody still asks a feed for deliveries.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Who asks, and when somebody last did.
#[derive(Debug)]
pub(super) struct Demand {
    state: Mutex<State>,
    again: Notify,
    /// How long the last question stands for the next.
    lingers: Duration,
}

#[derive(Debug)]
struct State {
    asking: usize,
    last: Option<Instant>,
}

/// One question. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Asking<'a>(&'a Demand);

impl Demand {
    pub(super) fn new(lingers: Duration) -> Demand {
        let state = Mutex::new(State { asking: 0, last: None });
        Demand { state, again: Notify::new(), lingers }
    }

    /// Somebody asks.
    pub(super) fn ask(&self) -> Asking<'_> {
        self.state().asking += 1;
        self.again.notify_waiters();
        Asking(self)
    }

    /// Tells whether nobody asks, nor did so a moment ago.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        let lingers = state.last.is_some_and(|last| last.elapsed() < self.lingers);
        state.asking == 0 && !lingers
    }

    /// Waits until somebody asks.
    pub(super) async fn wait(&self) {
        loop {
            let again = self.again.notified();
            if !self.is_over() {
                return;
            }
            again.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.asking -= 1;
        state.last = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_stands_for_the_next_one_for_a_while() {
        let demand = Demand::new(Duration::from_secs(5));
        assert!(demand.is_over(), "nobody has asked yet");
        let asking = demand.ask();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!demand.is_over(), "it is still asked");
        drop(asking);
        assert!(!demand.is_over());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(demand.is_over());
        let (_asking, ()) = tokio::join!(async { demand.ask() }, demand.wait());
    }
}
