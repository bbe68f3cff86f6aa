//! Names that events of a sink went to, so that the next look is at them, too.
//!
//! It never remembers more than a bounded number: topics come and go, and beyond the first of them
//! a look finds those that routes lead to by asking the broker what is there.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names that are remembered at the most.
const MOST: usize = 1000;

/// The names of one sink.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<BTreeSet<String>>);

impl Seen {
    /// Remembers a name.
    pub(crate) fn note(&self, name: &str) {
        let mut names = self.names();
        if names.len() < MOST && !names.contains(name) {
            names.insert(name.to_owned());
        }
    }

    /// Returns the names.
    pub(crate) fn all(&self) -> BTreeSet<String> {
        self.names().clone()
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_names_come_a_bounded_number_is_remembered() {
        let seen = Seen::default();
        for n in 0..2 * MOST {
            seen.note(&n.to_string());
            seen.note("0");
        }
        assert_eq!(seen.all().len(), MOST);
        assert!(seen.all().contains("0"));
    }
}
