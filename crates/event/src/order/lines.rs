//! The lines of keys that have rows in flight, or rows that wait for another attempt.
//!
//! Keys come from producers, so each hand hashes them under a seed of its own. A line that ends
//! leaves its place, and the room for the text of its key, to the next one: where keys come and go
//! all the time, none asks for memory.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Position;
use crate::Fence;

/// How many places are kept when no line is left.
const SPARE: usize = 256;

/// The line of one key.
#[derive(Debug, Default)]
pub(super) struct Line {
    key: String,
    hash: u64,
    /// Rows of the key in flight.
    pub(super) out: usize,
    /// Rows of the key that wait for another attempt, and hold its followers.
    pub(super) holders: BTreeSet<Position>,
    /// The first hot row of the key that was passed over because of those.
    pub(super) waiting: Option<i64>,
    /// The newest claim that took rows of the key.
    pub(super) taken: Fence,
}

/// The lines by key, each at a place that stays its own until it ends.
#[derive(Debug, Default)]
pub(super) struct Lines {
    seed: DefaultHashBuilder,
    by_key: HashTable<usize>,
    places: Vec<Line>,
    free: Vec<usize>,
}

impl Lines {
    /// Finds the line of a key.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        if self.by_key.is_empty() {
            return None;
        }
        let same = |at: &usize| self.places[*at].key == key;
        self.by_key.find(self.seed.hash_one(key), same).copied()
    }

    /// Finds the line of a key, or begins it.
    pub(super) fn enter(&mut self, key: &str) -> usize {
        let hash = self.seed.hash_one(key);
        if let Some(at) = self.by_key.find(hash, |at| self.places[*at].key == key) {
            return *at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Line::default());
            self.places.len() - 1
        });
        let line = &mut self.places[at];
        line.key.push_str(key);
        line.hash = hash;
        self.by_key.insert_unique(hash, at, |at| self.places[*at].hash);
        at
    }

    /// Ends a line in which nobody is left.
    pub(super) fn end(&mut self, at: usize) {
        let line = &mut self.places[at];
        if let Ok(found) = self.by_key.find_entry(line.hash, |other| *other == at) {
            found.remove();
        }
        let mut key = std::mem::take(&mut line.key);
        key.clear();
        *line = Line { key, ..Line::default() };
        self.free.push(at);
        if self.by_key.is_empty() && self.places.len() > SPARE {
            *self = Lines::default();
        }
    }
}

impl Index<usize> for Lines {
    type Output = Line;

    fn index(&self, at: usize) -> &Line {
        &self.places[at]
    }
}

impl IndexMut<usize> for Lines {
    fn index_mut(&mut self, at: usize) -> &mut Line {
        &mut self.places[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_ends_leaves_its_place_and_nothing_else() {
        let mut lines = Lines::default();
        let (one, other) = (lines.enter("one"), lines.enter("other"));
        lines[one].waiting = Some(7);
        lines.end(one);
        assert_eq!((lines.find("one"), lines.find("other")), (None, Some(other)));
        let third = lines.enter("third");
        assert_eq!((third, lines[third].waiting), (one, None));
        assert_eq!((lines.find("third"), lines.find("one")), (Some(third), None));
    }

    #[test]
    fn many_lines_leave_no_places_behind_when_the_last_of_them_ends() {
        let mut lines = Lines::default();
        let places: Vec<usize> = (0..=SPARE).map(|key| lines.enter(&key.to_string())).collect();
        assert_eq!(lines.find(&SPARE.to_string()), places.last().copied());
        places.into_iter().for_each(|at| lines.end(at));
        assert_eq!((lines.places.capacity(), lines.free.capacity()), (0, 0));
    }
}
