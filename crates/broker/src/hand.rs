//! What a feed has in hand and what waits to be handed out, with the leases of both.
//!
//! It asks no broker anything. Leases are counted here from the moment that something came, which
//! is later than the broker counts: so a feed lets the broker count a little longer, and ends
//! nothing whose lease has run out here. A feed that nobody asks any more takes nothing further,
//! and lets go of what waits.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Delivery, Event, Handle, Refusal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::lines::{Came, Halt, Lines, Missed};

/// How often what was missed is asked for where there is no other room.
const PACE: Duration = Duration::from_millis(100);
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
    pub(crate) async fn room(&self) -> usize {
        loop {
            let freed = self.room.notified();
            let extra = {
                let mut state = self.state();
                // Those behind a key that is out must not keep other keys away.
                let wanted = self.most.saturating_sub(state.held.len() + state.lines.free());
                let room = wanted.min((self.most * BEHIND).saturating_sub(state.lines.len()));
                match state.asking {
                    0 => None,
                    _ if room > 0 => return room,
                    _ => match state.extra(Instant::now()) {
                        Ok(room) => return room,
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

    /// The broker has handed out one of a key that did not come: what is newer of it waits.
    pub(crate) fn miss(&self, key: &str, place: P, missed: Missed) {
        self.state().lines.miss(key, place, missed);
        self.room.notify_waiters();
    }

    /// The broker has handed out some that did not come, of nobody knows what keys.
    pub(crate) fn halt(&self, halt: Halt<P>) {
        self.state().lines.halt(halt);
        self.room.notify_waiters();
    }

    /// What was missed of some places may have gone astray once more.
    pub(crate) fn later(&self, missed: Missed, of: impl Fn(&P) -> bool) {
        for (_, it) in self.state().lines.missed().filter(|(place, _)| of(place)) {
            *it = Missed { due: it.due, until: it.until.max(missed.until) };
        }
    }

    /// What was missed of some places is ended: nothing waits for it any more.
    pub(crate) fn settled(&self, is: impl Fn(&P) -> bool) {
        self.state().lines.settled(is);
        self.free();
    }

    /// Tells whether anything was missed.
    pub(crate) fn misses(&self) -> bool {
        self.state().lines.missed().next().is_some()
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
        let (now, grace) = (Instant::now(), self.lease / 4);
        if state.asking == 0 && state.asked + grace < now {
            // What came to nobody while nobody asked may come now.
            let (soon, most) = (now + grace, self.lease * 4);
            for (_, missed) in state.lines.missed() {
                missed.until = missed.until.max(soon.min(missed.due + most));
            }
        }
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
        if state.asking > 0 || state.asked + self.lease / 2 > now {
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
                self.lines.miss(&key, place, Missed { due: now, until });
            }
        }
        if self.asking > 0 {
            self.lines.pass(now);
        }
        let held = self.held.values().map(|held| held.until).min();
        held.into_iter().chain(self.lines.next_pass()).min()
    }

    /// Returns for how many there is room of what was missed and may come by now; or when that may
    /// be, if it may.
    fn extra(&mut self, now: Instant) -> Result<usize, Option<Instant>> {
        let due: Vec<Instant> = self.lines.missed().map(|(_, missed)| missed.due).collect();
        let Some(first) = due.iter().min() else { return Err(None) };
        let at = self.extra.max(*first);
        if at > now {
            return Err(Some(at));
        }
        self.extra = now + PACE;
        Ok(due.into_iter().filter(|due| *due <= now).count())
    }

    fn hold(&mut self, came: Came<P, Arrival<T>>) -> Delivery {
        let Came { key, place, what: Arrival { event, origin, attempt, ticket, until } } = came;
        let handle = Handle(self.numbers);
        self.numbers += 1;
        let held = Held { key, place, ticket, origin: origin.clone(), until, keep: until };
        self.held.insert(handle.0, held);
        Delivery { event, origin, attempt, handle }
    }
}

/// Says that a delivery is no longer its holder's.
pub(crate) fn stale() -> Refusal {
    let detail = "its lease has run out, or it was ended: nothing was changed, it comes again";
    Refusal::Reject(Cause::new(Code::SinkRefused, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn arrival(key: &str, until: Instant) -> Arrival<&'static str> {
        let event = Ok(Event::new("t", "T", "{}").key(key));
        Arrival { event, origin: String::new(), attempt: 1, ticket: "ticket", until }
    }

    fn hand(most: usize) -> Hand<u32, &'static str> {
        Hand::new(most, LEASE)
    }

    async fn next(hand: &Hand<u32, &'static str>) -> Option<Handle> {
        let next = hand.next(Instant::now()).await.unwrap();
        next.map(|delivery| delivery.handle)
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_handed_out_than_may_be_in_hand() {
        let hand = hand(2);
        for (place, key) in [(1, "a"), (2, "b"), (3, "c")] {
            hand.arrive(place, arrival(key, Instant::now() + LEASE));
        }
        let first = next(&hand).await.unwrap();
        assert!(next(&hand).await.is_some());
        assert_eq!(next(&hand).await, None);
        hand.end(first);
        assert!(next(&hand).await.is_some());
        hand.find(first).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_ran_out_ends_nothing_and_holds_its_key_until_it_comes_again() {
        let hand = hand(8);
        hand.arrive(1, arrival("a", Instant::now() + LEASE));
        hand.arrive(2, arrival("a", Instant::now() + LEASE * 4));
        let first = next(&hand).await.unwrap();
        tokio::time::advance(LEASE).await;
        let stale = hand.find(first).unwrap_err();
        assert!(matches!(stale, Refusal::Reject(_)), "{stale:?}");
        assert_eq!(next(&hand).await, None, "its follower waits for it");
        hand.arrive(1, arrival("a", Instant::now() + LEASE));
        let again = next(&hand).await.unwrap();
        assert_ne!(again, first);
        hand.end(first);
        assert_eq!(next(&hand).await, None, "a stale handle frees nothing");
        hand.end(again);
        assert!(next(&hand).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_renewed_and_what_is_in_hand_only_if_it_shall_be_kept() {
        let hand = hand(8);
        hand.arrive(1, arrival("a", Instant::now() + LEASE));
        hand.arrive(2, arrival("a", Instant::now() + LEASE));
        let first = next(&hand).await.unwrap();
        assert_eq!(hand.due(), []);
        tokio::time::advance(LEASE * 3 / 4).await;
        assert_eq!(hand.due(), [], "nobody has asked for half a lease");
        assert_eq!(next(&hand).await, None);
        let until = Instant::now() + LEASE / 4;
        assert_eq!(hand.due(), [Ours { place: 2, ticket: "ticket", until }]);
        hand.keep(first, LEASE * 2);
        assert_eq!(hand.due().len(), 2);
        hand.renewed(&1, Instant::now());
        hand.renewed(&2, Instant::now());
        assert_eq!(hand.due(), []);
        tokio::time::advance(LEASE * 3 / 4).await;
        hand.find(first).unwrap();
        hand.lost(&1);
        hand.find(first).unwrap_err();
        assert_eq!(hand.clear().into_iter().map(|ours| ours.place).collect::<Vec<_>>(), [2]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_ran_out_while_it_waited_goes_before_what_is_newer_of_its_key() {
        let hand = hand(8);
        let soon = Instant::now() + LEASE;
        hand.arrive(1, arrival("a", soon));
        tokio::time::advance(LEASE).await;
        hand.arrive(2, arrival("a", soon + LEASE * 9));
        hand.arrive(3, arrival("b", soon + LEASE * 9));
        let other = next(&hand).await.unwrap();
        assert_eq!(hand.find(other).unwrap().place, 3);
        assert_eq!(next(&hand).await, None, "the first comes again");
        hand.arrive(1, arrival("a", soon + LEASE * 9));
        let first = next(&hand).await.unwrap();
        assert_eq!(hand.find(first).unwrap().place, 1);
        hand.end(first);
        assert_eq!(hand.find(next(&hand).await.unwrap()).unwrap().place, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_finds_room_once_it_may_come() {
        let hand = std::sync::Arc::new(hand(1));
        let due = Instant::now() + LEASE;
        hand.miss("a", 1, Missed { due, until: due + LEASE });
        for place in 2..6 {
            hand.arrive(place, arrival("a", due + LEASE));
        }
        let asking = std::sync::Arc::clone(&hand);
        let asking = tokio::spawn(async move { asking.next(due + LEASE / 2).await });
        assert_eq!(hand.room().await, 1);
        assert_eq!(Instant::now(), due, "those that wait have filled it");
        assert_eq!(hand.room().await, 1);
        assert_eq!(Instant::now(), due + PACE);
        hand.arrive(1, arrival("a", due + LEASE));
        let come = asking.await.unwrap().unwrap().unwrap();
        assert_eq!(hand.find(come.handle).unwrap().place, 1);
        assert!(!hand.misses());
    }

    #[tokio::test(start_paused = true)]
    async fn who_did_not_ask_meanwhile_has_not_missed_it_for_good() {
        let hand = hand(8);
        let due = Instant::now() + LEASE;
        let missed = Missed { due, until: due + LEASE };
        hand.miss("a", 1, missed);
        tokio::time::advance(LEASE * 2).await;
        hand.arrive(2, arrival("a", due + LEASE * 9));
        hand.due();
        assert_eq!(next(&hand).await, None, "it may come now");
        tokio::time::advance(LEASE / 4).await;
        assert!(next(&hand).await.is_some(), "not for ever");
        hand.miss("b", 1, missed);
        hand.arrive(3, arrival("b", due + LEASE * 9));
        hand.later(Missed { due, until: due + LEASE * 2 }, |place| *place == 1);
        assert_eq!(next(&hand).await, None);
        hand.settled(|place| *place == 1);
        assert!(next(&hand).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_let_go_of_is_only_what_is_still_ours() {
        let hand = hand(8);
        let (soon, late) = (Instant::now() + LEASE, Instant::now() + LEASE * 2);
        for (place, key, until) in [(1, "a", soon), (2, "b", late), (3, "a", soon), (4, "b", late)]
        {
            hand.arrive(place, arrival(key, until));
        }
        let (first, second) = (next(&hand).await.unwrap(), next(&hand).await.unwrap());
        assert_eq!(hand.find(first).unwrap().until, soon);
        tokio::time::advance(LEASE).await;
        let mut left = hand.clear();
        left.sort_by_key(|ours| ours.place);
        let ours = |place| Ours { place, ticket: "ticket", until: late };
        assert_eq!(left, [ours(2), ours(4)]);
        hand.find(second).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_taken_for_nobody() {
        let hand = std::sync::Arc::new(hand(3));
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, hand.room()).await.is_err());
        let asking = std::sync::Arc::clone(&hand);
        let asking = tokio::spawn(async move { asking.next(Instant::now() + LEASE).await });
        assert_eq!(hand.room().await, 3);
        asking.abort();
        let _ = asking.await;
        assert!(tokio::time::timeout(soon, hand.room()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_caller_hears_of_what_comes_what_is_freed_and_what_is_wrong() {
        let hand = std::sync::Arc::new(hand(1));
        let ask = |hand: &std::sync::Arc<Hand<u32, &'static str>>| {
            let hand = std::sync::Arc::clone(hand);
            tokio::spawn(async move { hand.next(Instant::now() + LEASE).await })
        };
        let asked = ask(&hand);
        tokio::task::yield_now().await;
        hand.arrive(1, arrival("a", Instant::now() + LEASE * 9));
        let first = asked.await.unwrap().unwrap().unwrap();
        hand.arrive(2, arrival("a", Instant::now() + LEASE * 9));
        let asked = ask(&hand);
        tokio::task::yield_now().await;
        hand.end(first.handle);
        let second = asked.await.unwrap().unwrap().unwrap();
        hand.again(second.handle, Duration::ZERO);
        let asked = ask(&hand);
        tokio::task::yield_now().await;
        hand.trouble(Refusal::Held);
        assert_eq!(asked.await.unwrap(), Err(Refusal::Held));
    }
}
