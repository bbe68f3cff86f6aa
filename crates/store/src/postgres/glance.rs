//! One look at the clock, every shard's lease and what waits. It writes nothing.

use async_trait::async_trait;
use event::{Fence, Millis};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::rows;
use super::work::Work;
use crate::own::{Desk, Look};

/// Reads the clock that rules.
pub(super) async fn clock(base: &Base, conn: &mut PgConnection) -> Result<Millis, Fault> {
    let row = base.sql.clock.query().bind(base.now()).fetch_one(conn).await?;
    Ok(Millis(row.try_get(0)?))
}

/// Where a lane's looks at its shards begin, as the statements take it.
#[derive(Default)]
pub(super) struct Begins {
    pub(super) shards: Vec<i16>,
    pub(super) from: Vec<i64>,
    /// Transactions whose end shows more: in which shard, and from where on.
    pub(super) late_shards: Vec<i16>,
    pub(super) late: Vec<String>,
    pub(super) late_from: Vec<i64>,
}

impl Begins {
    pub(super) fn of(desk: &Desk, shards: impl IntoIterator<Item = u16>) -> Begins {
        let mut begins = Begins::default();
        for shard in shards {
            let number = number(shard);
            let cursor = desk.cursor(shard);
            let sight = desk.sight(shard);
            begins.shards.push(number);
            begins.from.push(sight.map_or(cursor, |sight| sight.from(cursor)));
            for (xid, from) in sight.into_iter().flat_map(|sight| sight.open()) {
                begins.late_shards.push(number);
                begins.late.push(xid.to_string());
                begins.late_from.push(from);
            }
        }
        begins
    }
}

/// Writes a shard as the tables have it.
pub(super) fn number(shard: u16) -> i16 {
    i16::try_from(shard).expect("there are at most 1024 shards")
}

/// One lane's look, at later rows that are due after `seen`.
pub(super) struct Glancing {
    pub(super) lane: usize,
    pub(super) seen: Millis,
}

#[async_trait]
impl Work for Glancing {
    type Out = Vec<Look>;
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Vec<Look>, Fault> {
        let shards = base.shards(conn).await?;
        let begins = Begins::of(&base.holding().desks[self.lane], 0..shards);
        let query = base.sql.glance.query().bind(base.now()).bind(&base.owner);
        let query = query.bind(begins.shards).bind(begins.from).bind(self.seen.0);
        let query = query.bind(begins.late_shards).bind(begins.late).bind(begins.late_from);
        let mut looks = Vec::with_capacity(usize::from(shards));
        for row in query.fetch_all(conn).await? {
            looks.push(Look {
                shard: rows::shard(&row, 1)?,
                now: Millis(row.try_get(0)?),
                owner: row.try_get(2)?,
                fence: Fence(row.try_get(3)?),
                until: Millis(row.try_get(4)?),
                hot: row.try_get(5)?,
                ahead: row.try_get(6)?,
                due: row.try_get::<Option<i64>, _>(7)?.map(Millis),
                newest: row.try_get::<Option<i64>, _>(8)?.unwrap_or(0),
            });
        }
        Ok(looks)
    }
}
