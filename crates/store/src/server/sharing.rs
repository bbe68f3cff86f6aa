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
    /// How many there were.
    known: usize,
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

    /// Lets go of what was true of another server. How many relays there were stays: they come
    /// back as this one does.
    pub(super) fn forget(&mut self) {
        *self = Sharing { known: self.known, ..Sharing::default() };
    }

    /// Learns how many relays were found, and returns with how many to reckon, unless another lane
    /// has looked just now. One that was itself away for a lease, at rest or without its database,
    /// came back first, perhaps: the others are about to.
    fn reckon(&mut self, found: usize, now: Millis, lease: Duration) -> Option<usize> {
        if self.next > now {
            return None;
        }
        let away = self.next + lease * 2 / 3 < now;
        self.next = now + lease / 3;
        let known = std::mem::replace(&mut self.known, found);
        Some(if away { known.max(found) } else { found })
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
    if let Some(members) = attend(base, all, now, lease).await? {
        let mine = base.holding().shards();
        base.sharing().heirs = heirs(&base.owner, &mine, &members, all);
    }
    give(base, now + lease).await
}

/// Says now and then that this relay is there, and tells with how many to reckon, of whom `most`
/// work at once. Returns who is there, when it has looked.
pub(super) async fn attend<D: Dialect>(
    base: &Base<D>,
    most: usize,
    now: Millis,
    lease: Duration,
) -> Result<Option<Vec<Member>>, StoreError> {
    if base.sharing().next > now {
        return Ok(None);
    }
    let members = base.work(&mut Attending { now, lease }).await?;
    let many = base.sharing().reckon(members.len(), now, lease);
    if let Some(many) = many {
        base.teller.tell(many.min(most));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    #[test]
    fn whoever_was_away_for_a_lease_reckons_with_all_that_there_were_until_it_looks_again() {
        let mut sharing = Sharing::default();
        let mut reckon = |found, seconds: i64| sharing.reckon(found, Millis(1000 * seconds), LEASE);
        assert_eq!(reckon(1, 1_000), Some(1));
        assert_eq!(reckon(4, 1_010), Some(4));
        // Two went while this one was there to see it.
        assert_eq!(reckon(2, 1_025), Some(2));
        assert_eq!(reckon(4, 1_035), Some(4));
        assert_eq!(reckon(1, 1_066), Some(4));
        assert_eq!(reckon(1, 1_066), None, "a lane beside it has looked at the same time");
        assert_eq!(reckon(3, 1_076), Some(3));
        assert_eq!(reckon(1, 1_086), Some(1));
    }

    #[test]
    fn on_another_server_it_reckons_with_those_of_the_one_before() {
        let mut sharing = Sharing::default();
        sharing.reckon(4, Millis(1_000_000), LEASE);
        sharing.forget();
        assert_eq!(sharing.reckon(1, Millis(1_005_000), LEASE), Some(4));
        assert_eq!(sharing.reckon(1, Millis(1_015_000), LEASE), Some(1));
    }
}
