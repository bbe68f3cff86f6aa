//! Sharing the shards with other relays: who is there, and which shards go to whom.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Millis, StoreError};

use super::base::{Base, Heirs};
use super::dialect::Dialect;
use super::fault::Fault;
use super::lease::Grant;
use super::work::{Commit, Scope, Terms, Work};
use crate::own::{Member, heirs};

/// What a relay knows of others.
#[derive(Default)]
pub(super) struct Sharing {
    /// When it looks again who is there.
    next: Millis,
    /// Which of its shards it gives away as soon as nothing of them is in flight.
    pub(super) heirs: Heirs,
    /// Since when free leases were refused, because others had some open, and how often.
    refused: Option<(Instant, u32)>,
    /// Before when it takes no lease for that reason.
    rests: Option<Instant>,
}

/// How long no lease is taken after another had one open: at first, and at the most.
const REST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

impl Sharing {
    /// Learns whether others had some of the free leases open, and then takes none for a while.
    /// Returns for how long that has been so.
    pub(super) fn was_refused(&mut self, refused: bool) -> Duration {
        if !refused {
            (self.refused, self.rests) = (None, None);
            return Duration::ZERO;
        }
        let (since, times) = self.refused.unwrap_or((Instant::now(), 0));
        self.refused = Some((since, times + 1));
        self.rests = Some(Instant::now() + REST[1].min(REST[0] * (1 << times.min(8))));
        since.elapsed()
    }

    /// Begins to count anew for how long leases were refused.
    pub(super) fn has_said(&mut self) {
        self.refused = None;
    }

    /// Returns for how long no lease is to be taken, if so.
    pub(super) fn rests(&self) -> Option<Duration> {
        let rest = self.rests?.saturating_duration_since(Instant::now());
        (!rest.is_zero()).then_some(rest)
    }

    /// Forgets that this relay has said that it is there. Returns whether it had.
    pub(super) fn depart(&mut self) -> bool {
        std::mem::take(&mut self.next) > Millis(0)
    }
}

/// Says now and then that this relay is there, and gives away what is more than its share.
pub(super) async fn share<D: Dialect>(
    base: &Base<D>,
    all: usize,
    now: Millis,
    lease: Duration,
) -> Result<(), StoreError> {
    if all == 1 {
        return Ok(());
    }
    if let Some(members) = attend(base, now, lease).await? {
        let mine = base.holding().shards();
        base.sharing().heirs = heirs(&base.owner, &mine, &members, all);
    }
    give(base, now + lease).await
}

/// Says now and then that this relay is there. Returns who else is, when it has looked.
pub(super) async fn attend<D: Dialect>(
    base: &Base<D>,
    now: Millis,
    lease: Duration,
) -> Result<Option<Vec<Member>>, StoreError> {
    if base.sharing().next > now {
        return Ok(None);
    }
    let members = base.work(&mut Attending { now, lease }).await?;
    base.sharing().next = now + lease / 3;
    Ok(Some(members))
}

/// Hands shards over that are to go and are quiet.
async fn give<D: Dialect>(base: &Base<D>, until: Millis) -> Result<(), StoreError> {
    let mut giving = Giving { until, grants: Vec::new() };
    {
        let (holding, mut sharing) = (base.holding(), base.sharing());
        sharing.heirs.retain(|shard, _| holding.held(*shard).is_some());
        for (shard, heir) in &sharing.heirs {
            if let (Some(held), true) = (holding.held(*shard), holding.is_quiet(*shard, None)) {
                let (shard, mark, heir) = (*shard, held.mark, Some(heir.clone()));
                giving.grants.push(Grant { shard, mark, heir });
            }
        }
    }
    if giving.grants.is_empty() {
        return Ok(());
    }
    let given = base.work(&mut giving).await;
    for Grant { shard, .. } in giving.grants {
        base.holding().lose(shard);
        base.sharing().heirs.remove(&shard);
    }
    given
}

/// Says that this relay is there, and looks who else is.
struct Attending {
    now: Millis,
    lease: Duration,
}

#[async_trait]
impl<D: Dialect> Work<D> for Attending {
    type Out = Vec<Member>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Vec<Member>, Fault> {
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX / 10);
        let until = self.now + self.lease;
        base.db.attend(conn, base.now(), &base.owner, until, lease).await
    }
}

struct Giving {
    until: Millis,
    grants: Vec<Grant>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Giving {
    type Out = ();

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        base.db.hand_over(conn, &base.owner, self.until, &self.grants).await
    }
}
