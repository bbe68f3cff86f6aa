//! A claim: take or keep the lease, then hand out later rows that are due, then hot rows.
//!
//! Only later rows are written. Hot rows are ours by the lease, whose row names them.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use event::{Address, Cause, Claim, Event, Fence, Millis, Moment, Outcome, Shelf, Want, alone};
use futures_util::TryStreamExt;
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::{ONLY, SHARD, look};
use super::rows;
use super::writer::Work;
use crate::own::{Look, May, Seen};

/// How many rows a claim looks at in vain, at the most, in each table.
const IN_VAIN: i64 = 20_000;

/// One lane's claim.
pub(super) struct Claiming {
    pub(super) lane: usize,
    pub(super) want: Want,
}

#[async_trait]
impl Work for Claiming {
    type Out = Vec<Claim>;
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Self::Out, Fault> {
        let cursor = base.holding().desks[self.lane].cursor(ONLY);
        let glance = look(base, conn, cursor, Millis(i64::MIN)).await?;
        let may = base.holding().may(&glance, self.want.lease);
        let fence = match may {
            May::Nothing | May::Idle => return Ok(Vec::new()),
            May::Renew => {
                renew(base, conn, &glance, self.want.lease, None).await?;
                return Ok(Vec::new());
            }
            May::Keep => glance.fence,
            May::Take => self.take(base, conn, &glance).await?,
        };
        let mut pick = Pick::new(self, glance.now, fence);
        pick.inform(base, conn).await?;
        base.holding().desks[self.lane].open();
        let later = may == May::Take || glance.due.is_some_and(|due| due <= glance.now);
        if later {
            pick.later(base, conn).await?;
        }
        if !pick.closed && (may == May::Take || glance.ahead) {
            pick.hot(base, conn).await?;
        }
        pick.bury(base, conn).await?;
        let out = pick.named.then(|| named(&base.holding().out(ONLY, &BTreeSet::new())));
        renew(base, conn, &Look { fence, ..glance.clone() }, self.want.lease, out).await?;
        let seen = Seen { now: glance.now, newest: glance.newest };
        base.holding().desks[self.lane].seen = pick.all_seen.then_some(seen);
        Ok(pick.claims)
    }

    fn undone(&mut self, base: &Base) {
        base.holding().lose(ONLY);
    }
}

impl Claiming {
    /// Takes the lease. What its last owner had in flight, even if that was us, is unexplained.
    async fn take(
        &self,
        base: &Base,
        conn: &mut SqliteConnection,
        glance: &Look,
    ) -> Result<Fence, Fault> {
        let now = glance.now.0;
        base.sql.lapse_copy.query().bind(SHARD).bind(now).execute(&mut *conn).await?;
        base.sql.lapse_drop.query().bind(SHARD).execute(&mut *conn).await?;
        let until = glance.now + self.want.lease;
        let query = base.sql.take.query().bind(SHARD).bind(&base.owner).bind(until.0);
        let fence = Fence(query.fetch_one(&mut *conn).await?.try_get(0)?);
        base.holding().take(ONLY, fence);
        Ok(fence)
    }
}

/// Renews the lease, and says which hot rows are in flight if that has changed.
pub(super) async fn renew(
    base: &Base,
    conn: &mut SqliteConnection,
    glance: &Look,
    lease: std::time::Duration,
    out: Option<String>,
) -> Result<(), Fault> {
    let until = glance.now + lease;
    let query = base.sql.renew.query().bind(SHARD).bind(&base.owner).bind(glance.fence.0);
    query.bind(until.0).bind(out).execute(conn).await?;
    Ok(())
}

/// Writes the hot rows in flight down as the lease row has them.
pub(super) fn named(out: &[(Millis, Vec<i64>)]) -> String {
    serde_json::to_string(out).expect("numbers are always JSON")
}

/// A claim under way.
struct Pick {
    lane: usize,
    want: Want,
    now: Millis,
    until: Millis,
    fence: Fence,
    claims: Vec<Claim>,
    bytes: usize,
    /// Whether nothing more may be taken: a suspect goes alone.
    closed: bool,
    /// Whether every later row that is due was looked at.
    all_seen: bool,
    /// Whether the lease row must name more hot rows.
    named: bool,
    /// Rows that are no events.
    bad: Vec<(Address, u32, Cause)>,
}

impl Pick {
    fn new(claiming: &Claiming, now: Millis, fence: Fence) -> Pick {
        let Claiming { lane, want } = *claiming;
        Pick {
            lane,
            want,
            now,
            until: now + want.lease,
            fence,
            claims: Vec::new(),
            bytes: 0,
            closed: false,
            all_seen: true,
            named: false,
            bad: Vec::new(),
        }
    }

    /// Tells a fresh hand which keys wait for another attempt.
    async fn inform(&self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        if base.holding().desks[self.lane].part(ONLY).informed {
            return Ok(());
        }
        let parked = base.sql.parked.query().fetch_all(conn).await?;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for row in parked {
            let (number, birth) = (row.try_get(0)?, row.try_get(1)?);
            if desk.lane.topics.take(&rows::lenient(&row, 3)?) {
                desk.part(ONLY).hand.park(Some(&rows::lenient(&row, 2)?), birth, number);
            }
        }
        desk.part(ONLY).informed = true;
        Ok(())
    }

    fn taken(&self) -> usize {
        self.claims.len()
    }

    /// Tells whether a payload fits beside what was taken.
    fn fits(&self, size: usize, taken: usize) -> bool {
        taken == 0 || self.bytes + size <= self.want.bytes
    }

    async fn later(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        let numbers = self.pick_later(base, conn).await?;
        if numbers.is_empty() {
            return Ok(());
        }
        let json = serde_json::to_string(&numbers).expect("numbers are always JSON");
        let query = base.sql.claim_later.query();
        let query = query.bind(json).bind(self.fence.0).bind(self.until.0);
        let mut rows = HashMap::with_capacity(numbers.len());
        for row in query.fetch_all(&mut *conn).await? {
            rows.insert(row.try_get::<i64, _>(0)?, row);
        }
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for number in numbers {
            let row = rows.remove(&number).expect("a row that was just read is still there");
            let attempt = row.try_get::<i64, _>(9)?.try_into().unwrap_or(u32::MAX);
            let address = address(Shelf::Later, number);
            match rows::event(&row, 1)? {
                Ok(event) => {
                    let claim = Claim { event, address, fence: self.fence, attempt };
                    desk.keep(&claim, self.until, rows::trail(&row, 10)?);
                    self.claims.push(claim);
                }
                Err(cause) => {
                    desk.settle(address, &Outcome::Dead(cause.clone()));
                    self.bad.push((address, attempt, cause));
                }
            }
        }
        Ok(())
    }

    /// Chooses among the later rows that are due.
    async fn pick_later(
        &mut self,
        base: &Base,
        conn: &mut SqliteConnection,
    ) -> Result<Vec<i64>, Fault> {
        let mut numbers = Vec::new();
        self.all_seen = false;
        let query = base.sql.due_later.query().bind(self.now.0).bind(IN_VAIN);
        let mut due = query.fetch(conn);
        while let Some(row) = due.try_next().await? {
            let (number, birth) = (row.try_get(0)?, row.try_get(1)?);
            let mut holding = base.holding();
            let desk = &mut holding.desks[self.lane];
            if !desk.lane.topics.take(&rows::lenient(&row, 2)?) {
                continue;
            }
            let unexplained: i64 = row.try_get(4)?;
            let suspect = unexplained >= i64::from(event::Row::SUSPECT);
            let Some(only) = alone(suspect, numbers.len()) else { return Ok(numbers) };
            let size = usize::try_from(row.try_get::<i64, _>(5)?).unwrap_or(usize::MAX);
            let full = numbers.len() == self.want.retries();
            if full || !self.fits(size, numbers.len()) {
                return Ok(numbers);
            }
            let key = rows::lenient(&row, 3)?;
            let key = (!key.is_empty()).then_some(&*key);
            if desk.part(ONLY).hand.offer_later(
                address(Shelf::Later, number),
                key,
                birth,
                self.until,
            ) {
                numbers.push(number);
                self.bytes += size;
                self.closed = only;
                if only {
                    return Ok(numbers);
                }
            }
        }
        self.all_seen = true;
        Ok(numbers)
    }

    async fn hot(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        let mut looked = 0;
        while self.taken() < self.want.limit && looked < IN_VAIN {
            let cursor = base.holding().desks[self.lane].cursor(ONLY);
            let chunk = i64::try_from(self.want.limit - self.taken()).unwrap_or(i64::MAX);
            let chunk = if looked == 0 { chunk } else { chunk.max(256) };
            let query = base.sql.claim_hot.query().bind(cursor).bind(chunk);
            let mut hot = query.fetch(&mut *conn);
            let (mut read, mut stopped) = (0, false);
            while let Some(row) = hot.try_next().await? {
                read += 1;
                if !self.take_hot(base, &row)? {
                    stopped = true;
                    break;
                }
            }
            looked += read;
            if stopped || read < chunk {
                break;
            }
        }
        Ok(())
    }

    /// Looks at one hot row. Returns `false` when no more should be looked at.
    fn take_hot(&mut self, base: &Base, row: &sqlx::sqlite::SqliteRow) -> Result<bool, Fault> {
        if self.taken() == self.want.limit {
            return Ok(false);
        }
        let seq = row.try_get_unchecked(0)?;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        if !desk.lane.topics.take(&rows::lenient(row, 2)?) {
            desk.part(ONLY).hand.skip(seq);
            return Ok(true);
        }
        let address = address(Shelf::Hot, seq);
        let event: Event = match rows::event(row, 1)? {
            Ok(event) => event,
            Err(cause) => {
                desk.part(ONLY).hand.skip(seq);
                self.bad.push((address, 0, cause));
                return Ok(true);
            }
        };
        let size = event.payload.len();
        if !self.fits(size, self.taken()) {
            return Ok(false);
        }
        if desk.part(ONLY).hand.offer_hot(address, event.key.as_deref(), self.until) {
            let claim = Claim { event, address, fence: self.fence, attempt: 1 };
            desk.keep(&claim, self.until, Vec::new());
            self.claims.push(claim);
            self.bytes += size;
            self.named = true;
        }
        Ok(true)
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

fn address(shelf: Shelf, number: i64) -> Address {
    Address { shelf, shard: ONLY, number }
}
