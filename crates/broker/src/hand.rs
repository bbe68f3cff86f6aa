//! What a feed has in hand and what waits to be handed out, with the leases of both.
//!
//! It asks no broker anything. Leases are counted here from the moment that something came, which
//! is later than the broker counts: so a feed lets the broker count a little longer, and ends
//! nothing whose lease has run out here. A feed that nobody asks any more takes nothing further,
//! and lets go of what waits.

mod missed;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Delivery, Event, Handle, Refusal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::lines::{Came, Lines, Missed};

/// How many times as many as may be in hand may wait.
pub(crate) const BEHIND: usize = 4;

/// What came, and how its broker is told of its end (`T`).
#[derive(Debug)]
pub(crate) struct Arrival<T> {
    pub(crate) event: Result<Event, Cause>,
    pub(crate) origin: String,
    pub(crate) attempt: u32,
    pub(crate) ticket: T,
    /// When its lease runs out.
    pub(crate) until: Instant,
}

/// What somebody works on.
#[derive(Clone, Debug)]
pub(crate) struct Held<P, T> {
    pub(crate) key: Option<String>,
    pub(crate) place: P,
    pub(crate) ticket: T,
    pub(crate) origin: String,
    /// When its lease runs out.
    pub(crate) until: Instant,
    /// Until when it shall be kept.
    keep: Instant,
    /// Its end was told, and perhaps heard.
    ends: bool,
}

/// For how many there is room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Room {
    pub(crate) of: usize,
    /// It is for what was missed; there is none for what is new.
    pub(crate) missed_only: bool,
}

/// What is in hand or waits, and until when it is ours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ours<P, T> {
    pub(crate) place: P,
    pub(crate) ticket: T,
    pub(crate) until: Instant,
}

/// The hand of one feed.
pub(crate) struct Hand<P, T> {
    most: usize,
    /// How long a lease is, and how long after its end another may still hold it.
    lease: Duration,
    state: Mutex<State<P, T>>,
    /// Something may be handed out, or has gone wrong.
    ready: Notify,
    /// There is room for more.
    room: Notify,
}

struct State<P, T> {
    lines: Lines<P, Arrival<T>>,
    held: HashMap<u64, Held<P, T>>,
    numbers: u64,
    trouble: Option<Refusal>,
    /// How many ask now, and until when one that asked before still counts.
    asking: usize,
    asked: Instant,
    /// When what was missed may be asked for next where there is no other room.
    extra: Instant,
}

impl<P: Ord + Clone + Eq + Hash, T: Clone> Hand<P, T> {
    /// Makes an empty hand for at most so many deliveries.
    pub(crate) fn new(most: usize, lease: Duration) -> Hand<P, T> {
        let (lines, held) = (Lines::default(), HashMap::new());
        let (trouble, asked) = (None, Instant::now());
        let state = State { lines, held, numbers: 0, trouble, asking: 0, asked, extra: asked };
        let state = Mutex::new(state);
        let (ready, room) = (Notify::new(), Notify::new());
        Hand { most: most.max(1), lease, state, ready, room }
    }

    /// Returns the length of a lease.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Puts in what came. Whoever still holds the same has lost it.
    pub(crate) fn arrive(&self, place: P, arrival: Arrival<T>) {
        let mut state = self.state();
        state.held.retain(|_, held| held.place != place);
        let key = arrival.event.as_ref().ok().and_then(|event| event.key.clone());
        state.lines.arrive(Came { key, place, what: arrival });
        drop(state);
        self.ready.notify_waiters();
    }

    /// Tells what has gone wrong to whoever asks next.
    pub(crate) fn trouble(&self, refusal: Refusal) {
        self.state().trouble = Some(refusal);
        self.ready.notify_waiters();
    }

    /// Waits until somebody asks and there is room, and returns for how many.
    pub(crate) async fn room(&self) -> Room {
        loop {
            let freed = self.room.notified();
            let extra = {
                let mut state = self.state();
                // Those behind a key that is out must not keep other keys away.
                let wanted = self.most.saturating_sub(state.held.len() + state.lines.free());
                let room = wanted.min((self.most * BEHIND).saturating_sub(state.lines.len()));
                match state.asking {
                    0 => None,
                    _ if room > 0 => return Room { of: room, missed_only: false },
                    _ => match state.extra(Instant::now(), self.most) {
                        Ok(room) => return Room { of: room, missed_only: true },
                        Err(at) => at,
                    },
                }
            };
            match extra {
                Some(at) => {
                    let _ = timeout_at(at, freed).await;
                }
                None => freed.await,
            }
        }
    }

    /// Tells whether somebody asks, or did so a little while ago.
    pub(crate) fn is_asked(&self) -> bool {
        self.state().is_asked(Instant::now(), self.lease)
    }

    /// Waits for the next that may be handed out, at most until then.
    pub(crate) async fn next(&self, until: Instant) -> Result<Option<Delivery>, Refusal> {
        let _asking = self.ask();
        loop {
            let rung = self.ready.notified();
            let wake = {
                let mut state = self.state();
                let now = Instant::now();
                let wake = state.sweep(now, self.lease);
                if state.held.len() < self.most
                    && let Some(came) = state.lines.take()
                {
                    return Ok(Some(state.hold(came)));
                }
                if let Some(refusal) = state.trouble.take() {
                    return Err(refusal);
                }
                wake.map_or(until, |wake| wake.min(until))
            };
            tokio::select! {
                () = rung => {}
                () = sleep_until(wake) => if Instant::now() >= until { return Ok(None) },
            }
        }
    }

    fn ask(&self) -> Asking<'_, P, T> {
        let mut state = self.state();
        state.wait_longer(Instant::now(), self.lease / 4);
        state.asking += 1;
        drop(state);
        self.room.notify_waiters();
        Asking(self)
    }

    /// Tells whether what came from a place waits, or is in hand.
    pub(crate) fn has(&self, place: &P) -> bool {
        let mut state = self.state();
        let held = state.held.values().any(|held| held.place == *place);
        held || state.lines.waiting().any(|came| came.place == *place)
    }

    /// Returns what of some places waits or is in hand, and whose end was not told.
    pub(crate) fn unended(&self, of: impl Fn(&P) -> bool) -> HashSet<P> {
        let mut state = self.state();
        let held: Vec<P> = {
            let held = state.held.values().filter(|held| !held.ends);
            held.map(|held| held.place.clone()).collect()
        };
        let waiting = state.lines.waiting().map(|came| came.place.clone());
        waiting.chain(held).filter(of).collect()
    }

    /// Finds what a handle stands for, to tell its end.
    pub(crate) fn ending(&self, handle: Handle) -> Result<Held<P, T>, Refusal> {
        let mut held = self.find(handle)?;
        held.ends = true;
        if let Some(held) = self.state().held.get_mut(&handle.0) {
            held.ends = true;
        }
        Ok(held)
    }

    /// Finds what a handle stands for, unless its lease has run out.
    pub(crate) fn find(&self, handle: Handle) -> Result<Held<P, T>, Refusal> {
        let mut state = self.state();
        state.sweep(Instant::now(), self.lease);
        state.held.get(&handle.0).cloned().ok_or_else(stale)
    }

    /// Returns how old the lease of a delivery is.
    pub(crate) fn age(&self, handle: Handle) -> Duration {
        let state = self.state();
        let left = state.held.get(&handle.0).map(|held| held.until - Instant::now());
        left.map_or(self.lease, |left| self.lease.saturating_sub(left))
    }

    /// It was ended: its key is free, and there is room.
    pub(crate) fn end(&self, handle: Handle) {
        let mut state = self.state();
        if let Some(Held { key, place, .. }) = state.held.remove(&handle.0) {
            state.lines.end(key.as_deref(), &place);
        }
        drop(state);
        self.free();
    }

    /// It comes again after a while: its key waits for it.
    pub(crate) fn again(&self, handle: Handle, after: Duration) {
        let mut state = self.state();
        let until = Instant::now() + after + self.lease * 2;
        if let Some(Held { key, place, .. }) = state.held.remove(&handle.0) {
            state.lines.comes_again(key.as_deref(), &place, until);
        }
        drop(state);
        self.free();
    }

    /// The lease of a place was renewed a moment ago.
    pub(crate) fn renewed(&self, place: &P, at: Instant) {
        let mut state = self.state();
        let until = at + self.lease;
        for held in state.held.values_mut().filter(|held| held.place == *place) {
            held.until = until;
        }
        for came in state.lines.waiting().filter(|came| came.place == *place) {
            came.what.until = until;
        }
    }

    /// It shall be kept for so long.
    pub(crate) fn keep(&self, handle: Handle, by: Duration) {
        if let Some(held) = self.state().held.get_mut(&handle.0) {
            held.keep = Instant::now() + by;
        }
    }

    /// Somebody else has it: nobody here may end it any more.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn lost(&self, place: &P) {
        let mut state = self.state();
        let until = Instant::now() + self.lease * 2;
        state.lines.forget(|came| came.place == *place);
        let of = state.held.iter().find(|(_, held)| held.place == *place).map(|(of, _)| *of);
        if let Some(Held { key, .. }) = of.and_then(|of| state.held.remove(&of)) {
            state.lines.comes_again(key.as_deref(), place, until);
        }
        drop(state);
        self.free();
    }

    /// Returns what has waited half its lease, or is kept beyond it: to be renewed now.
    pub(crate) fn due(&self) -> Vec<Ours<P, T>> {
        let mut state = self.state();
        let now = Instant::now();
        state.sweep(now, self.lease);
        let half = now + self.lease / 2;
        let mut due = Vec::new();
        if state.is_asked(now, self.lease) {
            for came in state.lines.waiting().filter(|came| came.what.until < half) {
                let (place, ticket) = (came.place.clone(), came.what.ticket.clone());
                due.push(Ours { place, ticket, until: came.what.until });
            }
        }
        let kept = |held: &&Held<P, T>| held.until < half && held.until < held.keep;
        for held in state.held.values().filter(kept) {
            let (place, ticket) = (held.place.clone(), held.ticket.clone());
            due.push(Ours { place, ticket, until: held.until });
        }
        due
    }

    /// Lets go of everything, and returns what is still ours.
    pub(crate) fn clear(&self) -> Vec<Ours<P, T>> {
        let mut state = self.state();
        state.sweep(Instant::now(), self.lease);
        let waiting = state.lines.clear().into_iter().map(|Came { place, what, .. }| {
            let Arrival { ticket, until, .. } = what;
            Ours { place, ticket, until }
        });
        let held = state.held.drain().map(|(_, Held { place, ticket, until, .. })| Ours {
            place,
            ticket,
            until,
        });
        waiting.chain(held).collect()
    }

    fn free(&self) {
        self.ready.notify_waiters();
        self.room.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State<P, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who asks.
struct Asking<'a, P: Ord + Clone + Eq + Hash, T: Clone>(&'a Hand<P, T>);

impl<P: Ord + Clone + Eq + Hash, T: Clone> Drop for Asking<'_, P, T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.asking -= 1;
        state.asked = Instant::now();
    }
}

impl<P: Ord + Clone + Eq + Hash, T: Clone> State<P, T> {
    /// Forgets whatever has run out, for the broker hands it out again. Returns when to look next.
    fn sweep(&mut self, now: Instant, lease: Duration) -> Option<Instant> {
        let over: Vec<u64> = {
            let over = self.held.iter().filter(|(_, held)| held.until <= now);
            over.map(|(number, _)| *number).collect()
        };
        for number in over {
            if let Some(Held { key, place, .. }) = self.held.remove(&number) {
                self.lines.comes_again(key.as_deref(), &place, now + lease * 2);
            }
        }
        for Came { key, place, what } in self.lines.forget(|came| came.what.until <= now) {
            if let Some(key) = key {
                let until = what.until + lease * 2;
                self.lines.miss(&key, place, Missed::new(now, until));
            }
        }
        if self.asking > 0 {
            self.lines.pass(now);
        }
        let held = self.held.values().map(|held| held.until).min();
        held.into_iter().chain(self.lines.next_pass()).min()
    }

    fn is_asked(&self, now: Instant, lease: Duration) -> bool {
        self.asking > 0 || self.asked + lease / 2 > now
    }

    fn hold(&mut self, came: Came<P, Arrival<T>>) -> Delivery {
        let Came { key, place, what: Arrival { event, origin, attempt, ticket, until } } = came;
        let handle = Handle(self.numbers);
        self.numbers += 1;
        let from = origin.clone();
        let held = Held { key, place, ticket, origin: from, until, keep: until, ends: false };
        self.held.insert(handle.0, held);
        Delivery { event, origin, attempt, handle }
    }
}

/// Says that a delivery is no longer its holder's.
pub(crate) fn stale() -> Refusal {
    let detail = "its lease has run out, or it was ended: nothing was changed, it comes again";
    Refusal::Reject(Cause::new(Code::SinkRefused, detail))
}
