//! Taking candidates: who moves a hot row, or sets a later row's due time ahead, has it.

use std::collections::HashMap;

use event::{Address, Claim, Fence, Millis, Moment, Shelf};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::super::base::Base;
use super::super::due::DueRow;
use super::super::error::Fault;
use super::super::glance::number;
use super::super::pick::Pick;
use super::super::rows;
use crate::Strategy;
use crate::compete::TRUST;

/// What a claim has met of others.
pub(in crate::postgres) struct Rivals {
    /// Due times up to here stay as they were read.
    pub(in crate::postgres) trust: Millis,
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
    pub(in crate::postgres) async fn win_hot(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
    ) -> Result<usize, Fault> {
        let hot = self.claims.iter().filter(|claim| claim.address.shelf == Shelf::Hot);
        let mut picked: Vec<(i16, i64, i64)> = (0..)
            .zip(hot)
            .map(|(place, claim)| (number(claim.address.shard), claim.address.number, place))
            .collect();
        if picked.is_empty() {
            return Ok(0);
        }
        picked.sort_unstable();
        let sql = match base.strategy {
            Strategy::SkipLocked => &base.sql.move_free,
            _ => &base.sql.move_hot,
        };
        let fence = Fence(self.now.0.max(1));
        let query = sql.query().bind(picked.iter().map(|one| one.0).collect::<Vec<_>>());
        let query = query.bind(picked.iter().map(|one| one.1).collect::<Vec<_>>());
        let query = query.bind(picked.iter().map(|one| one.2).collect::<Vec<_>>());
        let query = query.bind(fence.0).bind(self.until.0);
        let mut won = HashMap::with_capacity(picked.len());
        for row in query.fetch_all(conn).await? {
            won.insert(row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?);
        }
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
    pub(in crate::postgres) async fn win_later(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
        picked: Vec<DueRow>,
    ) -> Result<(), Fault> {
        let mut named: Vec<(i64, i64)> = picked.iter().map(|row| (row.number, row.due.0)).collect();
        named.sort_unstable();
        let (numbers, dues): (Vec<i64>, Vec<i64>) = named.into_iter().unzip();
        let sql = match base.strategy {
            Strategy::SkipLocked => &base.sql.win_free,
            _ => &base.sql.win_later,
        };
        let query = sql.query().bind(numbers).bind(dues).bind(self.now.0).bind(self.until.0);
        let mut won: HashMap<i64, PgRow> = HashMap::with_capacity(picked.len());
        for row in query.fetch_all(conn).await? {
            won.insert(row.try_get(0)?, row);
        }
        for due in picked {
            let Some(row) = won.remove(&due.number) else {
                self.room.give_back_later(due.size);
                continue;
            };
            let attempt = u32::try_from(row.try_get::<i32, _>(9)?).unwrap_or(u32::MAX);
            let unexplained = u32::try_from(row.try_get::<i32, _>(11)?).unwrap_or(u32::MAX);
            let address = Address { shelf: Shelf::Later, shard: due.shard, number: due.number };
            let fence = Fence(row.try_get(12)?);
            match rows::event(&row, 1)? {
                Ok(event) => {
                    let trail = rows::trail(&row, 10)?;
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
