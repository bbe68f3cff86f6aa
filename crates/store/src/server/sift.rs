//! Sifting the later rows that are due for those that a lane may take.
//!
//! Rows of other lanes may stand before them by the hundred thousand. A lane remembers in each
//! shard how far it has passed such rows, and looks there only at new ones: those with higher
//! numbers, and those of transactions that were open then.

use std::collections::BTreeMap;
use std::time::Duration;

use event::{Address, Millis, Shelf};

use super::base::Base;
use super::dialect::Dialect;
use super::due::{DueRow, Line};
use super::fault::Fault;
use super::glance::Glance;
use super::pick::Pick;
use crate::own::{Due, Next, Passed};

/// How many rows of other lanes one claim passes; the next one goes on behind them.
const PASS: usize = 100_000;

/// What one look has learnt of one shard.
struct Learnt {
    passed: Passed,
    /// Whether only rows of other lanes have come so far.
    passing: bool,
    /// How many new rows have not been looked at, or may have to be again.
    news: usize,
}

impl Pick<'_> {
    /// Chooses later rows that are due, in the order in which they became so.
    pub(super) async fn sift<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
        shards: &[u16],
        glance: &Glance<D>,
    ) -> Result<Vec<DueRow>, Fault> {
        self.all_seen = false;
        let passed = self.passed(base, shards);
        let mut line = Line::new(self.now, &passed);
        line.read_new(base, conn, self.lane, &passed).await?;
        let learnt = |(shard, passed): (u16, Passed)| {
            (shard, Learnt { passed, passing: true, news: line.news(shard) })
        };
        let mut learnt: BTreeMap<u16, Learnt> = passed.into_iter().map(learnt).collect();
        let trust = self.rivals.as_ref().map_or(Millis(i64::MAX), |rivals| rivals.trust);
        let (mut picked, mut looked) = (Vec::new(), 0);
        loop {
            let Some(row) = line.next(base, conn).await? else {
                self.all_seen = true;
                break;
            };
            let next = self.weigh(base, &row);
            let of = learnt.get_mut(&row.shard).expect("only these shards are in the line");
            match (next, row.new) {
                (Next::Passed, true) => of.news -= 1,
                (Next::Passed, false) if of.passing && row.due <= trust => {
                    of.passed.pass(row.due, row.number);
                }
                _ => of.passing &= row.new,
            }
            if matches!(next, Next::Taken | Next::Alone) {
                picked.push(row);
            }
            looked += 1;
            let far = looked >= PASS && learnt.values().all(|of| of.passing);
            if far || matches!(next, Next::Alone | Next::Full) {
                break;
            }
        }
        self.learn(base, learnt, glance);
        Ok(picked)
    }

    /// Returns how far each shard was passed.
    fn passed<D: Dialect>(&self, base: &Base<D>, shards: &[u16]) -> BTreeMap<u16, Passed> {
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        let mut all = BTreeMap::new();
        for shard in shards {
            let part = desk.part(*shard);
            // Under a clock that was set back, what was passed is not all due any more, and claims
            // may end there.
            part.passed.spoil(self.now + Duration::from_millis(1));
            all.insert(*shard, part.passed);
        }
        all
    }

    /// Looks at one later row, and takes it if it may.
    fn weigh<D: Dialect>(&mut self, base: &Base<D>, row: &DueRow) -> Next {
        let address = Address { shelf: Shelf::Later, shard: row.shard, number: row.number };
        let due = Due {
            address,
            birth: row.birth,
            topic: &row.topic,
            key: row.key.as_deref(),
            unexplained: row.unexplained,
            size: row.size,
        };
        let desk = &mut base.holding().desks[self.lane];
        match &self.rivals {
            Some(_) => self.room.weigh_free(&desk.lane.topics, &due),
            None => self.room.weigh(desk, &due),
        }
    }

    /// Remembers how far each shard was passed, as of the look before all of this.
    fn learn<D: Dialect>(&self, base: &Base<D>, learnt: BTreeMap<u16, Learnt>, glance: &Glance<D>) {
        let mut holding = base.holding();
        for (shard, Learnt { passed, news, .. }) in learnt {
            let part = holding.desks[self.lane].part(shard);
            match news {
                0 => D::saw_later(part, &glance.seen, glance.newest, passed),
                _ => part.passed = passed,
            }
        }
    }
}
