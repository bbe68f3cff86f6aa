//! How far a lane has passed the later rows of other lanes, which may stand before its own by the
//! hundred thousand when a destination refuses everything. It looks there only at new ones.

use event::Millis;

/// Up to where every later row is another lane's, by due time and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) due: Millis,
    pub(crate) number: i64,
    /// The newest row's number when that was so: newer ones may have come in between.
    pub(crate) newest: i64,
    /// How many rows were passed since nothing was.
    pub(crate) rows: u32,
}

impl Passed {
    /// Tells whether nothing was passed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.number == 0
    }

    /// Passes one row more, up to which every row is another lane's.
    pub(crate) fn pass(&mut self, due: Millis, number: i64) {
        (self.due, self.number) = (due, number);
        self.rows = self.rows.saturating_add(1);
    }

    /// Forgets what was passed when a row of this lane may have come to stand there: one that is
    /// due at `due` or later.
    pub(crate) fn spoil(&mut self, due: Millis) {
        if due <= self.due {
            (self.due, self.number, self.rows) = (Millis(0), 0, 0);
        }
    }
}
