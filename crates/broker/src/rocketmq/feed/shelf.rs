//! What came and was not yet ended: what waits, and what is in hand.
//!
//! Pure: it calls nobody, and keeps no order of its own. Order per key is the broker's: of a FIFO
//! queue it hands out nothing more before what it handed out is ended or due again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use event::{Cause, Delivery, Event, Handle};
use tokio::time::Instant;

/// Where a parcel lies at its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) broker: String,
    pub(super) queue: i32,
    pub(super) offset: i64,
}

/// One delivery as it came.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) event: Result<Event, Cause>,
    pub(super) place: Place,
    pub(super) attempt: u32,
    pub(super) message: String,
    /// What the broker knows it by for now.
    pub(super) receipt: String,
    /// Until when it is ours.
    pub(super) until: Instant,
}

/// All that is here of one feed.
#[derive(Debug)]
pub(super) struct Shelf {
    most: usize,
    next: u64,
    reserved: usize,
    waiting: VecDeque<Parcel>,
    out: BTreeMap<Handle, Parcel>,
}

impl Shelf {
    /// How long a holder that is late may try to end what it had.
    const MEMORY: Duration = Duration::from_secs(600);

    pub(super) fn new(most: usize) -> Shelf {
        let (waiting, out) = (VecDeque::new(), BTreeMap::new());
        Shelf { most: most.max(1), next: 0, reserved: 0, waiting, out }
    }

    /// Keeps room for parcels that are asked for, at most `wanted`; returns for how many.
    pub(super) fn reserve(&mut self, wanted: usize, now: Instant) -> usize {
        let live = self.out.values().filter(|parcel| parcel.until > now).count();
        let taken = live + self.waiting.len() + self.reserved;
        let room = self.most.saturating_sub(taken).min(wanted);
        self.reserved += room;
        room
    }

    /// Gives back room that was kept.
    pub(super) fn unreserve(&mut self, room: usize) {
        self.reserved = self.reserved.saturating_sub(room);
    }

    /// Tells whether nothing is on its way here.
    pub(super) fn is_calm(&self) -> bool {
        self.reserved == 0
    }

    /// Takes in what came. It replaces what waited of the same place.
    pub(super) fn arrive(&mut self, parcel: Parcel) {
        self.waiting.retain(|other| other.place != parcel.place);
        self.waiting.push_back(parcel);
    }

    /// Hands out the first. What is no longer ours is forgotten, and comes again.
    pub(super) fn take(&mut self, now: Instant) -> Option<Delivery> {
        self.waiting.retain(|parcel| parcel.until > now);
        self.out.retain(|_, parcel| parcel.until + Shelf::MEMORY > now);
        let parcel = self.waiting.pop_front()?;
        self.next += 1;
        let handle = Handle(self.next);
        let Place { topic, broker, queue, offset } = &parcel.place;
        let delivery = Delivery {
            event: parcel.event.clone(),
            origin: format!("{topic}/{broker}/{queue}@{offset}"),
            attempt: parcel.attempt,
            handle,
        };
        self.out.insert(handle, parcel);
        Some(delivery)
    }

    /// Returns what is in hand under a handle.
    pub(super) fn held(&self, handle: Handle) -> Option<&Parcel> {
        self.out.get(&handle)
    }

    /// It was ended at the broker, or went back.
    pub(super) fn end(&mut self, handle: Handle) {
        self.out.remove(&handle);
    }

    /// It stays in hand longer, under another receipt: the old one ends nothing any more.
    pub(super) fn renew(&mut self, handle: Handle, receipt: String, until: Instant) {
        if let Some(parcel) = self.out.get_mut(&handle) {
            parcel.until = until;
            if !receipt.is_empty() {
                parcel.receipt = receipt;
            }
        }
    }

    /// Lets go of what waits; returns what of it is still ours.
    pub(super) fn unwanted(&mut self, now: Instant) -> Vec<Parcel> {
        self.waiting.drain(..).filter(|parcel| parcel.until > now).collect()
    }

    /// Lets go of everything; returns what is still ours.
    pub(super) fn clear(&mut self, now: Instant) -> Vec<Parcel> {
        let out = std::mem::take(&mut self.out).into_values();
        let out = out.filter(|parcel| parcel.until > now).collect::<Vec<_>>();
        out.into_iter().chain(self.unwanted(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn parcel(offset: i64) -> Parcel {
        let (topic, broker) = ("t".to_owned(), "b".to_owned());
        Parcel {
            event: Ok(Event::new("t", "T", offset.to_string())),
            place: Place { topic, broker, queue: 0, offset },
            attempt: 1,
            message: String::new(),
            receipt: offset.to_string(),
            until: Instant::now() + LEASE,
        }
    }

    fn take(shelf: &mut Shelf) -> Option<(Handle, i64)> {
        let delivery = shelf.take(Instant::now())?;
        Some((delivery.handle, shelf.held(delivery.handle)?.place.offset))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_ours_is_not_handed_out_but_its_holder_may_try_to_end_it() {
        let mut shelf = Shelf::new(64);
        shelf.arrive(parcel(0));
        shelf.arrive(parcel(1));
        let (first, _) = take(&mut shelf).unwrap();
        tokio::time::advance(LEASE).await;
        assert_eq!(take(&mut shelf), None, "the second one lapsed while it waited");
        assert!(shelf.held(first).is_some());
        assert_eq!(shelf.reserve(100, Instant::now()), 64, "nobody waits for it");
        assert!(shelf.clear(Instant::now()).is_empty(), "it is not ours to give back");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_asked_for_than_there_is_room() {
        let (mut shelf, now) = (Shelf::new(3), Instant::now());
        assert_eq!(shelf.reserve(2, now), 2);
        assert_eq!(shelf.reserve(2, now), 1);
        shelf.unreserve(3);
        shelf.arrive(parcel(0));
        shelf.arrive(parcel(1));
        let (first, _) = take(&mut shelf).unwrap();
        assert_eq!(shelf.reserve(5, now), 1);
        shelf.unreserve(1);
        shelf.end(first);
        assert_eq!(shelf.reserve(5, now), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_again_while_it_waits_is_there_once_and_a_renewal_changes_its_receipt() {
        let mut shelf = Shelf::new(3);
        shelf.arrive(parcel(0));
        shelf.arrive(Parcel { receipt: "again".to_owned(), ..parcel(0) });
        let (handle, _) = take(&mut shelf).unwrap();
        assert_eq!(shelf.held(handle).unwrap().receipt, "again");
        assert_eq!(take(&mut shelf), None);
        shelf.renew(handle, "new".to_owned(), Instant::now() + LEASE * 2);
        tokio::time::advance(LEASE).await;
        assert_eq!(shelf.held(handle).unwrap().receipt, "new");
        assert_eq!(shelf.clear(Instant::now()).len(), 1);
    }
}
