//! The gate before one destination: callers wait here until there is room for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Crowd;
use tokio::sync::Notify;

use crate::width::{Signal, Width};

/// The gates of a process: one for each destination, whoever publishes to it.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// Whose events go through the gates that are asked for here.
    outbox: String,
    all: Arc<Mutex<HashMap<String, Arc<Gate>>>>,
    crowd: Crowd,
}

impl Gates {
    /// Makes gates that leave other relays their part of what a destination may get at once.
    pub fn among(crowd: Crowd) -> Gates {
        Gates { crowd, ..Gates::default() }
    }

    /// Returns the same gates, for the events of an outbox: its relays share what a destination
    /// gets with those of the other outboxes that lead there.
    pub fn at(&self, outbox: &str) -> Gates {
        Gates { outbox: outbox.to_owned(), ..self.clone() }
    }

    /// Returns the gate of a destination. If its callers differ about the most, the least counts.
    pub fn of(&self, destination: &str, most: usize) -> Arc<Gate> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Gate { crowd: self.crowd.clone(), ..Gate::new(most) });
        let gate = all.entry(destination.to_owned()).or_insert_with(new);
        {
            let mut state = gate.state();
            state.width.cap(most);
            state.outboxes.insert(self.outbox.clone());
            state.heard = None;
        }
        Arc::clone(gate)
    }
}

/// Lets offers through, as many at once as is good; shared by all lanes of a destination.
#[derive(Debug)]
pub struct Gate {
    crowd: Crowd,
    state: Mutex<State>,
    free: Notify,
    turns: tokio::sync::Mutex<()>,
}

/// The right of one batch to be the only one with turns that waits for places.
pub(crate) type Turn<'a> = tokio::sync::MutexGuard<'a, ()>;

#[derive(Debug)]
struct State {
    width: Width,
    out: usize,
    /// Whose events go through.
    outboxes: BTreeSet<String>,
    /// Up to which news of the crowd the width is shared.
    heard: Option<usize>,
}

impl Gate {
    /// Makes a gate that never lets more than `most` through at once.
    pub fn new(most: usize) -> Gate {
        let (width, outboxes) = (Width::new(most), BTreeSet::new());
        let state = Mutex::new(State { width, out: 0, outboxes, heard: None });
        let (crowd, turns) = (Crowd::default(), tokio::sync::Mutex::default());
        Gate { crowd, state, free: Notify::new(), turns }
    }

    /// Returns how many may be out now.
    pub fn width(&self) -> usize {
        self.state().width.now()
    }

    /// Returns how many are out now.
    #[cfg(feature = "kafka")]
    pub(crate) fn out(&self) -> usize {
        self.state().out
    }

    /// Learns from a look at the destination how full it is, where 1 is full. Where nobody tells
    /// any more, what was told before says nothing.
    #[cfg(any(
        feature = "kafka",
        feature = "nats",
        feature = "rabbitmq",
        feature = "redis",
        feature = "rocketmq"
    ))]
    pub(crate) fn press(&self, full: Option<f64>) {
        self.state().width.press(full.unwrap_or_default());
        self.free.notify_one();
    }

    /// Begins a look at the destination. One that ends before it told how full it is, however that
    /// comes, says that nobody tells.
    #[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
    pub(crate) fn look(&self) -> Looking<'_> {
        Looking { gate: self, full: None }
    }

    /// Waits for a turn. Batches get theirs in the order in which they ask; one whose own answer
    /// comes while it waits asks anew.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.turns.lock().await
    }

    /// Waits for a place. Dropping the pass gives the place back, and tells nothing.
    pub async fn enter(&self) -> Pass<'_> {
        loop {
            let freed = self.free.notified();
            if let Some(pass) = self.try_enter() {
                return pass;
            }
            freed.await;
        }
    }

    /// Waits until so many places are free, or until nobody is out, and takes as many as are free
    /// and wanted.
    #[cfg(any(feature = "rabbitmq", feature = "redis"))]
    pub(crate) async fn enter_together(&self, least: usize, most: usize) -> Vec<Pass<'_>> {
        loop {
            let freed = self.free.notified();
            let taken = self.take(least, most);
            if taken > 0 {
                return (0..taken).map(|_| Pass { gate: self }).collect();
            }
            freed.await;
        }
    }

    /// Takes a place if one is free.
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        (self.take(1, 1) > 0).then(|| Pass { gate: self })
    }

    fn take(&self, least: usize, most: usize) -> usize {
        let mut state = self.state();
        let free = state.width.now().saturating_sub(state.out);
        if free < least && state.out > 0 {
            return 0;
        }
        let taken = free.min(most);
        state.out += taken;
        // One wake-up may stand for several free places: whoever comes in passes it on.
        if taken < free {
            self.free.notify_one();
        }
        taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let news = Some(self.crowd.news());
        if state.heard != news {
            state.heard = news;
            let relays = self.crowd.relays(&state.outboxes);
            state.width.share(relays);
        }
        state
    }
}

/// A look at the destination that is under way.
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
#[derive(Debug)]
pub(crate) struct Looking<'a> {
    gate: &'a Gate,
    full: Option<f64>,
}

#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
impl Looking<'_> {
    /// Ends the look with what the destination told.
    pub(crate) fn tell(mut self, full: Option<f64>) {
        self.full = full;
    }
}

#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.gate.press(self.full);
    }
}

/// One place behind the gate.
#[derive(Debug)]
pub struct Pass<'a> {
    gate: &'a Gate,
}

impl Pass<'_> {
    /// Gives the place back, with what the answer told.
    pub fn leave(self, signal: Signal) {
        let mut state = self.gate.state();
        let out = state.out;
        state.width.learn(signal, out);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.gate.state().out -= 1;
        self.gate.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_place_is_given_back_however_it_ends() {
        let gate = Gate::new(2);
        for _ in 0..10 {
            let first = gate.enter().await;
            let second = gate.enter().await;
            first.leave(Signal::Silent);
            drop(second);
        }
        assert_eq!(gate.state().out, 0);
    }

    #[cfg(any(feature = "rabbitmq", feature = "redis"))]
    #[tokio::test]
    async fn places_are_taken_together_once_there_are_enough_or_nobody_is_out() {
        let gate = Gate::new(4);
        let mut passes = gate.enter_together(8, 9).await;
        assert_eq!(passes.len(), 4, "there are no more");
        let both = async {
            let waiting = gate.enter_together(2, 3);
            let leaving = async {
                passes.pop();
                tokio::task::yield_now().await;
                assert_eq!(gate.state().out, 3, "one is too few");
                passes.pop();
            };
            tokio::join!(waiting, leaving).0
        };
        assert_eq!(both.await.len(), 2);
    }

    #[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
    #[tokio::test]
    async fn a_look_that_was_left_says_that_nobody_tells_any_more() {
        let gate = Gate::new(4);
        gate.look().tell(Some(0.95));
        assert_eq!(gate.width(), 1);
        let late = async {
            let looking = gate.look();
            std::future::pending::<()>().await;
            looking.tell(Some(0.95));
        };
        assert!(tokio::time::timeout(std::time::Duration::ZERO, late).await.is_err());
        assert_eq!(gate.width(), 4);
    }

    #[test]
    fn a_destination_has_one_gate_and_the_least_of_what_its_callers_want_counts() {
        let gates = Gates::default();
        let first = gates.of("http://a", 16);
        let second = gates.of("http://a", 2);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((first.width(), gates.of("http://b", 16).width()), (2, 4));
        assert_eq!(gates.of("http://a", 16).width(), 2);
    }

    #[tokio::test]
    async fn relays_that_share_the_work_share_what_a_destination_gets_at_once() {
        let crowd = Crowd::default();
        let gate = Gates::among(crowd.clone()).at("orders").of("http://a", 4);
        let passes = [gate.enter().await, gate.enter().await];
        let teller = crowd.at("orders").teller();
        teller.tell(3);
        assert_eq!(gate.width(), 1);
        assert!(gate.try_enter().is_none());
        drop(passes);
        let pass = gate.try_enter().expect("one always may");
        assert!(gate.try_enter().is_none(), "two others have theirs");
        drop((pass, teller));
        for _ in 0..64 {
            let passes: Vec<_> = std::iter::from_fn(|| gate.try_enter()).collect();
            passes.into_iter().for_each(|pass| pass.leave(Signal::Good(Duration::ZERO)));
        }
        assert_eq!(gate.width(), 4, "it is alone again");
    }

    #[test]
    fn only_the_relays_of_outboxes_that_lead_to_a_destination_share_it() {
        let crowd = Crowd::default();
        let gates = Gates::among(crowd.clone());
        let tellers = ["orders", "bills"].map(|outbox| crowd.at(outbox).teller());
        tellers[0].tell(2);
        let shop = gates.at("bills").of("http://a", 4);
        assert_eq!(shop.width(), 4, "orders do not go there");
        tellers[1].tell(1);
        assert_eq!(shop.width(), 4);
        let same = gates.at("orders").of("http://a", 4);
        assert_eq!((shop.width(), same.width()), (2, 2), "now they do");
        tellers[1].tell(4);
        assert_eq!(shop.width(), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn everyone_gets_through_and_never_too_many_at_once() {
        let (gate, inside) = (Arc::new(Gate::new(3)), Arc::new(AtomicUsize::new(0)));
        let visit = |_| {
            let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
            tokio::spawn(async move {
                let pass = gate.enter().await;
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                pass.leave(Signal::Silent);
            })
        };
        let visits: Vec<_> = (0..2000).map(visit).collect();
        for visit in visits {
            visit.await.unwrap();
        }
    }
}
