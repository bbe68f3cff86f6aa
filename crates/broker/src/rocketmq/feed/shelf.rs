//! What came and was not yet ended: what waits, and what is in hand.
//!
//! Pure: it calls nobody, and keeps no order of its own. Order per key is the broker's: of a FIFO
//! queue it hands out nothing more before what it handed out is ended or due again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Delivery, Event, Handle};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

/// Where a parcel lies at its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) broker: String,
    pub(super) queue: i32,
    pub(super) offset: i64,
}

/// The right to ask the broker about one parcel.
pub(super) type Turn = OwnedMutexGuard<()>;

/// One delivery as it came.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) event: Result<Event, Cause>,
    pub(super) place: Place,
    pub(super) attempt: u32,
    pub(super) message: String,
    /// What the broker knows it by for now.
    pub(super) receipt: String,
    /// Whether it does: a call without an answer may have changed it.
    pub(super) sure: bool,
    /// Until when it is ours.
    pub(super) until: Instant,
    /// Whose turn it is. Each renewal changes the receipt, so nobody may ask beside it.
    pub(super) turn: Arc<Mutex<()>>,
}

impl Parcel {
    fn free(&self) -> Option<Turn> {
        Arc::clone(&self.turn).try_lock_owned().ok()
    }

    fn lapsed(&self, now: Instant) -> bool {
        self.until <= now && self.free().is_some()
    }
}

/// A parcel that waits and has to be renewed.
#[derive(Debug)]
pub(super) struct Aged {
    pub(super) handle: Handle,
    pub(super) parcel: Parcel,
    pub(super) turn: Turn,
}

/// The first that may be handed out.
#[derive(Debug)]
pub(super) enum Found {
    /// It is in hand now.
    Ready(Delivery),
    /// It waits on, and has to be renewed first.
    Aged(Aged),
}

/// All that is here of one feed.
#[derive(Debug)]
pub(super) struct Shelf {
    most: usize,
    lease: Duration,
    next: u64,
    reserved: usize,
    waiting: BTreeMap<Handle, Parcel>,
    out: BTreeMap<Handle, Parcel>,
}

impl Shelf {
    /// How long a holder that is late may try to end what it had.
    const MEMORY: Duration = Duration::from_secs(600);

    pub(super) fn new(most: usize, lease: Duration) -> Shelf {
        let (waiting, out) = (BTreeMap::new(), BTreeMap::new());
        Shelf { most: most.max(1), lease, next: 0, reserved: 0, waiting, out }
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
        self.waiting.retain(|_, other| other.place != parcel.place);
        self.next += 1;
        self.waiting.insert(Handle(self.next), parcel);
    }

    /// Hands out the first, if most of its lease is left. What is no longer ours is forgotten, and
    /// comes again.
    pub(super) fn take(&mut self, now: Instant) -> Option<Found> {
        self.waiting.retain(|_, parcel| !parcel.lapsed(now));
        self.out.retain(|_, parcel| parcel.until + Shelf::MEMORY > now);
        let mut free =
            self.waiting.iter().filter_map(|(of, parcel)| Some((*of, parcel, parcel.free()?)));
        let (handle, parcel, turn) = free.next()?;
        if !parcel.sure || parcel.until < now + self.lease - self.lease / 8 {
            return Some(Found::Aged(Aged { handle, parcel: parcel.clone(), turn }));
        }
        let Place { topic, broker, queue, offset } = &parcel.place;
        let delivery = Delivery {
            event: parcel.event.clone(),
            origin: format!("{topic}/{broker}/{queue}@{offset}"),
            attempt: parcel.attempt,
            handle,
        };
        let parcel = self.waiting.remove(&handle)?;
        self.out.insert(handle, parcel);
        Some(Found::Ready(delivery))
    }

    /// Returns what has waited half its lease, or has a receipt that is not sure: to be renewed.
    pub(super) fn aged(&self, now: Instant) -> Vec<Aged> {
        let half = now + self.lease / 2;
        let due = self.waiting.iter().filter(|(_, it)| it.until < half || !it.sure);
        let aged = |(handle, parcel): (&Handle, &Parcel)| {
            Some(Aged { handle: *handle, parcel: parcel.clone(), turn: parcel.free()? })
        };
        due.filter_map(aged).collect()
    }

    /// Returns what is in hand under a handle.
    pub(super) fn held(&self, handle: Handle) -> Option<&Parcel> {
        self.out.get(&handle)
    }

    /// It was ended at the broker, went back, or is somebody else's.
    pub(super) fn end(&mut self, handle: Handle) {
        self.out.remove(&handle);
        self.waiting.remove(&handle);
    }

    /// Notes whether its receipt is the one that the broker knows.
    pub(super) fn trust(&mut self, handle: Handle, sure: bool) {
        if let Some(parcel) = self.find(handle) {
            parcel.sure = sure;
        }
    }

    /// It stays ours longer, under another receipt: the old one ends nothing any more.
    pub(super) fn renew(&mut self, handle: Handle, receipt: String, until: Instant) {
        if let Some(parcel) = self.find(handle) {
            parcel.until = until;
            parcel.sure = true;
            if !receipt.is_empty() {
                parcel.receipt = receipt;
            }
        }
    }

    /// Lets go of what waits; returns what of it is still ours.
    pub(super) fn unwanted(&mut self, now: Instant) -> Vec<Parcel> {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        waiting.filter(|parcel| parcel.until > now).collect()
    }

    /// Lets go of everything; returns what is still ours.
    pub(super) fn clear(&mut self, now: Instant) -> Vec<Parcel> {
        let out = std::mem::take(&mut self.out).into_values();
        let out = out.filter(|parcel| parcel.until > now).collect::<Vec<_>>();
        out.into_iter().chain(self.unwanted(now)).collect()
    }

    fn find(&mut self, handle: Handle) -> Option<&mut Parcel> {
        self.waiting.get_mut(&handle).or_else(|| self.out.get_mut(&handle))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const LEASE: Duration = Duration::from_secs(60);

    pub(in super::super) fn parcel(offset: i64) -> Parcel {
        let (topic, broker) = ("t".to_owned(), "b".to_owned());
        Parcel {
            event: Ok(Event::new("t", "T", offset.to_string())),
            place: Place { topic, broker, queue: 0, offset },
            attempt: 1,
            message: String::new(),
            receipt: offset.to_string(),
            sure: true,
            turn: Arc::default(),
            until: Instant::now() + LEASE,
        }
    }

    fn take(shelf: &mut Shelf) -> Option<(Handle, i64)> {
        let Found::Ready(delivery) = shelf.take(Instant::now())? else { return None };
        Some((delivery.handle, shelf.held(delivery.handle)?.place.offset))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_ours_is_not_handed_out_but_its_holder_may_try_to_end_it() {
        let mut shelf = Shelf::new(64, LEASE);
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
        let (mut shelf, now) = (Shelf::new(3, LEASE), Instant::now());
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
        let mut shelf = Shelf::new(3, LEASE);
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

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_renewed_at_half_its_lease_and_handed_out_with_most_of_it() {
        let mut shelf = Shelf::new(3, LEASE);
        shelf.arrive(parcel(0));
        assert!(shelf.aged(Instant::now()).is_empty());
        tokio::time::advance(LEASE / 4).await;
        let found = shelf.take(Instant::now());
        assert!(matches!(found, Some(Found::Aged(_))), "{found:?}");
        assert!(shelf.take(Instant::now()).is_none(), "it is being renewed");
        drop(found);
        assert!(shelf.aged(Instant::now()).is_empty());
        tokio::time::advance(LEASE / 2).await;
        let aged = shelf.aged(Instant::now());
        let [Aged { handle, .. }] = aged[..] else { panic!("{aged:?}") };
        assert!(shelf.aged(Instant::now()).is_empty(), "it is being renewed");
        drop(aged);
        shelf.renew(handle, "new".to_owned(), Instant::now() + LEASE);
        shelf.trust(handle, false);
        assert_eq!(shelf.aged(Instant::now()).len(), 1, "its receipt may be another");
        shelf.trust(handle, true);
        assert_eq!(take(&mut shelf), Some((handle, 0)));
        assert_eq!(shelf.held(handle).unwrap().receipt, "new");
    }
}
