//! Taking candidates: who moves a hot row, or sets a later row's due time ahead, has it.

use std::collections::HashMap;

use event::{Address, Claim, Fence, Millis, Moment, Shelf};

use super::super::base::Base;
use super::super::dialect::{Claimed, Dialect};
use super::super::due::DueRow;
use super::super::fault::Fault;
use super::super::pick::Pick;
use crate::compete::TRUST;

/// A hot row that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) shard: u16,
    pub(crate) seq: i64,
    /// Its place in the claim.
    pub(crate) place: i64,
}

/// What a claim has met of others.
pub(in crate::server) struct Rivals {
    /// Due times up to here stay as they were read.
    pub(in crate::server) trust: Millis,
    /// Candidates that others had open, or took: the next look begins there.
    pub(super) missed: Vec<(u16, i64)>,
    /// What later rows had behind them when they were claimed.
    pub(super) trails: HashMap<i64, Vec<Moment>>,
}

impl Rivals {
    pub(super) fn new(now: Millis) -> Rivals {
        Rivals { trust: now - TRUST, missed: Vec::new(), trails: HashMap::new() }
    }
}

impl Pick<'_> {
    /// Moves the hot rows that were picked. Returns how many others were quicker to take.
    pub(in crate::server) async fn win_hot<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<usize, Fault> {
        let hot = self.claims.iter().filter(|claim| claim.address.shelf == Shelf::Hot);
        let candidate = |(place, claim): (i64, &Claim)| {
            let Address { shard, number: seq, .. } = claim.address;
            Candidate { shard, seq, place }
        };
        let mut picked: Vec<Candidate> = (0..).zip(hot).map(candidate).collect();
        if picked.is_empty() {
            return Ok(0);
        }
        picked.sort_unstable();
        let fence = Fence(self.now.0.max(1));
        let won = base.db.move_hot(conn, base.strategy, &picked, fence, self.until).await?;
        let won: HashMap<i64, i64> = won.into_iter().collect();
        let before = self.claims.len();
        for mut claim in std::mem::take(&mut self.claims) {
            let Address { shelf, shard, number: seq } = claim.address;
            match won.get(&seq) {
                _ if shelf == Shelf::Later => self.claims.push(claim),
                Some(number) => {
                    claim.address = Address { shelf: Shelf::Later, shard, number: *number };
                    claim.fence = fence;
                    self.claims.push(claim);
                }
                None => {
                    self.room.give_back(claim.event.payload.len());
                    let rivals = self.rivals.as_mut().expect("this claim has rivals");
                    rivals.missed.push((shard, seq));
                }
            }
        }
        Ok(before - self.claims.len())
    }

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
        for due in picked {
            let Some((claimed, fence)) = won.remove(&due.number) else {
                self.room.give_back_later(due.size);
                continue;
            };
            let Claimed { attempt, unexplained, trail, .. } = claimed;
            let address = Address { shelf: Shelf::Later, shard: due.shard, number: due.number };
            match claimed.event {
                Ok(event) => {
                    let rivals = self.rivals.as_mut().expect("this claim has rivals");
                    rivals.trails.insert(due.number, trail);
                    let due = due.due;
                    self.claims.push(Claim { event, address, fence, due, attempt, unexplained });
                }
                Err(cause) => self.bad.push((address, attempt, cause)),
            }
        }
        Ok(())
    }
}
