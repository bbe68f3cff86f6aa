//! Reading hot rows: nothing is written for them but their names in the lease row.

use std::collections::BTreeMap;

use event::{Address, Claim, Event, Fence, Shelf};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::error::Fault;
use super::glance::Begins;
use super::pick::Pick;
use super::rows;
use crate::own::{Desk, Snapshot};

/// How many hot rows a claim looks at in vain, at the most; the cursors go on from there.
const IN_VAIN: i64 = 20_000;
/// The same for a claim that has rows open.
const IN_VAIN_OPEN: i64 = 500;

/// What one look at the hot rows showed.
struct Shown {
    /// The rows, the oldest first, with number and shard.
    line: Vec<(i64, u16, PgRow)>,
    snapshot: Snapshot,
    /// Where the look at each shard was to begin.
    from: BTreeMap<u16, i64>,
    /// Whether there may be more.
    cut: bool,
}

impl Pick<'_> {
    /// Takes hot rows.
    pub(super) async fn hot(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let shards = self.stages.iter().filter(|stage| stage.hot).map(|stage| stage.shard);
        let shards: Vec<u16> = shards.collect();
        if self.room.closed || shards.is_empty() {
            return Ok(());
        }
        let mut looked = 0;
        while self.taken() < self.room.want.limit && looked < self.in_vain() {
            let chunk = i64::try_from(self.room.want.limit - self.taken()).unwrap_or(i64::MAX);
            let chunk = if looked == 0 { chunk } else { chunk.max(256) };
            let shown = self.show(base, conn, &shards, chunk).await?;
            looked += shown.line.len() as i64;
            let cut = shown.cut;
            let stopped = self.offer(base, shown)?;
            let lost = if self.rivals.is_some() { self.win_hot(base, conn).await? } else { 0 };
            if lost == 0 && (stopped || !cut) {
                break;
            }
        }
        Ok(())
    }

    /// Returns how far the claim looks. What a competing one has taken is open until its end, so
    /// it does not look far beyond that.
    fn in_vain(&self) -> i64 {
        if self.rivals.is_some() && self.taken() > 0 { IN_VAIN_OPEN } else { IN_VAIN }
    }

    /// Looks once.
    async fn show(
        &self,
        base: &Base,
        conn: &mut PgConnection,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown, Fault> {
        let begins = Begins::of(&base.holding().desks[self.lane], shards.iter().copied());
        let from = shards.iter().copied().zip(begins.from.iter().copied()).collect();
        let sql = if self.rivals.is_some() { &base.sql.read_hot } else { &base.sql.claim_hot };
        let query = sql.query().bind(begins.shards).bind(begins.from).bind(chunk);
        let open = begins.open;
        let query = query.bind(open.shards).bind(open.xids).bind(open.from);
        let mut hot = query.fetch_all(conn).await?.into_iter();
        let snapshot = match hot.next() {
            Some(first) => rows::snapshot(&first, 5)?,
            None => Snapshot::default(),
        };
        let mut line = Vec::with_capacity(hot.len());
        for row in hot {
            line.push((row.try_get::<i64, _>(0)?, rows::shard(&row, 9)?, row));
        }
        line.sort_by_key(|(seq, ..)| *seq);
        let cut = line.len() as i64 == chunk;
        Ok(Shown { line, snapshot, from, cut })
    }

    /// Offers what one look showed. Returns whether no more should be looked at.
    fn offer(&mut self, base: &Base, shown: Shown) -> Result<bool, Fault> {
        let Shown { line, snapshot, from, cut } = shown;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        let before: BTreeMap<u16, i64> =
            from.keys().map(|shard| (*shard, desk.cursor(*shard))).collect();
        let mut last: BTreeMap<u16, Option<i64>> = BTreeMap::new();
        let mut stopped = false;
        for (seq, shard, row) in line {
            let last = last.entry(shard).or_default();
            if seq > before[&shard] {
                self.stirred.insert(shard);
            }
            stopped = stopped || !self.take_hot(desk, &row, (seq, shard), before[&shard])?;
            if !stopped {
                *last = Some(seq);
            }
        }
        for (shard, before) in before {
            // A shard that showed nothing was not reached, if there may have been more.
            let shown = last.get(&shard);
            if shown.is_none() && (cut || stopped) {
                continue;
            }
            let sight = &mut desk.part(shard).sight;
            let began = sight.began(&snapshot, from[&shard]);
            let ended = (cut || stopped).then(|| shown.copied().flatten().unwrap_or(began));
            sight.saw(&snapshot, began, before, ended);
        }
        Ok(stopped)
    }

    /// Looks at one hot row. Returns `false` when no more should be looked at.
    fn take_hot(
        &mut self,
        desk: &mut Desk,
        row: &PgRow,
        (seq, shard): (i64, u16),
        before: i64,
    ) -> Result<bool, Fault> {
        if self.taken() == self.room.want.limit {
            return Ok(false);
        }
        if !desk.lane.topics.take(rows::text(row, 2)?) {
            desk.part(shard).hand.skip(seq);
            return Ok(true);
        }
        let address = Address { shelf: Shelf::Hot, shard, number: seq };
        let event: Event = match rows::event(row, 1)? {
            Ok(event) => event,
            Err(cause) => {
                desk.part(shard).hand.skip(seq);
                self.bad.push((address, 0, cause));
                return Ok(true);
            }
        };
        let size = event.payload.len();
        if !self.room.fits(size, self.taken()) {
            return Ok(false);
        }
        if self.rivals.is_some() {
            desk.part(shard).hand.skip(seq);
            let (fence, due) = (Fence::default(), event.created);
            self.claims.push(Claim { event, address, fence, due, attempt: 1, unexplained: 0 });
            self.room.fill(size);
            return Ok(true);
        }
        if desk.part(shard).offer_hot(address, event.key.as_deref(), before) {
            let (fence, due) = (self.stage(shard).held.newest, event.created);
            let claim = Claim { event, address, fence, due, attempt: 1, unexplained: 0 };
            desk.keep(&claim, self.until, Vec::new());
            self.claims.push(claim);
            self.room.fill(size);
            self.change(vec![shard]);
        }
        Ok(true)
    }
}
