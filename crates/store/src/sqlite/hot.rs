//! Choosing hot rows under a lease. None is written: they are ours, and the lease row names them.
//!
//! Rows are read whole as long as each can be taken. Where one cannot, because it is another
//! lane's or its key waits, the rest is looked at without payloads: a claim holds up producers, and
//! must not read a backlog of others to find its own.

use std::collections::HashMap;

use event::{Claim, Event, Outcome, Sequence, Shelf};
use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::SHARD;
use super::pick::{Pick, address};
use super::rows;

/// How many hot rows a claim looks at in vain, at the most; the cursor goes on from there.
const IN_VAIN: i64 = 20_000;

/// How many are looked at in one statement.
const CHUNK: i64 = 256;

/// What a row says about the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It was taken: so may be the next.
    Taken,
    /// It cannot be taken now.
    Passed,
    /// The claim is full, and the row was not looked at.
    Full,
}

impl Pick {
    /// Takes hot rows, from the cursor on.
    pub(super) async fn hot(
        &mut self,
        base: &Base,
        conn: &mut SqliteConnection,
    ) -> Result<(), Fault> {
        let mixed = base.holding().desks[self.lane].mixed;
        let passed = mixed || self.whole(base, conn).await? == Next::Passed;
        let passed = passed && self.without_payloads(base, conn).await?;
        base.holding().desks[self.lane].mixed = passed;
        Ok(())
    }

    /// Takes rows as they stand, until one cannot be.
    async fn whole(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Next, Fault> {
        let cursor = base.holding().desks[self.lane].cursor(SHARD);
        let room = i64::try_from(self.room.want.limit - self.taken()).unwrap_or(i64::MAX);
        let mut hot = base.sql.claim_hot.query().bind(cursor).bind(room).fetch(conn);
        while let Some(row) = hot.try_next().await? {
            let next = self.take_whole(base, &row)?;
            if next != Next::Taken {
                return Ok(next);
            }
        }
        Ok(Next::Full)
    }

    fn take_whole(&mut self, base: &Base, row: &SqliteRow) -> Result<Next, Fault> {
        let address = address(Shelf::Hot, row.try_get_unchecked(0)?);
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        if !desk.lane.topics.take(&rows::lenient(row, 2)?) {
            desk.part(SHARD).hand.skip(address.number);
            return Ok(Next::Passed);
        }
        let event = match rows::event(row, 1)? {
            Ok(event) => event,
            Err(cause) => {
                desk.part(SHARD).hand.skip(address.number);
                self.bad.push((address, 0, cause));
                return Ok(Next::Passed);
            }
        };
        if !self.room.fits(event.payload.len(), self.taken()) {
            return Ok(Next::Full);
        }
        if !desk.part(SHARD).hand.offer_hot(address, event.key.as_deref()) {
            return Ok(Next::Passed);
        }
        self.room.fill(event.payload.len());
        self.claims.push(self.claim_of(event, address.number));
        self.named = true;
        Ok(Next::Taken)
    }

    fn claim_of(&self, event: Event, number: i64) -> Claim {
        let (address, fence, due) = (address(Shelf::Hot, number), self.fence, event.created);
        let event = Event { sequence: Sequence::of(number), ..event };
        Claim { event, address, fence, due, attempt: 1, unexplained: 0 }
    }

    /// Looks at rows without their payloads, and reads those of the rows that it takes. Returns
    /// whether it passed over any.
    async fn without_payloads(
        &mut self,
        base: &Base,
        conn: &mut SqliteConnection,
    ) -> Result<bool, Fault> {
        let (mut numbers, mut passed, mut looked) = (Vec::new(), false, 0);
        'look: while looked < IN_VAIN {
            let cursor = base.holding().desks[self.lane].cursor(SHARD);
            let mut hot = base.sql.look_hot.query().bind(cursor).bind(CHUNK).fetch(&mut *conn);
            let mut read = 0;
            while let Some(row) = hot.try_next().await? {
                read += 1;
                match self.weigh_hot(base, &row, &mut numbers)? {
                    Next::Taken => {}
                    Next::Passed => passed = true,
                    Next::Full => break 'look,
                }
            }
            if read < CHUNK {
                break;
            }
            looked += read;
        }
        self.read_hot(base, conn, &numbers).await?;
        Ok(passed)
    }

    fn weigh_hot(
        &mut self,
        base: &Base,
        row: &SqliteRow,
        numbers: &mut Vec<i64>,
    ) -> Result<Next, Fault> {
        let address = address(Shelf::Hot, row.try_get(0)?);
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        if self.taken() + numbers.len() == self.room.want.limit {
            return Ok(Next::Full);
        }
        if !desk.lane.topics.take(&rows::lenient(row, 1)?) {
            desk.part(SHARD).hand.skip(address.number);
            return Ok(Next::Passed);
        }
        let size = usize::try_from(row.try_get::<i64, _>(3)?).unwrap_or(usize::MAX);
        if !self.room.fits(size, self.taken() + numbers.len()) {
            return Ok(Next::Full);
        }
        let key = rows::lenient(row, 2)?;
        if !desk.part(SHARD).hand.offer_hot(address, (!key.is_empty()).then_some(&*key)) {
            return Ok(Next::Passed);
        }
        self.room.fill(size);
        numbers.push(address.number);
        Ok(Next::Taken)
    }

    /// Reads the rows that were taken.
    async fn read_hot(
        &mut self,
        base: &Base,
        conn: &mut SqliteConnection,
        numbers: &[i64],
    ) -> Result<(), Fault> {
        if numbers.is_empty() {
            return Ok(());
        }
        let json = serde_json::to_string(numbers).expect("numbers are always JSON");
        let mut rows = HashMap::with_capacity(numbers.len());
        for row in base.sql.read_hot.query().bind(json).fetch_all(conn).await? {
            rows.insert(row.try_get::<i64, _>(0)?, row);
        }
        self.named = true;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for number in numbers {
            let row = rows.remove(number).expect("a row that was just read is still there");
            match rows::event(&row, 1)? {
                Ok(event) => self.claims.push(self.claim_of(event, *number)),
                Err(cause) => {
                    let address = address(Shelf::Hot, *number);
                    desk.settle(address, self.fence, &Outcome::Dead(cause.clone()), self.now);
                    self.bad.push((address, 0, cause));
                }
            }
        }
        Ok(())
    }
}
