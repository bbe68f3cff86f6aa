//! Choosing rows under a lease: later rows that are due, and hot rows.
//!
//! Only later rows are written. Hot rows are ours by the lease, whose row names them.

use std::collections::HashMap;

use event::{Address, Cause, Claim, Event, Fence, Millis, Moment, Outcome, Sequence, Shelf, Want};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::SHARD;
use super::rows;
use crate::own::{Look, Room};

/// On which shelves something may be due.
#[derive(Clone, Copy)]
pub(super) struct Shelves {
    pub(super) hot: bool,
    pub(super) later: bool,
}

/// A claim under way.
pub(super) struct Pick {
    pub(super) lane: usize,
    pub(super) room: Room,
    pub(super) now: Millis,
    pub(super) until: Millis,
    /// The newest later row's number.
    pub(super) newest: i64,
    pub(super) fence: Fence,
    pub(super) claims: Vec<Claim>,
    /// Whether every later row that is due was looked at.
    pub(super) all_seen: bool,
    /// Whether the lease row must name more hot rows.
    pub(super) named: bool,
    /// Rows that are no events.
    pub(super) bad: Vec<(Address, u32, Cause)>,
}

impl Pick {
    pub(super) fn new(lane: usize, want: Want, look: &Look, fence: Fence) -> Pick {
        Pick {
            lane,
            room: Room::new(want),
            now: look.now,
            until: look.now + want.lease,
            newest: look.newest,
            fence,
            claims: Vec::new(),
            all_seen: true,
            named: false,
            bad: Vec::new(),
        }
    }

    /// Tells a fresh hand which keys wait for another attempt.
    pub(super) async fn inform(
        &self,
        base: &Base,
        conn: &mut SqliteConnection,
    ) -> Result<(), Fault> {
        if base.holding().desks[self.lane].part(SHARD).informed {
            return Ok(());
        }
        let holders = base.sql.holders.query().fetch_all(conn).await?;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for row in holders {
            let (number, birth) = (row.try_get(0)?, row.try_get(1)?);
            if desk.lane.topics.take(&rows::lenient(&row, 3)?) {
                desk.part(SHARD).hand.hold(Some(&rows::lenient(&row, 2)?), birth, number);
            }
        }
        desk.part(SHARD).informed = true;
        Ok(())
    }

    pub(super) fn taken(&self) -> usize {
        self.claims.len()
    }

    /// Takes what is due, on either shelf.
    pub(super) async fn take(
        &mut self,
        base: &Base,
        conn: &mut SqliteConnection,
        shelves: Shelves,
    ) -> Result<(), Fault> {
        let begins_hot = base.holding().desks[self.lane].turns.begin_hot();
        if begins_hot && shelves.hot {
            self.hot(base, conn).await?;
        }
        if self.claims.is_empty() && shelves.later {
            self.later(base, conn).await?;
        } else {
            self.all_seen = !shelves.later;
        }
        if !begins_hot && !self.room.closed && shelves.hot {
            self.hot(base, conn).await?;
        }
        let later = self.claims.iter().filter(|claim| claim.address.shelf == Shelf::Later).count();
        let hot = self.claims.len() - later;
        base.holding().desks[self.lane].turns.close(later, hot);
        self.bury(base, conn).await
    }

    async fn later(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        let picked = self.sift(base, conn).await?;
        if picked.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = picked.iter().map(|(number, _)| *number).collect();
        let json = serde_json::to_string(&numbers).expect("numbers are always JSON");
        let query = base.sql.claim_later.query();
        let query = query.bind(json).bind(self.fence.0).bind(self.until.0);
        let mut rows = HashMap::with_capacity(numbers.len());
        for row in query.fetch_all(&mut *conn).await? {
            rows.insert(row.try_get::<i64, _>(0)?, row);
        }
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for (number, due) in picked {
            let row = rows.remove(&number).expect("a row that was just read is still there");
            let attempt = row.try_get::<i64, _>(9)?.try_into().unwrap_or(u32::MAX);
            let unexplained = row.try_get::<i64, _>(11)?.try_into().unwrap_or(u32::MAX);
            let address = address(Shelf::Later, number);
            match rows::event(&row, 1)? {
                Ok(event) => {
                    let fence = self.fence;
                    let event = Event { sequence: Sequence::of(row.try_get(12)?), ..event };
                    let claim = Claim { event, address, fence, due, attempt, unexplained };
                    desk.keep(&claim, rows::trail(&row, 10)?);
                    self.claims.push(claim);
                }
                Err(cause) => {
                    desk.settle(address, self.fence, &Outcome::Dead(cause.clone()), self.now);
                    self.bad.push((address, attempt, cause));
                }
            }
        }
        Ok(())
    }

    /// Gives rows up that are no events, so that they stop nobody.
    async fn bury(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        for shelf in [Shelf::Hot, Shelf::Later] {
            let bad = self.bad.iter().filter(|(address, ..)| address.shelf == shelf);
            let ends: Vec<(i64, u32, [Moment; 1])> = bad
                .map(|(address, attempt, cause)| {
                    let moment = Moment { at: self.now, attempt: *attempt, cause: cause.clone() };
                    (address.number, *attempt, [moment])
                })
                .collect();
            if ends.is_empty() {
                continue;
            }
            let numbers: Vec<i64> = ends.iter().map(|(number, ..)| *number).collect();
            let (copy, drop) = match shelf {
                Shelf::Hot => (&base.sql.dead_hot, &base.sql.drop_hot),
                Shelf::Later => (&base.sql.dead_later, &base.sql.drop_later),
            };
            let json = serde_json::to_string(&ends).expect("a cause is always JSON");
            copy.query().bind(json).bind(self.now.0).execute(&mut *conn).await?;
            let json = serde_json::to_string(&numbers).expect("numbers are always JSON");
            drop.query().bind(json).execute(&mut *conn).await?;
        }
        Ok(())
    }
}

pub(super) fn address(shelf: Shelf, number: i64) -> Address {
    Address { shelf, shard: SHARD, number }
}
