//! Sharing the shards with other relays: who is there, and which shards go to whom.

use std::time::Duration;

use async_trait::async_trait;
use event::{Millis, StoreError};

use super::base::{Base, Heirs};
use super::dialect::Dialect;
use super::fault::Fault;
use super::lease::Grant;
use super::shut::Shut;
use super::work::{Commit, Scope, Terms, Work};
use crate::own::{Member, heirs};

/// What a relay knows of others.
#[derive(Default)]
pub(super) struct Sharing {
    /// When it looks again who is there.
    next: Millis,
    /// Which of its shards it gives away as soon as nothing of them is in flight.
    pub(super) heirs: Heirs,
    /// Which leases others have open.
    pub(super) shut: Shut,
}

impl Sharing {
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
        base.teller.tell(members.len().min(all));
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
