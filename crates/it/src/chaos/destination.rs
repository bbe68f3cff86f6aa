//! The destination of a run: it takes its time, refuses now and then, and forgets nothing.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use axum::http::StatusCode;

use crate::receiver::{Arrival, Habit, Receiver};

/// Of how many events the first attempt is refused, one.
const REFUSED: u64 = 100;

pub(super) struct Destination {
    receiver: Receiver,
    mind: Arc<Mind>,
}

#[derive(Default)]
struct Mind {
    known: Mutex<Known>,
    distinct: AtomicUsize,
}

#[derive(Default)]
struct Known {
    accepted: HashSet<String>,
    refused: HashSet<String>,
    /// The receipts of what was refused.
    refusals: HashSet<usize>,
}

impl Destination {
    pub(super) async fn start(seed: u64) -> Result<Destination> {
        let mind = Arc::new(Mind::default());
        let receiver = Receiver::start(habit(mind.clone(), seed)).await?;
        Ok(Destination { receiver, mind })
    }

    pub(super) fn url(&self, relay: &str) -> String {
        self.receiver.url(relay)
    }

    /// Counts the different events that were accepted.
    pub(super) fn distinct(&self) -> usize {
        self.mind.distinct.load(Ordering::SeqCst)
    }

    /// Returns what was accepted, in the order in which it came.
    pub(super) fn accepted(&self) -> Vec<Arrival> {
        let known = self.mind.known.lock().expect("no arrival panics");
        let mut arrivals = self.receiver.arrivals();
        arrivals.retain(|arrival| !known.refusals.contains(&arrival.receipt));
        arrivals
    }

    /// Counts what was refused.
    pub(super) fn refused(&self) -> usize {
        self.mind.known.lock().expect("no arrival panics").refusals.len()
    }
}

fn habit(mind: Arc<Mind>, seed: u64) -> Habit {
    Arc::new(move |arrival: Arrival| {
        let mut drawn = DefaultHasher::new();
        (seed, &arrival.id).hash(&mut drawn);
        let drawn = drawn.finish();
        let mind = mind.clone();
        Box::pin(async move {
            let refuses = mind.refuses(arrival, drawn);
            tokio::time::sleep(Duration::from_millis(drawn >> 32 & 15)).await;
            if refuses { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
        })
    })
}

impl Mind {
    fn refuses(&self, arrival: Arrival, drawn: u64) -> bool {
        let mut known = self.known.lock().expect("no arrival panics");
        if drawn.is_multiple_of(REFUSED) && known.refused.insert(arrival.id.clone()) {
            known.refusals.insert(arrival.receipt);
            return true;
        }
        if known.accepted.insert(arrival.id) {
            self.distinct.fetch_add(1, Ordering::SeqCst);
        }
        false
    }
}
