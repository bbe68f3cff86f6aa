//! Upkeep in small steps, by one holder at a time. Dead rows are never touched.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Chores, Keep, Millis, StoreError, Swept};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::writer::{Work, Writer};

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
        let step = i64::try_from(keep.step).unwrap_or(i64::MAX);
        let query = base.sql.trim_sent.query().bind((now - keep.sent).0).bind(step);
        let sent = query.execute(&mut *conn).await?.rows_affected();
        let query = base.sql.trim_inbox.query().bind((now - keep.inbox).0).bind(step);
        let inbox = query.execute(&mut *conn).await?.rows_affected();
        Ok(Swept { sent, inbox, elsewhere: false })
    }
}
