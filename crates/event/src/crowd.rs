//! How many relays share the work at each outbox, as far as this process knows: each takes its part
//! of what a destination may get at once.
//!
//! It paces, and nothing else: no promise depends on what is told here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The relays at the outboxes of one process, this one among them.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    /// Of which outbox is told by this handle.
    outbox: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<Told>,
    /// How often something was told.
    news: AtomicUsize,
}

#[derive(Debug, Default)]
struct Told {
    tellers: usize,
    /// By its teller: which outbox, and how many are there.
    relays: BTreeMap<usize, (String, usize)>,
}

impl Crowd {
    /// Returns a handle on the same crowd, by which is told of an outbox.
    pub fn at(&self, outbox: &str) -> Crowd {
        Crowd { outbox: outbox.to_owned(), shared: Arc::clone(&self.shared) }
    }

    /// Returns how many there are at some outboxes: 1 as long as nobody told of more. Of several
    /// outboxes, the one with the most relays counts.
    pub fn relays(&self, outboxes: &BTreeSet<String>) -> usize {
        let told = self.shared.told();
        let here = told.relays.values().filter(|(outbox, _)| outboxes.contains(outbox));
        here.map(|(_, relays)| *relays).max().unwrap_or_default().max(1)
    }

    /// Returns how often something was told: as long as that stays the same, so do the relays.
    pub fn news(&self) -> usize {
        self.shared.news.load(Ordering::Acquire)
    }

    /// Lets somebody tell how many there are at this handle's outbox, until the teller goes.
    pub fn teller(&self) -> Teller {
        let mut told = self.shared.told();
        told.tellers += 1;
        Teller { crowd: self.clone(), number: told.tellers }
    }
}

/// Who tells how many relays there are at one outbox.
#[derive(Debug)]
pub struct Teller {
    crowd: Crowd,
    number: usize,
}

impl Teller {
    /// Tells how many relays there are now, this one included.
    pub fn tell(&self, relays: usize) {
        let Crowd { outbox, shared } = &self.crowd;
        shared.change(|all| all.insert(self.number, (outbox.clone(), relays)));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.crowd.shared.change(|all| all.remove(&self.number));
    }
}

impl Shared {
    fn change<T>(&self, how: impl FnOnce(&mut BTreeMap<usize, (String, usize)>) -> T) {
        let mut told = self.told();
        how(&mut told.relays);
        // Whoever sees this sees the change, too.
        self.news.fetch_add(1, Ordering::Release);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_some_outboxes_the_one_with_the_most_relays_counts_until_it_is_closed() {
        let crowd = Crowd::default();
        let at = |outboxes: &[&str]| {
            crowd.relays(&outboxes.iter().map(|name| (*name).to_owned()).collect())
        };
        assert_eq!(at(&["orders", "bills"]), 1);
        let (orders, bills) = (crowd.at("orders").teller(), crowd.at("bills").teller());
        orders.tell(3);
        bills.tell(2);
        assert_eq!((at(&["orders", "bills"]), at(&["bills"]), at(&["mail"])), (3, 2, 1));
        let before = crowd.news();
        orders.tell(1);
        assert_ne!(crowd.news(), before);
        assert_eq!((at(&["orders", "bills"]), at(&["orders"])), (2, 1));
        orders.tell(5);
        let before = crowd.news();
        drop(orders);
        assert_ne!(crowd.news(), before);
        assert_eq!(at(&["orders", "bills"]), 2);
        drop(bills);
        assert_eq!(at(&["orders", "bills"]), 1);
    }
}
