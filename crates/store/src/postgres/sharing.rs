//! Sharing the shards with other relays: who is there, and which shards go to whom.

use std::time::Duration;

use async_trait::async_trait;
use event::{Millis, StoreError};
use sqlx::{PgConnection, Row};

use super::base::{Base, Heirs};
use super::connect::Commit;
use super::error::Fault;
use super::glance::number;
use super::work::Work;
use crate::own::{Member, heirs};

/// What a relay knows of others.
#[derive(Default)]
pub(super) struct Sharing {
    /// When it looks again who is there.
    next: Millis,
    /// Which of its shards it gives away as soon as nothing of them is in flight.
    pub(super) heirs: Heirs,
}

impl Sharing {
    /// Forgets that this relay has said that it is there. Returns whether it had.
    pub(super) fn depart(&mut self) -> bool {
        std::mem::take(&mut self.next) > Millis(0)
    }
}

/// Says now and then that this relay is there, and gives away what is more than its share.
pub(super) async fn share(
    base: &Base,
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
pub(super) async fn attend(
    base: &Base,
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
async fn give(base: &Base, until: Millis) -> Result<(), StoreError> {
    let mut giving = Giving { until, ..Giving::default() };
    {
        let (holding, mut sharing) = (base.holding(), base.sharing());
        sharing.heirs.retain(|shard, _| holding.held(*shard).is_some());
        for (shard, heir) in &sharing.heirs {
            if let (Some(held), true) = (holding.held(*shard), holding.is_quiet(*shard, None)) {
                giving.shards.push(*shard);
                giving.marks.push(held.mark.0);
                giving.heirs.push(heir.clone());
            }
        }
    }
    if giving.shards.is_empty() {
        return Ok(());
    }
    let given = base.work(&mut giving).await;
    for shard in giving.shards {
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
impl Work for Attending {
    type Out = Vec<Member>;
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Vec<Member>, Fault> {
        let query = base.sql.attend.query().bind(&base.owner).bind((self.now + self.lease).0);
        query.execute(&mut *conn).await?;
        let mut members = Vec::new();
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX / 10);
        let query = base.sql.members.query().bind(base.now()).bind(lease);
        for row in query.fetch_all(conn).await? {
            let shards: i64 = row.try_get(1)?;
            let shards = usize::try_from(shards).unwrap_or(usize::MAX);
            members.push(Member { name: row.try_get(0)?, shards });
        }
        Ok(members)
    }
}

#[derive(Default)]
struct Giving {
    shards: Vec<u16>,
    marks: Vec<i64>,
    heirs: Vec<String>,
    until: Millis,
}

#[async_trait]
impl Work for Giving {
    type Out = ();
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let shards: Vec<i16> = self.shards.iter().map(|shard| number(*shard)).collect();
        let query = base.sql.hand_over.query().bind(shards).bind(&self.marks).bind(&base.owner);
        query.bind(&self.heirs).bind(self.until.0).execute(conn).await?;
        Ok(())
    }
}
