//! What a feed has in hand: which event may be handed out now, and which waits behind another.
//!
//! Of one key, the first is handed out and the others wait until it is ended. One that is to come
//! again after a while stays here, with its key: given back to the broker, it would come behind
//! what is already here. Pure: it asks no broker, and the moment comes from outside.

use std::collections::{BTreeMap, HashMap, VecDeque};

use event::{Cause, Delivery, Event, Handle};
use tokio::time::Instant;

/// How many times as many as may be out a queue may bring.
pub(super) const BEHIND: usize = 4;

/// One event as the broker brought it. `T` ends it there.
#[derive(Clone, Debug)]
pub(super) struct Arrival<T> {
    pub(super) event: Result<Event, Cause>,
    pub(super) origin: String,
    pub(super) attempt: u32,
    pub(super) acker: T,
}

impl<T> Arrival<T> {
    fn key(&self) -> Option<&str> {
        self.event.as_ref().ok()?.key.as_deref()
    }
}

/// The book.
#[derive(Debug)]
pub(super) struct Book<T> {
    most: usize,
    /// Which connection brought all of this.
    line: u64,
    handles: u64,
    ready: VecDeque<Arrival<T>>,
    /// Keys of which one is ready, out or to come again, with those that wait behind it.
    busy: HashMap<String, VecDeque<Arrival<T>>>,
    later: BTreeMap<(Instant, u64), Arrival<T>>,
    out: HashMap<Handle, Arrival<T>>,
}

impl<T: Clone> Book<T> {
    pub(super) fn new(most: usize) -> Book<T> {
        let (ready, busy, later, out) =
            (VecDeque::new(), HashMap::new(), BTreeMap::new(), HashMap::new());
        Book { most: most.max(1), line: 0, handles: 0, ready, busy, later, out }
    }

    /// Takes one in. What another connection brought is forgotten: it comes again by this one.
    pub(super) fn arrive(&mut self, line: u64, arrival: Arrival<T>) {
        if line != self.line {
            self.clear();
            self.line = line;
        }
        match arrival.key() {
            None => self.ready.push_back(arrival),
            Some(key) => match self.busy.get_mut(key) {
                Some(waiting) => waiting.push_back(arrival),
                None => {
                    self.busy.insert(key.to_owned(), VecDeque::new());
                    self.ready.push_back(arrival);
                }
            },
        }
    }

    /// Hands out the next, if there is one that can still be ended. Where it cannot, its connection
    /// is gone, and everything that it brought comes again.
    pub(super) fn take(&mut self, now: Instant, usable: impl Fn(&T) -> bool) -> Option<Delivery> {
        while let Some(due) = self.later.first_entry().filter(|due| due.key().0 <= now) {
            self.ready.push_front(due.remove());
        }
        if self.out.len() >= self.most {
            return None;
        }
        let arrival = self.ready.pop_front()?;
        if !usable(&arrival.acker) {
            self.clear();
            return None;
        }
        self.handles += 1;
        let handle = Handle(self.handles);
        let Arrival { event, origin, attempt, .. } = arrival.clone();
        self.out.insert(handle, arrival);
        Some(Delivery { event, origin, attempt, handle })
    }

    /// Returns when the next that waits for its time is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns what ends one that is out.
    pub(super) fn acker(&self, handle: Handle) -> Option<T> {
        self.out.get(&handle).map(|arrival| arrival.acker.clone())
    }

    /// Forgets one that was ended, and lets the next of its key go.
    pub(super) fn end(&mut self, handle: Handle) {
        let Some(arrival) = self.out.remove(&handle) else { return };
        let Some(key) = arrival.key() else { return };
        match self.busy.get_mut(key).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => drop(self.busy.remove(key)),
        }
    }

    /// Takes one back that is to be handed out again. Tells whether it was out.
    pub(super) fn again(&mut self, handle: Handle, at: Instant) -> bool {
        let Some(mut arrival) = self.out.remove(&handle) else { return false };
        arrival.attempt = arrival.attempt.saturating_add(1);
        self.later.insert((at, handle.0), arrival);
        true
    }

    /// Forgets everything: the broker hands it out again.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.busy.clear();
        self.later.clear();
        self.out.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event::{Code, EventId};

    use super::*;

    fn arrival(key: Option<&str>) -> Arrival<u32> {
        let mut event = Event::new("t", "T", "{}");
        event.key = key.map(str::to_owned);
        Arrival { event: Ok(event), origin: "q".into(), attempt: 1, acker: 0 }
    }

    fn take(book: &mut Book<u32>, now: Instant) -> Option<Delivery> {
        book.take(now, |_| true)
    }

    fn id(arrival: &Arrival<u32>) -> EventId {
        arrival.event.as_ref().unwrap().id
    }

    fn came(delivery: &Delivery) -> EventId {
        delivery.event.as_ref().unwrap().id
    }

    #[test]
    fn a_later_event_of_a_key_waits_until_the_earlier_is_ended() {
        let (mut book, now) = (Book::new(10), Instant::now());
        let all = [Some("a"), Some("a"), Some("b"), None].map(arrival);
        all.iter().for_each(|one| book.arrive(1, one.clone()));
        let out: Vec<_> = std::iter::from_fn(|| take(&mut book, now)).collect();
        let ids: Vec<_> = out.iter().map(came).collect();
        assert_eq!(ids, [id(&all[0]), id(&all[2]), id(&all[3])]);
        book.end(out[1].handle);
        assert!(take(&mut book, now).is_none(), "another key's end lets nothing go");
        book.end(out[0].handle);
        let next = take(&mut book, now).unwrap();
        assert_eq!(came(&next), id(&all[1]));
        book.end(next.handle);
        book.arrive(1, arrival(Some("a")));
        assert!(take(&mut book, now).is_some(), "a key that is done is free");
    }

    #[test]
    fn one_that_comes_again_keeps_its_place_and_counts_up() {
        let (mut book, now) = (Book::new(10), Instant::now());
        let all = [Some("a"), Some("a")].map(arrival);
        all.iter().for_each(|one| book.arrive(1, one.clone()));
        let first = take(&mut book, now).unwrap();
        let at = now + Duration::from_secs(9);
        assert!(book.again(first.handle, at) && !book.again(first.handle, at));
        assert_eq!((book.due(), take(&mut book, now)), (Some(at), None));
        let again = take(&mut book, at).unwrap();
        assert_eq!((came(&again), again.attempt), (id(&all[0]), 2));
        assert_ne!(again.handle, first.handle);
        assert_eq!(book.acker(first.handle), None, "the old handle ends nothing");
        book.end(again.handle);
        assert_eq!(came(&take(&mut book, at).unwrap()), id(&all[1]));
    }

    #[test]
    fn no_more_are_out_than_wanted_and_what_is_no_event_holds_nobody() {
        let (mut book, now) = (Book::new(2), Instant::now());
        let bad = Err(Cause::new(Code::BadEvent, "no"));
        let bad = Arrival { event: bad, ..arrival(None) };
        book.arrive(1, bad.clone());
        book.arrive(1, bad);
        book.arrive(1, arrival(None));
        let (first, second) = (take(&mut book, now).unwrap(), take(&mut book, now).unwrap());
        assert!(first.event.is_err() && second.event.is_err() && take(&mut book, now).is_none());
        book.end(first.handle);
        assert!(take(&mut book, now).unwrap().event.is_ok());
    }

    #[test]
    fn a_key_that_is_to_come_later_takes_nobody_elses_place() {
        let (mut book, now) = (Book::new(1), Instant::now());
        let all = [Some("a"), Some("a"), Some("a"), Some("b")].map(arrival);
        all.iter().for_each(|one| book.arrive(1, one.clone()));
        let failing = take(&mut book, now).unwrap();
        assert!(book.again(failing.handle, now + Duration::from_secs(9)));
        let other = take(&mut book, now).unwrap();
        assert_eq!(came(&other), id(&all[3]));
        assert!(take(&mut book, now).is_none());
    }

    #[test]
    fn what_another_connection_brought_is_forgotten() {
        let (mut book, now) = (Book::new(9), Instant::now());
        let one = arrival(Some("a"));
        book.arrive(1, one.clone());
        let old = take(&mut book, now).unwrap();
        book.arrive(2, one.clone());
        assert_eq!(book.acker(old.handle), None);
        assert_eq!(came(&take(&mut book, now).unwrap()), id(&one));
        assert!(!book.again(old.handle, now));
    }

    #[test]
    fn what_can_no_longer_be_ended_is_not_handed_out() {
        let (mut book, now) = (Book::new(9), Instant::now());
        book.arrive(1, arrival(Some("a")));
        book.arrive(1, arrival(Some("b")));
        assert!(book.take(now, |_| false).is_none() && take(&mut book, now).is_none());
        book.arrive(2, arrival(Some("a")));
        assert!(take(&mut book, now).is_some(), "its key is free");
    }
}
