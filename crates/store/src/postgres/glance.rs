//! One look at the clock, every shard's lease and what waits. It writes nothing.

use async_trait::async_trait;
use event::{Fence, Millis};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::rows;
use super::work::Work;
use crate::own::{Desk, Look, Snapshot};

/// Reads the clock that rules.
pub(super) async fn clock(base: &Base, conn: &mut PgConnection) -> Result<Millis, Fault> {
    let row = base.sql.clock.query().bind(base.now()).fetch_one(conn).await?;
    Ok(Millis(row.try_get(0)?))
}

/// Transactions whose end shows more, as the statements take them: in which shard, and from where
/// on.
#[derive(Default)]
pub(super) struct Open {
    pub(super) shards: Vec<i16>,
    pub(super) xids: Vec<String>,
    pub(super) from: Vec<i64>,
}

impl Open {
    pub(super) fn add(&mut self, shard: u16, late: impl Iterator<Item = (u64, i64)>) {
        for (xid, from) in late {
            self.shards.push(number(shard));
            self.xids.push(xid.to_string());
            self.from.push(from);
        }
    }
}

/// Where a lane's looks at the hot rows of its shards begin, as the statements take it.
#[derive(Default)]
pub(super) struct Begins {
    pub(super) shards: Vec<i16>,
    pub(super) from: Vec<i64>,
    pub(super) open: Open,
}

impl Begins {
    pub(super) fn of(desk: &Desk, shards: impl IntoIterator<Item = u16>) -> Begins {
        let mut begins = Begins::default();
        for shard in shards {
            let cursor = desk.cursor(shard);
            let sight = desk.known(shard).map(|part| &part.sight);
            begins.shards.push(number(shard));
            begins.from.push(sight.map_or(cursor, |sight| sight.from(cursor)));
            begins.open.add(shard, sight.into_iter().flat_map(|sight| sight.late.open()));
        }
        begins
    }
}

/// Writes a shard as the tables have it.
pub(super) fn number(shard: u16) -> i16 {
    i16::try_from(shard).expect("there are at most 1024 shards")
}

/// What one look at every shard showed.
pub(super) struct Glance {
    pub(super) looks: Vec<Look>,
    /// The clock that rules.
    pub(super) now: Millis,
    /// The newest later row's number.
    pub(super) newest: i64,
    pub(super) snapshot: Snapshot,
}

/// One lane's look, at later rows that are due after `seen`.
pub(super) struct Glancing {
    pub(super) lane: usize,
    pub(super) seen: Millis,
}

#[async_trait]
impl Work for Glancing {
    type Out = Glance;
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Glance, Fault> {
        let shards = base.shards(conn).await?;
        let begins = Begins::of(&base.holding().desks[self.lane], 0..shards);
        let query = base.sql.glance.query().bind(base.now()).bind(&base.owner);
        let query = query.bind(begins.shards).bind(begins.from).bind(self.seen.0);
        let open = begins.open;
        let query = query.bind(open.shards).bind(open.xids).bind(open.from);
        let (now, newest, snapshot) = (Millis(0), 0, Snapshot::default());
        let mut glance = Glance { looks: Vec::new(), now, newest, snapshot };
        for row in query.fetch_all(conn).await? {
            glance.now = Millis(row.try_get(0)?);
            glance.newest = row.try_get::<Option<i64>, _>(8)?.unwrap_or(0);
            if glance.looks.is_empty() {
                glance.snapshot = rows::snapshot(&row, 9)?;
            }
            glance.looks.push(Look {
                shard: rows::shard(&row, 1)?,
                now: glance.now,
                owner: row.try_get(2)?,
                mark: Fence(row.try_get(3)?),
                until: Millis(row.try_get(4)?),
                hot: row.try_get(5)?,
                ahead: row.try_get(6)?,
                due: row.try_get::<Option<i64>, _>(7)?.map(Millis),
                newest: glance.newest,
            });
        }
        Ok(glance)
    }
}
