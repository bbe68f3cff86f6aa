//! One look at the clock and what waits. It writes nothing.

use std::time::Duration;

use async_trait::async_trait;
use event::{Leased, Millis};
use sqlx::{PgConnection, Row};

use super::super::base::Base;
use super::super::connect::Commit;
use super::super::error::Fault;
use super::super::glance::{Begins, Glance};
use super::super::rows;
use super::super::work::Work;
use crate::compete::Start;
use crate::own::Snapshot;

/// What waits in one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) shard: u16,
    /// Whether hot rows are ahead of where the lane has looked, or may be.
    pub(super) ahead: bool,
    /// The earliest due time of a later row.
    pub(super) due: Option<Millis>,
}

/// What one look showed.
pub(super) struct Seen {
    pub(super) glance: Glance,
    /// Every shard, in the order in which this lane takes from them.
    pub(super) waits: Vec<Waits>,
    /// Whether a claim seems to last longer than any can.
    pub(super) astray: bool,
}

impl Seen {
    /// Tells whether there may be something to claim.
    pub(super) fn stirs(&self) -> bool {
        let due = |waits: &Waits| waits.due.is_some_and(|due| due <= self.glance.now);
        self.astray || self.waits.iter().any(|waits| waits.ahead || due(waits))
    }
}

/// One lane's look.
pub(super) struct Seeing<'a> {
    pub(super) lane: usize,
    pub(super) lease: Duration,
    /// Where it begins.
    pub(super) start: &'a std::sync::Mutex<Start>,
}

/// Returns how long a claim can last, as the statements take it.
pub(super) fn longest(lease: Duration) -> i64 {
    i64::try_from(Leased::Shard.longest(lease).as_millis()).unwrap_or(i64::MAX / 4)
}

#[async_trait]
impl Work for Seeing<'_> {
    type Out = Seen;
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Seen, Fault> {
        let shards = base.shards(conn).await?;
        let order = self.start.lock().expect("no rule panics while the start is open").turn(shards);
        let begins = Begins::of(&base.holding().desks[self.lane], order);
        let query = base.sql.see.query().bind(base.now()).bind(longest(self.lease));
        let query = query.bind(begins.shards).bind(begins.from);
        let open = begins.open;
        let query = query.bind(open.shards).bind(open.xids).bind(open.from);
        let (now, newest, snapshot) = (Millis(0), 0, Snapshot::default());
        let glance = Glance { looks: Vec::new(), now, newest, snapshot };
        let mut seen = Seen { glance, waits: Vec::new(), astray: false };
        for row in query.fetch_all(conn).await? {
            if seen.waits.is_empty() {
                seen.glance.now = Millis(row.try_get(0)?);
                seen.glance.newest = row.try_get::<Option<i64>, _>(4)?.unwrap_or(0);
                seen.glance.snapshot = rows::snapshot(&row, 5)?;
                seen.astray = row.try_get(6)?;
            }
            seen.waits.push(Waits {
                shard: rows::shard(&row, 1)?,
                ahead: row.try_get(2)?,
                due: row.try_get::<Option<i64>, _>(3)?.map(Millis),
            });
        }
        Ok(seen)
    }
}
