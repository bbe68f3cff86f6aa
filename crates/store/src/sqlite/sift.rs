//! Sifting the later rows that are due for those that a lane may take.
//!
//! Rows of other lanes may stand before them by the hundred thousand, when a destination refuses
//! everything. A lane remembers how far it has passed such rows, and looks there only at new ones.

use std::time::Duration;

use event::{Joins, Millis, Row as Rule, Shelf};
use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::pick::{Pick, address};
use super::rows;

/// Up to where every later row is another lane's, by due time and number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    due: Millis,
    number: i64,
    /// The newest row's number when that was so: newer ones may have come in between.
    newest: i64,
}

impl Passed {
    /// Returns the due time and the number of the last row that was passed.
    #[cfg(test)]
    pub(super) fn place(&self) -> (Millis, i64) {
        (self.due, self.number)
    }

    /// Forgets what was passed when a row of this lane may have come to stand there: one that is
    /// due at `due` or later.
    pub(super) fn spoil(&mut self, due: Millis) {
        if due <= self.due {
            *self = Passed::default();
        }
    }
}

/// What a row says about the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is another lane's.
    Passed,
    /// Look on.
    Seen,
    /// The claim is full.
    Full,
}

impl Pick {
    /// Chooses later rows that are due, by number and since when, in the order in which they became
    /// so.
    pub(super) async fn sift(
        &mut self,
        base: &Base,
        conn: &mut SqliteConnection,
    ) -> Result<Vec<(i64, Millis)>, Fault> {
        self.all_seen = false;
        let mut passed = {
            let desk = &mut base.holding().desks[self.lane];
            // Under a clock that was set back, what was passed is not all due any more, and claims
            // may end there.
            desk.passed.spoil(self.now + Duration::from_millis(1));
            desk.passed
        };
        let mut picked = Vec::new();
        let mut mine = false;
        if passed.number > 0 {
            let query = base.sql.new_later.query().bind(passed.newest);
            let mut new = query.bind(passed.due.0).bind(passed.number).fetch(&mut *conn);
            while let Some(row) = new.try_next().await? {
                let next = self.weigh(base, &row, &mut picked)?;
                mine |= next != Next::Passed;
                if next == Next::Full {
                    return Ok(picked);
                }
            }
        }
        if !mine {
            passed.newest = self.newest;
        }
        let query = base.sql.due_later.query().bind(self.now.0);
        let mut onward = query.bind(passed.due.0).bind(passed.number).fetch(&mut *conn);
        let (mut passing, mut next) = (true, Next::Seen);
        while next != Next::Full
            && let Some(row) = onward.try_next().await?
        {
            next = self.weigh(base, &row, &mut picked)?;
            passing &= next == Next::Passed;
            if passing {
                (passed.number, passed.due) = (row.try_get(0)?, Millis(row.try_get(6)?));
            }
        }
        self.all_seen = next != Next::Full;
        base.holding().desks[self.lane].passed = passed;
        Ok(picked)
    }

    /// Looks at one later row, and takes it if it may.
    fn weigh(
        &mut self,
        base: &Base,
        row: &SqliteRow,
        picked: &mut Vec<(i64, Millis)>,
    ) -> Result<Next, Fault> {
        let (number, birth) = (row.try_get(0)?, row.try_get(1)?);
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        if !desk.lane.topics.take(&rows::lenient(row, 2)?) {
            return Ok(Next::Passed);
        }
        let suspect = row.try_get::<i64, _>(4)? >= i64::from(Rule::SUSPECT);
        let joins = Joins::of(suspect, picked.len());
        let size = usize::try_from(row.try_get::<i64, _>(5)?).unwrap_or(usize::MAX);
        let (most, bytes) = self.want.retries();
        let full = picked.len() == most || (!picked.is_empty() && self.bytes + size > bytes);
        if joins == Joins::NotNow || full {
            return Ok(Next::Full);
        }
        let key = rows::lenient(row, 3)?;
        let key = (!key.is_empty()).then_some(&*key);
        if desk.hand.offer_later(address(Shelf::Later, number), key, birth) {
            picked.push((number, Millis(row.try_get(6)?)));
            self.bytes += size;
            self.closed = joins == Joins::Alone;
        }
        Ok(if self.closed { Next::Full } else { Next::Seen })
    }
}
