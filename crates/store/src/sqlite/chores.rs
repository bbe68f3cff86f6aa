//! Upkeep in small steps, by one holder at a time. Dead rows are never touched.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Chores, Keep, Millis, StoreError, Swept};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::writer::{Work, Writer};

/// How many rows of history a step looks at, at each of two places, to find what is old.
const LOOK: i64 = 1_000;

/// The upkeep of one handle.
pub(super) struct SqliteChores {
    pub(super) base: Arc<Base>,
    pub(super) writer: Writer,
}

#[async_trait]
impl Chores for SqliteChores {
    async fn sweep(&self, keep: &Keep) -> Result<Swept, StoreError> {
        let swept = self.writer.run(Sweeping(*keep)).await?;
        if swept == Swept::default() {
            // Nothing to trim is a quiet moment: a good one to fold the log into the file.
            let mut conn = self.base.readers.acquire().await.map_err(Fault::from)?;
            let fold = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut *conn).await;
            fold.map_err(Fault::from)?;
        }
        Ok(swept)
    }
}

struct Sweeping(Keep);

#[async_trait]
impl Work for Sweeping {
    type Out = Swept;
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Swept, Fault> {
        let keep = self.0;
        let lease = i64::try_from(keep.lease.as_millis()).unwrap_or(i64::MAX);
        let query = base.sql.take_chores.query().bind(base.now()).bind(&base.owner).bind(lease);
        let Some(row) = query.fetch_optional(&mut *conn).await? else {
            return Ok(Swept { elsewhere: true, ..Swept::default() });
        };
        let now = Millis(row.try_get(0)?);
        forget_sizes(base, conn).await?;
        let step = i64::try_from(keep.step).unwrap_or(i64::MAX);
        let query = base.sql.trim_sent.query().bind((now - keep.sent).0).bind(step);
        let query = query.bind(step.max(LOOK));
        let sent = query.execute(&mut *conn).await?.rows_affected();
        let query = base.sql.trim_inbox.query().bind((now - keep.inbox).0).bind(step).bind(now.0);
        let inbox = query.execute(&mut *conn).await?.rows_affected();
        Ok(Swept { sent, inbox, elsewhere: false })
    }
}

/// What the planner should think of each of our tables.
const LARGE: &str = "1000000";

/// Makes the planner forget how large our tables were when somebody ran `ANALYZE`. An outbox is
/// almost empty most of the time, and what is planned for that reads all of it when it is not.
async fn forget_sizes(base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
    let there = base.sql.has_versions.query().bind("sqlite_stat1").fetch_one(&mut *conn).await?;
    if there.try_get::<i64, _>(0)? == 0 {
        return Ok(());
    }
    let ours = ["", "_later", "_dead", "_sent", "_inbox"].map(|end| format!("{}{end}", base.table));
    let ours = serde_json::to_string(&ours).expect("texts are always JSON");
    let forget = base.sql.forget_sizes.query().bind(&ours).bind(LARGE);
    if forget.execute(&mut *conn).await?.rows_affected() > 0 {
        base.sql.say_sizes.query().bind(ours).bind(LARGE).execute(&mut *conn).await?;
        base.sql.load_sizes.query().execute(&mut *conn).await?;
    }
    Ok(())
}
