//! Taking leases that nobody has, by themselves: nobody waits for whoever has one of them open, and
//! one that cannot be had costs nothing of what is held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use event::{Code, Fence, Leased, Millis, StoreError};

use super::base::{Base, another_server};
use super::compete::unchanged;
use super::dialect::Dialect;
use super::fault::Fault;
use super::lapsing::lapse;
use super::shut::Parts;
use super::work::{Commit, Scope, Terms, Work};

/// Takes what is free of some shards. Returns the fences of those that are held from now on, and
/// whose leases another has open.
pub(super) async fn take<D: Dialect>(
    base: &Base<D>,
    era: u64,
    lease: Duration,
    shards: Vec<u16>,
) -> Result<(BTreeMap<u16, Fence>, BTreeSet<u16>), StoreError> {
    let (mut taken, mut parts) = (BTreeMap::new(), Parts::of(shards));
    while let Some(part) = parts.part() {
        let open = try_take(base, era, lease, &part, &mut taken).await?;
        parts.tried(part, open.as_ref());
    }
    Ok((taken, base.sharing().shut.learn(parts, lease)))
}

/// Takes what is free of some shards. Returns which could be looked at, unless the server refuses
/// all because another has one of them open.
async fn try_take<D: Dialect>(
    base: &Base<D>,
    era: u64,
    lease: Duration,
    shards: &[u16],
    all: &mut BTreeMap<u16, Fence>,
) -> Result<Option<BTreeSet<u16>>, StoreError> {
    let taken = match base.work(&mut Taking { era, lease, shards: shards.to_vec() }).await {
        Ok(taken) => taken,
        Err(error) if error.cause().code == Code::StoreBusy => return Ok(None),
        Err(error) => return Err(error),
    };
    let seen = taken.keys().copied().collect();
    let mut holding = base.holding();
    if holding.era != era {
        holding.forget();
        return Err(another_server());
    }
    for (shard, fence) in taken {
        match fence {
            Some(fence) => {
                holding.take(shard, fence);
                all.insert(shard, fence);
            }
            None => holding.lose(shard),
        }
    }
    Ok(Some(seen))
}

struct Taking {
    era: u64,
    lease: Duration,
    shards: Vec<u16>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Taking {
    /// The shards that were looked at, and the fences of those that were taken.
    type Out = BTreeMap<u16, Option<Fence>>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction).of(self.era).once()
    }

    /// What the last owners had in flight, even if that was us, is unexplained.
    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let (mut seen, mut out, mut now) = (BTreeMap::new(), Vec::new(), Millis(0));
        let mut free = Vec::new();
        for row in base.db.open_leases_now(conn, base.now(), &self.shards).await? {
            now = row.now;
            if row.owner == base.owner || !Leased::Shard.runs(row.until, row.now, self.lease) {
                free.push(row.shard);
                out.extend(row.out.iter().map(|(seq, _)| (row.shard, *seq)));
            } else {
                seen.insert(row.shard, None);
            }
        }
        if !free.is_empty() {
            let open = base.db.open_tallies_now(conn, &free).await?;
            free.retain(|shard| open.contains(shard));
            out.retain(|(shard, _)| open.contains(shard));
        }
        if free.is_empty() {
            return Ok(seen);
        }
        unchanged(base, conn).await?;
        lapse(base, conn, out, now).await?;
        base.db.lapse_later(conn, &free, now).await?;
        let taken = base.db.take(conn, &base.owner, now + self.lease, &free).await?;
        seen.extend(taken.into_iter().map(|(shard, fence)| (shard, Some(fence))));
        Ok(seen)
    }
}
