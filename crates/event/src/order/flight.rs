//! Rows in flight, by number.
//!
//! Numbers rise, and claims end in about the order in which they began. So the rows of a shelf
//! stand in one row of memory; one that ends leaves a gap, and gaps are closed before they are more
//! than what is left.

use std::collections::VecDeque;

use super::Position;
use crate::{Address, Fence, Millis, Shelf};

/// A row in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub(super) address: Address,
    /// The place of its key's line, if it keeps one.
    pub(super) line: Option<usize>,
    pub(super) position: Position,
    /// Whether it held its key's followers when it was taken.
    pub(super) holds: bool,
    pub(super) fence: Fence,
    pub(super) until: Millis,
}

/// The rows in flight of one shard.
#[derive(Debug, Default)]
pub(super) struct Flight {
    hot: Rows,
    later: Rows,
}

impl Flight {
    /// Returns a row.
    pub(super) fn get(&self, address: Address) -> Option<&Out> {
        let rows = self.shelf(address.shelf);
        rows.search(address.number).ok().and_then(|at| rows.all[at].as_out())
    }

    /// Adds a row.
    pub(super) fn add(&mut self, out: Out) {
        let rows = self.shelf_mut(out.address.shelf);
        let place = Place { out, gone: false };
        match rows.search(out.address.number) {
            Ok(at) => {
                rows.gaps -= usize::from(rows.all[at].gone);
                rows.all[at] = place;
            }
            Err(at) if at == rows.all.len() => rows.all.push_back(place),
            Err(at) => rows.all.insert(at, place),
        }
    }

    /// Takes a row out that is in flight under this fence.
    pub(super) fn take(&mut self, address: Address, fence: Fence) -> Option<Out> {
        let rows = self.shelf_mut(address.shelf);
        let at = rows.search(address.number).ok()?;
        let out = *rows.all[at].as_out().filter(|out| out.fence == fence)?;
        rows.all[at].gone = true;
        rows.gaps += 1;
        rows.close_gaps();
        Some(out)
    }

    /// Returns the rows, hot ones first, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Out> {
        self.hot().chain(self.later.all.iter().filter_map(Place::as_out))
    }

    /// Returns the hot rows by number.
    pub(super) fn hot(&self) -> impl Iterator<Item = &Out> {
        self.hot.all.iter().filter_map(Place::as_out)
    }

    fn shelf(&self, shelf: Shelf) -> &Rows {
        match shelf {
            Shelf::Hot => &self.hot,
            Shelf::Later => &self.later,
        }
    }

    fn shelf_mut(&mut self, shelf: Shelf) -> &mut Rows {
        match shelf {
            Shelf::Hot => &mut self.hot,
            Shelf::Later => &mut self.later,
        }
    }
}

/// The rows in flight of one shelf.
#[derive(Debug, Default)]
struct Rows {
    all: VecDeque<Place>,
    gaps: usize,
}

/// A row, or the gap that it left.
#[derive(Debug)]
struct Place {
    out: Out,
    gone: bool,
}

impl Place {
    fn number(&self) -> i64 {
        self.out.address.number
    }

    fn as_out(&self) -> Option<&Out> {
        (!self.gone).then_some(&self.out)
    }
}

impl Rows {
    /// Finds where a number stands, or where it belongs: nearly always at the end.
    fn search(&self, number: i64) -> Result<usize, usize> {
        match self.all.back() {
            Some(last) if number <= last.number() => {
                self.all.binary_search_by_key(&number, Place::number)
            }
            _ => Err(self.all.len()),
        }
    }

    fn close_gaps(&mut self) {
        while self.all.pop_front_if(|place| place.gone).is_some() {
            self.gaps -= 1;
        }
        if self.gaps > self.all.len() / 2 {
            self.all.retain(|place| !place.gone);
            self.gaps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: i64) -> Address {
        Address { shelf: Shelf::Hot, shard: 0, number }
    }

    fn out(number: i64) -> Out {
        let (address, fence, until) = (address(number), Fence(1), Millis(1));
        Out { address, line: None, position: (number, 0), holds: false, fence, until }
    }

    fn numbers(flight: &Flight) -> Vec<i64> {
        flight.iter().map(|out| out.address.number).collect()
    }

    #[test]
    fn rows_stand_by_number_however_they_come_and_go() {
        let mut flight = Flight::default();
        [5, 9, 2, 7, 3].into_iter().for_each(|number| flight.add(out(number)));
        assert!(flight.take(address(5), Fence(2)).is_none(), "it is another claim's");
        assert!(flight.take(address(5), Fence(1)).is_some());
        assert!(flight.take(address(5), Fence(1)).is_none() && flight.get(address(5)).is_none());
        flight.add(out(5));
        assert_eq!((numbers(&flight), flight.hot.gaps), (vec![2, 3, 5, 7, 9], 0));
    }

    #[test]
    fn a_row_that_stays_does_not_keep_the_gaps_of_those_that_went() {
        let mut flight = Flight::default();
        for number in 0..1_000 {
            flight.add(out(number));
            if number > 0 {
                assert!(flight.take(address(number), Fence(1)).is_some());
            }
        }
        assert_eq!(numbers(&flight), [0]);
        assert!(flight.hot.all.len() <= 2, "{}", flight.hot.all.len());
    }
}
