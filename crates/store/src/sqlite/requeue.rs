//! A new life for dead events, under the same identity.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{EventId, Requeued};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::writer::Work;

/// Which dead events to give a new life, each named once.
pub(super) struct Requeuing {
    pub(super) ids: Vec<EventId>,
}

#[async_trait]
impl Work for Requeuing {
    type Out = Requeued;
    const DURABLE: bool = true;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Requeued, Fault> {
        let texts: Vec<String> = self.ids.iter().map(EventId::to_string).collect();
        let json = serde_json::to_string(&texts).expect("texts are always JSON");
        let query = base.sql.requeue_copy.query().bind(base.now()).bind(&json);
        let mut there: HashSet<EventId> = HashSet::new();
        for row in query.fetch_all(&mut *conn).await? {
            there.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
        }
        base.sql.requeue_drop.query().bind(&json).execute(&mut *conn).await?;
        let (requeued, skipped) = self.ids.iter().partition(|id| there.contains(id));
        Ok(Requeued { requeued, skipped })
    }
}
