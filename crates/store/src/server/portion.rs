//! The outcomes of some shards, written down as one piece of work.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use event::{Fence, Moment, Outcome, Settlement, Shelf, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::moves::{End, Moving, Published};
use super::settle::{Kept, Owned, Settling, is_put_back};
use super::work::{Commit, Scope, Terms, Work};
use crate::listing::is_stray;

/// What a settlement says of some shards.
pub(super) struct Portion<'a> {
    of: &'a Settling,
    shards: BTreeSet<u16>,
    /// Whether it may or may not have been written down.
    doubted: bool,
}

impl<'a> Portion<'a> {
    pub(super) fn new(of: &'a Settling, shards: BTreeSet<u16>) -> Portion<'a> {
        Portion { of, shards, doubted: false }
    }

    /// Says what became of it: where it failed without doubt, all is as it was.
    pub(super) fn judged(self, kept: Result<Kept, StoreError>) -> (Kept, Option<StoreError>) {
        match kept {
            Ok(kept) => (kept, None),
            Err(error) if self.doubted => (Kept::default(), Some(error)),
            Err(error) => (Kept { unwritten: self.shards, ..Kept::default() }, Some(error)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    fn rows(&self) -> impl Iterator<Item = (&'a Settlement, &'a (u32, Vec<Moment>))> {
        self.of.fresh().filter(|(end, _)| self.shards.contains(&end.address.shard))
    }

    /// Tells whether all of it was published, and none of it ever refused.
    fn is_plain(&self) -> bool {
        self.rows().all(|(end, _)| {
            matches!(end.outcome, Outcome::Done(_)) && end.address.shelf == Shelf::Hot
        })
    }

    /// Returns what the tallies must show, and how many were published.
    fn owned(&self) -> Vec<Owned> {
        let mut done: BTreeMap<u16, i64> = BTreeMap::new();
        for (end, _) in self.rows().filter(|(end, _)| matches!(end.outcome, Outcome::Done(_))) {
            *done.entry(end.address.shard).or_default() += 1;
        }
        let ours = |(shard, _): &(&u16, &Fence)| self.shards.contains(shard);
        let owned = |(shard, mark): (&u16, &Fence)| {
            let done = done.get(shard).copied().unwrap_or(0);
            Owned { shard: *shard, mark: *mark, done }
        };
        self.of.marks.iter().filter(ours).map(owned).collect()
    }

    /// Settles what was published at one stroke.
    async fn stroke<D: Dialect>(&self, base: &Base<D>, conn: &mut D::Conn) -> Result<Kept, Fault> {
        let end = |(end, _): (&Settlement, _)| match &end.outcome {
            Outcome::Done(receipt) => {
                let stray = end.created.is_none_or(|created| is_stray(end.id, created));
                let said = Published { broker_id: receipt.broker_id.clone(), stray };
                Some(End { address: end.address, said })
            }
            _ => None,
        };
        let rows: Vec<End<Published>> = self.rows().filter_map(end).collect();
        let (now, owned) = (base.now(), self.owned());
        base.db.stroke(conn, now, &base.owner, &owned, &rows, base.history).await
    }

    /// Asks the tallies which shards nobody has taken since.
    async fn open<D: Dialect>(&self, base: &Base<D>, conn: &mut D::Conn) -> Result<Kept, Fault> {
        // Rows that leave the hot table need not be unnamed; those that stay must be.
        let back = self.rows().filter(|(end, _)| is_put_back(end));
        let back: Vec<i64> = back.map(|(end, _)| end.address.number).collect();
        base.db.open(conn, base.now(), &base.owner, &self.owned(), &back).await
    }
}

#[async_trait]
impl<D: Dialect> Work<D> for Portion<'_> {
    type Out = Kept;

    fn terms(&self) -> Terms {
        let one = self.is_plain() && D::ONE_STROKE;
        let scope = if one { Scope::Statement } else { Scope::Transaction };
        Terms::new(Commit::Quick, scope).of(self.of.era)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Kept, Fault> {
        if self.is_plain() {
            return self.stroke(base, conn).await;
        }
        let kept = self.open(base, conn).await?;
        let mut moves = Moving::new(kept.now, false);
        for (end, (attempts, trail)) in self.rows() {
            if kept.shards.contains(&end.address.shard) {
                moves.add(end, *attempts, trail);
            }
        }
        moves.write(base, conn).await?;
        Ok(kept)
    }

    fn doubted(&mut self) {
        self.doubted = true;
    }
}
