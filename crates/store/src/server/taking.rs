//! Taking leases that nobody has, by themselves: nobody waits for whoever has one of them open, and
//! one that cannot be had costs nothing of what is held.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Cause, Code, Fence, Leased, Millis, StoreError};

use super::base::{Base, another_server};
use super::compete::unchanged;
use super::dialect::Dialect;
use super::fault::Fault;
use super::lapsing::lapse;
use super::work::{Commit, Scope, Terms, Work};

/// How long leases are tried in parts, where another has some of them open.
const SOON: Duration = Duration::from_millis(500);

/// Takes what is free of some shards, and returns the fences of those that are held from now on.
/// Whoever finds some of them open elsewhere for as long as a lease says so, each time.
pub(super) async fn take<D: Dialect>(
    base: &Base<D>,
    era: u64,
    lease: Duration,
    shards: Vec<u16>,
) -> Result<BTreeMap<u16, Fence>, StoreError> {
    let (mut taken, mut refused) = (BTreeMap::new(), false);
    if shards.is_empty() {
        return Ok(taken);
    }
    let (began, mut parts) = (Instant::now(), vec![shards]);
    while let Some(mut part) = parts.pop().filter(|_| !refused || began.elapsed() < SOON) {
        let seen = try_take(base, era, lease, &part, &mut taken).await?;
        refused |= seen.is_none_or(|seen| seen < part.len());
        if seen.is_none() && part.len() > 1 {
            // Whoever comes at the same time begins elsewhere.
            fastrand::shuffle(&mut part);
            let other = part.split_off(part.len() / 2);
            parts.extend([part, other]);
        }
    }
    let open_for = base.sharing().was_refused(refused);
    if open_for > lease {
        base.sharing().has_said();
        let detail = format!(
            "another session has had leases of shards open for {} s, and their events wait: end \
             the transaction that reads or changes the lease table",
            open_for.as_secs()
        );
        return Err(StoreError::Down(Cause::new(Code::StoreBusy, detail)));
    }
    Ok(taken)
}

/// Takes what is free of some shards. Returns how many could be looked at, unless the server
/// refuses all because another has one of them open.
async fn try_take<D: Dialect>(
    base: &Base<D>,
    era: u64,
    lease: Duration,
    shards: &[u16],
    all: &mut BTreeMap<u16, Fence>,
) -> Result<Option<usize>, StoreError> {
    let taken = match base.work(&mut Taking { era, lease, shards: shards.to_vec() }).await {
        Ok(taken) => taken,
        Err(error) if error.cause().code == Code::StoreBusy => return Ok(None),
        Err(error) => return Err(error),
    };
    let seen = taken.len();
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
            seen.insert(row.shard, None);
            if row.owner == base.owner || !Leased::Shard.runs(row.until, row.now, self.lease) {
                free.push(row.shard);
                out.extend(row.out.iter().map(|(seq, _)| (row.shard, *seq)));
            }
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
