//! How many relays share the work, as far as this process knows: each takes its part of what a
//! destination may get at once.
//!
//! It paces, and nothing else: no promise depends on what is told here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The relays at the outboxes of one process, this one among them.
#[derive(Clone, Debug, Default)]
pub struct Crowd(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<Told>,
    /// The most that one of them told.
    most: AtomicUsize,
}

#[derive(Debug, Default)]
struct Told {
    tellers: usize,
    relays: BTreeMap<usize, usize>,
}

impl Crowd {
    /// Returns how many there are: 1 as long as nobody told of more. Of several outboxes, the one
    /// with the most relays counts.
    pub fn relays(&self) -> usize {
        self.0.most.load(Ordering::Relaxed).max(1)
    }

    /// Lets somebody tell how many there are at one outbox, until the teller goes.
    pub fn teller(&self) -> Teller {
        let mut told = self.0.told();
        told.tellers += 1;
        Teller { shared: Arc::clone(&self.0), number: told.tellers }
    }
}

/// Who tells how many relays there are at one outbox.
#[derive(Debug)]
pub struct Teller {
    shared: Arc<Shared>,
    number: usize,
}

impl Teller {
    /// Tells how many relays there are now, this one included.
    pub fn tell(&self, relays: usize) {
        self.shared.change(|all| all.insert(self.number, relays));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.shared.change(|all| all.remove(&self.number));
    }
}

impl Shared {
    fn change<T>(&self, how: impl FnOnce(&mut BTreeMap<usize, usize>) -> T) {
        let mut told = self.told();
        how(&mut told.relays);
        let most = told.relays.values().copied().max().unwrap_or_default();
        self.most.store(most, Ordering::Relaxed);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outbox_with_the_most_relays_counts_until_it_is_closed() {
        let crowd = Crowd::default();
        assert_eq!(crowd.relays(), 1);
        let (orders, bills) = (crowd.teller(), crowd.clone().teller());
        orders.tell(3);
        bills.tell(2);
        assert_eq!(crowd.relays(), 3);
        orders.tell(1);
        assert_eq!(crowd.relays(), 2);
        orders.tell(5);
        drop(orders);
        assert_eq!(crowd.relays(), 2);
        drop(bills);
        assert_eq!(crowd.relays(), 1);
    }
}
