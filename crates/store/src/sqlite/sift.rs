//! Sifting the later rows that are due for those that a lane may take.
//!
//! Rows of other lanes may stand before them by the hundred thousand, when a destination refuses
//! everything. A lane remembers how far it has passed such rows, and looks there only at new ones.

use std::time::Duration;

use event::{Millis, Shelf};
use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::SHARD;
use super::pick::{Pick, address};
use super::rows;
use crate::own::{Due, Next};

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
            let mut holding = base.holding();
            let part = holding.desks[self.lane].part(SHARD);
            // Under a clock that was set back, what was passed is not all due any more, and claims
            // may end there.
            part.passed.spoil(self.now + Duration::from_millis(1));
            part.passed
        };
        let mut picked = Vec::new();
        let mut mine = false;
        if !passed.is_nothing() {
            let query = base.sql.new_later.query().bind(passed.newest);
            let mut new = query.bind(passed.due.0).bind(passed.number).fetch(&mut *conn);
            while let Some(row) = new.try_next().await? {
                let next = self.weigh(base, &row, &mut picked)?;
                mine |= next != Next::Passed;
                if matches!(next, Next::Alone | Next::Full) {
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
        while !matches!(next, Next::Alone | Next::Full)
            && let Some(row) = onward.try_next().await?
        {
            next = self.weigh(base, &row, &mut picked)?;
            passing &= next == Next::Passed;
            if passing {
                (passed.number, passed.due) = (row.try_get(0)?, Millis(row.try_get(6)?));
            }
        }
        self.all_seen = !matches!(next, Next::Alone | Next::Full);
        base.holding().desks[self.lane].part(SHARD).passed = passed;
        Ok(picked)
    }

    /// Looks at one later row, and takes it if it may.
    fn weigh(
        &mut self,
        base: &Base,
        row: &SqliteRow,
        picked: &mut Vec<(i64, Millis)>,
    ) -> Result<Next, Fault> {
        let number = row.try_get(0)?;
        let (topic, key) = (rows::lenient(row, 2)?, rows::lenient(row, 3)?);
        let due = Due {
            address: address(Shelf::Later, number),
            birth: row.try_get(1)?,
            topic: &topic,
            key: (!key.is_empty()).then_some(&*key),
            unexplained: row.try_get(4)?,
            size: usize::try_from(row.try_get::<i64, _>(5)?).unwrap_or(usize::MAX),
        };
        let next = self.room.weigh(&mut base.holding().desks[self.lane], &due);
        if matches!(next, Next::Taken | Next::Alone) {
            picked.push((number, Millis(row.try_get(6)?)));
        }
        Ok(next)
    }
}
