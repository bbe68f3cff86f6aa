//! What is under way between two calls of a seam. What nobody comes back for is forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) struct Flight<K, V>(Mutex<State<K, V>>);

struct State<K, V> {
    out: HashMap<K, (Instant, V)>,
    /// At this size it is worth a look what can be forgotten.
    full: usize,
}

impl<K: Eq + Hash, V: Copy> Flight<K, V> {
    const SMALL: usize = 1024;

    pub(crate) fn new() -> Flight<K, V> {
        Flight(Mutex::new(State { out: HashMap::new(), full: Self::SMALL }))
    }

    /// Remembers a value, for at least as long as it lasts.
    pub(crate) fn put(&self, key: K, value: V, lasts: Duration) {
        let mut state = self.state();
        let now = Instant::now();
        if state.out.len() >= state.full {
            state.out.retain(|_, (until, _)| *until > now);
            state.full = (2 * state.out.len()).max(Self::SMALL);
        }
        state.out.insert(key, (now + lasts, value));
    }

    /// Looks a value up.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.state().out.get(key).map(|(_, value)| *value)
    }

    /// Takes a value out.
    pub(crate) fn take(&self, key: &K) -> Option<V> {
        self.state().out.remove(key).map(|(_, value)| value)
    }

    /// Tells whether anything is under way that still lasts.
    pub(crate) fn any(&self) -> bool {
        let now = Instant::now();
        self.state().out.values().any(|(until, _)| *until > now)
    }

    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.0.lock().expect("nobody panics with it in hand")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_kept_and_the_rest_takes_no_more_than_a_small_place() {
        let flight = Flight::new();
        for number in 0..100_000 {
            let lasts = if number < 5 { Duration::from_secs(3600) } else { Duration::ZERO };
            flight.put(number, number, lasts);
        }
        assert!((0..5).all(|number| flight.get(&number) == Some(number)));
        assert!(flight.state().out.len() <= Flight::<i32, i32>::SMALL);
        assert_eq!((flight.take(&1), flight.take(&1)), (Some(1), None));
        assert!(flight.any());
        let _ = [0, 2, 3, 4].map(|number| flight.take(&number));
        assert!(!flight.any(), "the others do not last");
    }
}
