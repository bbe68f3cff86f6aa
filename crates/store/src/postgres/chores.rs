//! Upkeep in small steps, by one holder at a time. Dead rows are never touched.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Chores, Keep, Millis, StoreError, Swept};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::work::{Scope, Work};

/// How many rows of history a step looks at, at each of two places, to find what is old.
const LOOK: i64 = 1_000;

/// How long a relay that was not seen is remembered.
const GONE: Duration = Duration::from_secs(86_400);

/// The upkeep of one handle.
pub(super) struct PostgresChores(pub(super) Arc<Base>);

#[async_trait]
impl Chores for PostgresChores {
    async fn sweep(&self, keep: &Keep) -> Result<Swept, StoreError> {
        self.0.carry(Sweeping(*keep)).await
    }
}

struct Sweeping(Keep);

#[async_trait]
impl Work for Sweeping {
    type Out = Swept;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Swept, Fault> {
        base.shards(conn).await?;
        let keep = self.0;
        let lease = i64::try_from(keep.lease.as_millis()).unwrap_or(i64::MAX);
        let query = base.sql.take_chores.query().bind(base.now()).bind(&base.owner).bind(lease);
        let Some(row) = query.fetch_optional(&mut *conn).await? else {
            return Ok(Swept { elsewhere: true, ..Swept::default() });
        };
        let now = Millis(row.try_get(0)?);
        let step = i64::try_from(keep.step).unwrap_or(i64::MAX);
        let query = base.sql.trim_sent.query().bind((now - keep.sent).0).bind(step);
        let query = query.bind(step.max(LOOK));
        let sent = query.execute(&mut *conn).await?.rows_affected();
        let query = base.sql.trim_inbox.query().bind((now - keep.inbox).0).bind(step).bind(now.0);
        let inbox = query.execute(&mut *conn).await?.rows_affected();
        base.sql.trim_relays.query().bind((now - GONE).0).execute(conn).await?;
        Ok(Swept { sent, inbox, elsewhere: false })
    }
}
