//! What a claim of competing relays goes by: which hot rows are in flight, and who is quicker to
//! set a later row's due time ahead.

use std::collections::{HashMap, HashSet};

use event::{Address, Claim, Event, Fence, Millis, Moment, Sequence, Shelf};

use super::super::base::Base;
use super::super::dialect::{Claimed, Dialect};
use super::super::due::DueRow;
use super::super::fault::Fault;
use super::super::pick::Pick;
use crate::compete::{Line, TRUST};

/// What a claim knows of others.
pub(in crate::server) struct Rivals {
    /// Due times up to here stay as they were read.
    pub(in crate::server) trust: Millis,
    /// The hot rows in flight, by shard and number.
    out: HashSet<(u16, i64)>,
    /// Under which fence rows of each open line are claimed.
    fences: HashMap<u16, Fence>,
    /// What later rows had behind them when they were claimed.
    pub(in crate::server) trails: HashMap<i64, Vec<Moment>>,
    /// How many later rows others were quicker to claim.
    pub(in crate::server) outrun: u64,
}

impl Rivals {
    pub(super) fn new(now: Millis, lines: &[Line]) -> Rivals {
        let out = |line: &Line| {
            let shard = line.shard;
            line.out.iter().map(move |named| (shard, named.seq)).collect::<Vec<_>>()
        };
        Rivals {
            trust: now - TRUST,
            out: lines.iter().flat_map(out).collect(),
            fences: lines.iter().map(|line| (line.shard, line.next())).collect(),
            trails: HashMap::new(),
            outrun: 0,
        }
    }

    /// Returns the fence under which a hot row may be claimed, unless it is in flight.
    pub(in crate::server) fn fence(&self, shard: u16, seq: i64) -> Option<Fence> {
        if self.out.contains(&(shard, seq)) { None } else { self.fences.get(&shard).copied() }
    }

    /// Learns that this claim has taken a hot row: a look may show it again.
    pub(in crate::server) fn took(&mut self, shard: u16, seq: i64) {
        self.out.insert((shard, seq));
    }
}

impl Pick<'_> {
    /// Claims the later rows that were picked, those that nobody was quicker to claim.
    pub(in crate::server) async fn win_later<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
        picked: Vec<DueRow>,
    ) -> Result<(), Fault> {
        let mut named: Vec<(i64, Millis)> =
            picked.iter().map(|row| (row.number, row.due)).collect();
        named.sort_unstable();
        let won = base.db.win_later(conn, base.strategy, &named, self.now, self.until).await?;
        let mut won: HashMap<i64, (Claimed, Fence)> =
            won.into_iter().map(|(claimed, fence)| (claimed.number, (claimed, fence))).collect();
        let rivals = self.rivals.as_mut().expect("this claim has rivals");
        for due in picked {
            let Some((claimed, fence)) = won.remove(&due.number) else {
                self.room.give_back_later(due.size);
                rivals.outrun += 1;
                continue;
            };
            let Claimed { attempt, unexplained, trail, .. } = claimed;
            let address = Address { shelf: Shelf::Later, shard: due.shard, number: due.number };
            match claimed.event {
                Ok(event) => {
                    rivals.trails.insert(due.number, trail);
                    let event = Event { sequence: Sequence::of(due.birth), ..event };
                    let due = due.due;
                    self.claims.push(Claim { event, address, fence, due, attempt, unexplained });
                }
                Err(cause) => self.bad.push((address, attempt, cause)),
            }
        }
        Ok(())
    }
}
