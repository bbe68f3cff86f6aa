//! What a claim picks: later rows that are due, then hot rows, as each key's line allows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::{Address, Cause, Claim, Event, Millis, Moment, Outcome, Shelf, Want, alone};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::claim::Stage;
use super::error::Fault;
use super::glance::{Begins, number};
use super::rows;
use crate::own::Snapshot;

/// How many rows a claim looks at in vain, at the most, in each table.
const IN_VAIN: i64 = 20_000;

/// A claim under way.
pub(super) struct Pick<'a> {
    lane: usize,
    want: Want,
    now: Millis,
    until: Millis,
    stages: &'a [Stage],
    claims: Vec<Claim>,
    bytes: usize,
    /// Whether nothing more may be taken: a suspect goes alone.
    closed: bool,
    /// Whether every later row that is due was looked at.
    pub(super) all_seen: bool,
    /// Shards whose lease rows must name more hot rows.
    named: BTreeSet<u16>,
    /// Shards in which something was there to look at.
    stirred: BTreeSet<u16>,
    /// Rows that are no events.
    bad: Vec<(Address, u32, Cause)>,
}

impl<'a> Pick<'a> {
    pub(super) fn new(lane: usize, want: Want, now: Millis, stages: &'a [Stage]) -> Pick<'a> {
        Pick {
            lane,
            want,
            now,
            until: now + want.lease,
            stages,
            claims: Vec::new(),
            bytes: 0,
            closed: false,
            all_seen: true,
            named: BTreeSet::new(),
            stirred: BTreeSet::new(),
            bad: Vec::new(),
        }
    }

    fn stage(&self, shard: u16) -> &Stage {
        let stage = self.stages.iter().find(|stage| stage.shard == shard);
        stage.expect("only shards of this claim are looked at")
    }

    /// Tells fresh hands which keys wait for another attempt.
    pub(super) async fn inform(&self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let fresh: Vec<u16> = {
            let mut holding = base.holding();
            let desk = &mut holding.desks[self.lane];
            let shards = self.stages.iter().filter(|stage| stage.hot || stage.later);
            shards.map(|stage| stage.shard).filter(|shard| !desk.part(*shard).informed).collect()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        let shards: Vec<i16> = fresh.iter().map(|shard| number(*shard)).collect();
        let parked = base.sql.parked.query().bind(shards).fetch_all(conn).await?;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for row in parked {
            let (number, birth, shard) = (row.try_get(0)?, row.try_get(1)?, rows::shard(&row, 4)?);
            if desk.lane.topics.take(rows::text(&row, 3)?) {
                desk.part(shard).hand.park(Some(rows::text(&row, 2)?), birth, number);
            }
        }
        fresh.into_iter().for_each(|shard| desk.part(shard).informed = true);
        Ok(())
    }

    fn taken(&self) -> usize {
        self.claims.len()
    }

    /// Tells whether a payload fits beside what was taken.
    fn fits(&self, size: usize, taken: usize) -> bool {
        taken == 0 || self.bytes + size <= self.want.bytes
    }

    /// Claims later rows that are due.
    pub(super) async fn later(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
    ) -> Result<(), Fault> {
        let shards = self.stages.iter().filter(|stage| stage.later).map(|stage| stage.shard);
        let shards: Vec<u16> = shards.collect();
        if shards.is_empty() {
            return Ok(());
        }
        self.stirred.extend(&shards);
        let picked = self.pick_later(base, conn, &shards).await?;
        if picked.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = picked.iter().map(|(number, _)| *number).collect();
        let fences: Vec<i64> = picked.iter().map(|(_, shard)| self.stage(*shard).fence.0).collect();
        let query = base.sql.claim_later.query().bind(numbers).bind(fences).bind(self.until.0);
        let mut claimed = HashMap::with_capacity(picked.len());
        for row in query.fetch_all(&mut *conn).await? {
            claimed.insert(row.try_get::<i64, _>(0)?, row);
        }
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for (number, shard) in picked {
            let row = claimed.remove(&number).expect("nobody else moves rows of an open shard");
            let attempt = u32::try_from(row.try_get::<i32, _>(9)?).unwrap_or(u32::MAX);
            let address = Address { shelf: Shelf::Later, shard, number };
            match rows::event(&row, 1)? {
                Ok(event) => {
                    let fence = self.stage(shard).fence;
                    let claim = Claim { event, address, fence, attempt };
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
        conn: &mut PgConnection,
        shards: &[u16],
    ) -> Result<Vec<(i64, u16)>, Fault> {
        let mut picked = Vec::new();
        self.all_seen = false;
        let numbers: Vec<i16> = shards.iter().map(|shard| number(*shard)).collect();
        let query = base.sql.due_later.query().bind(self.now.0).bind(IN_VAIN).bind(numbers);
        let due = query.fetch_all(conn).await?;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for row in due {
            let (number, birth) = (row.try_get(0)?, row.try_get(1)?);
            if !desk.lane.topics.take(rows::text(&row, 2)?) {
                continue;
            }
            let suspect = i64::from(row.try_get::<i32, _>(4)?) >= i64::from(event::Row::SUSPECT);
            let Some(only) = alone(suspect, picked.len()) else { return Ok(picked) };
            let size = usize::try_from(row.try_get::<i32, _>(5)?).unwrap_or(usize::MAX);
            if picked.len() == self.want.retries() || !self.fits(size, picked.len()) {
                return Ok(picked);
            }
            let key: Option<&str> = row.try_get(3)?;
            let shard = rows::shard(&row, 6)?;
            let address = Address { shelf: Shelf::Later, shard, number };
            if desk.part(shard).hand.offer_later(address, key, birth, self.until) {
                picked.push((number, shard));
                self.bytes += size;
                self.closed = only;
                if only {
                    return Ok(picked);
                }
            }
        }
        self.all_seen = true;
        Ok(picked)
    }

    /// Reads hot rows.
    pub(super) async fn hot(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let shards = self.stages.iter().filter(|stage| stage.hot).map(|stage| stage.shard);
        let shards: Vec<u16> = shards.collect();
        let mut looked = 0;
        while !self.closed
            && !shards.is_empty()
            && self.taken() < self.want.limit
            && looked < IN_VAIN
        {
            let chunk = i64::try_from(self.want.limit - self.taken()).unwrap_or(i64::MAX);
            let chunk = if looked == 0 { chunk } else { chunk.max(256) };
            let begins = Begins::of(&base.holding().desks[self.lane], shards.iter().copied());
            let from: BTreeMap<u16, i64> =
                shards.iter().copied().zip(begins.from.iter().copied()).collect();
            let query = base.sql.claim_hot.query().bind(begins.shards).bind(begins.from);
            let query = query.bind(chunk).bind(begins.late_shards).bind(begins.late);
            let mut hot = query.bind(begins.late_from).fetch_all(&mut *conn).await?;
            let snapshot = hot.remove(0);
            let snapshot = Snapshot::parse(rows::text(&snapshot, 5)?).unwrap_or_default();
            let read = hot.len() as i64;
            looked += read;
            let stopped = self.offer(base, hot, &from, &snapshot, read == chunk)?;
            if stopped || read < chunk {
                break;
            }
        }
        Ok(())
    }

    /// Offers what one look showed, the oldest first. Returns whether no more should be looked at.
    fn offer(
        &mut self,
        base: &Base,
        hot: Vec<PgRow>,
        from: &BTreeMap<u16, i64>,
        snapshot: &Snapshot,
        cut: bool,
    ) -> Result<bool, Fault> {
        let mut line = Vec::with_capacity(hot.len());
        for row in hot {
            line.push((row.try_get::<i64, _>(0)?, rows::shard(&row, 9)?, row));
        }
        line.sort_by_key(|(seq, ..)| *seq);
        let mut holding = base.holding();
        let before: BTreeMap<u16, i64> =
            from.keys().map(|shard| (*shard, holding.desks[self.lane].cursor(*shard))).collect();
        let mut last: BTreeMap<u16, Option<i64>> = BTreeMap::new();
        let mut stopped = false;
        for (seq, shard, row) in line {
            let last = last.entry(shard).or_default();
            if stopped
                || !self.take_hot(
                    &mut holding.desks[self.lane],
                    &row,
                    (seq, shard),
                    before[&shard],
                )?
            {
                stopped = true;
                continue;
            }
            *last = Some(seq);
        }
        for (shard, before) in before {
            // A shard that showed nothing was not reached, if there may have been more.
            let shown = last.get(&shard);
            if shown.is_none() && (cut || stopped) {
                continue;
            }
            let sight = &mut holding.desks[self.lane].part(shard).sight;
            let began = sight.began(snapshot, from[&shard]);
            let ended = (cut || stopped).then(|| shown.copied().flatten().unwrap_or(began));
            sight.saw(snapshot, began, before, ended);
        }
        Ok(stopped)
    }

    /// Looks at one hot row. Returns `false` when no more should be looked at.
    fn take_hot(
        &mut self,
        desk: &mut crate::own::Desk,
        row: &PgRow,
        (seq, shard): (i64, u16),
        before: i64,
    ) -> Result<bool, Fault> {
        if self.taken() == self.want.limit {
            return Ok(false);
        }
        if seq > before {
            self.stirred.insert(shard);
        }
        if !desk.lane.topics.take(rows::text(row, 2)?) {
            desk.part(shard).hand.skip(seq);
            return Ok(true);
        }
        let address = Address { shelf: Shelf::Hot, shard, number: seq };
        if desk.in_flight(address).is_some() {
            return Ok(true);
        }
        let event: Event = match rows::event(row, 1)? {
            Ok(event) => event,
            Err(cause) => {
                desk.part(shard).hand.skip(seq);
                self.bad.push((address, 0, cause));
                return Ok(true);
            }
        };
        let size = event.payload.len();
        if !self.fits(size, self.taken()) {
            return Ok(false);
        }
        if desk.part(shard).hand.offer_hot(address, event.key.as_deref(), self.until) {
            let claim = Claim { event, address, fence: self.stage(shard).fence, attempt: 1 };
            desk.keep(&claim, self.until, Vec::new());
            self.claims.push(claim);
            self.bytes += size;
            self.named.insert(shard);
            self.stirred.insert(shard);
        } else if seq <= before {
            desk.part(shard).sight.refuse(seq);
        }
        Ok(true)
    }

    /// Gives rows up that are no events, so that they stop nobody.
    pub(super) async fn bury(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        for shelf in [Shelf::Hot, Shelf::Later] {
            let bad: Vec<_> =
                self.bad.iter().filter(|(address, ..)| address.shelf == shelf).collect();
            if bad.is_empty() {
                continue;
            }
            let shards: Vec<i16> = bad.iter().map(|(address, ..)| number(address.shard)).collect();
            let numbers: Vec<i64> = bad.iter().map(|(address, ..)| address.number).collect();
            let attempts: Vec<i32> = bad
                .iter()
                .map(|(_, attempt, _)| i32::try_from(*attempt).unwrap_or(i32::MAX))
                .collect();
            let trail = |(_, attempt, cause): &&(Address, u32, Cause)| {
                let moment = Moment { at: self.now, attempt: *attempt, cause: cause.clone() };
                serde_json::to_string(&[moment]).expect("a cause is always JSON")
            };
            let trails: Vec<String> = bad.iter().map(trail).collect();
            let query = match shelf {
                Shelf::Hot => base.sql.dead_hot.query().bind(shards),
                Shelf::Later => base.sql.dead_later.query(),
            };
            let query = query.bind(numbers).bind(attempts).bind(trails).bind(self.now.0);
            query.execute(&mut *conn).await?;
        }
        Ok(())
    }

    /// Renews the leases and names the hot rows in flight. What was lost meanwhile is not claimed.
    pub(super) async fn renew(
        mut self,
        base: &Base,
        conn: &mut PgConnection,
    ) -> Result<Vec<Claim>, Fault> {
        let renewed = self
            .stages
            .iter()
            .filter(|stage| stage.take || stage.runs_down || self.stirred.contains(&stage.shard));
        let shards: Vec<(u16, i64, bool)> = renewed
            .map(|stage| (stage.shard, stage.fence.0, self.named.contains(&stage.shard)))
            .collect();
        let kept = renew(base, conn, self.until, &shards).await?;
        let lost = shards.iter().map(|(shard, ..)| *shard).filter(|shard| !kept.contains(shard));
        for shard in lost {
            base.holding().lose(shard);
            self.claims.retain(|claim| claim.address.shard != shard);
        }
        Ok(self.claims)
    }
}

/// Renews leases: shard, fence, and whether its rows in flight changed. Returns what was renewed.
pub(super) async fn renew(
    base: &Base,
    conn: &mut PgConnection,
    until: Millis,
    shards: &[(u16, i64, bool)],
) -> Result<BTreeSet<u16>, Fault> {
    if shards.is_empty() {
        return Ok(BTreeSet::new());
    }
    let changed = shards.iter().filter(|(.., changed)| *changed).map(|(shard, ..)| *shard);
    let flight = Flight::of(base, changed, &BTreeMap::new());
    let numbers: Vec<i16> = shards.iter().map(|(shard, ..)| number(*shard)).collect();
    let fences: Vec<i64> = shards.iter().map(|(_, fence, _)| *fence).collect();
    let changed: Vec<bool> = shards.iter().map(|(.., changed)| *changed).collect();
    let query = base.sql.renew.query().bind(&base.owner).bind(until.0);
    let query = query.bind(numbers).bind(fences).bind(changed);
    let query = query.bind(flight.shards).bind(flight.seqs).bind(flight.untils);
    let renewed = query.fetch_all(conn).await?;
    renewed.iter().map(|row| rows::shard(row, 0)).collect()
}

/// The hot rows in flight, as the statements take them.
#[derive(Default)]
pub(super) struct Flight {
    pub(super) shards: Vec<i16>,
    pub(super) seqs: Vec<i64>,
    pub(super) untils: Vec<i64>,
}

impl Flight {
    /// Names what is in flight in some shards, less some rows.
    pub(super) fn of(
        base: &Base,
        shards: impl Iterator<Item = u16>,
        less: &BTreeMap<u16, BTreeSet<i64>>,
    ) -> Flight {
        let (holding, none) = (base.holding(), BTreeSet::new());
        let mut flight = Flight::default();
        for shard in shards {
            for (until, seqs) in holding.out(shard, less.get(&shard).unwrap_or(&none)) {
                for seq in seqs {
                    flight.shards.push(number(shard));
                    flight.seqs.push(seq);
                    flight.untils.push(until.0);
                }
            }
        }
        flight
    }
}
