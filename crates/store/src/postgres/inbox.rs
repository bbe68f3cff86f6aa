//! The memory of a consumer group. The unique key decides who works, and the fence who may say so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, EventId, Fence, Inbox, InboxEnd, Millis, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::statements::Statements;
use super::work::Work;

/// The consumers' memory of one handle.
pub(super) struct PostgresInbox(pub(super) Arc<Base>);

#[async_trait]
impl Inbox for PostgresInbox {
    async fn begin(&self, group: &str, id: EventId, lease: Duration) -> Result<Begun, StoreError> {
        self.0.carry(Beginning { group: group.to_owned(), id, lease }).await
    }

    async fn finish(
        &self,
        group: &str,
        id: EventId,
        fence: Fence,
        end: InboxEnd,
    ) -> Result<bool, StoreError> {
        self.0.carry(Finishing { group: group.to_owned(), id, fence, end }).await
    }
}

struct Beginning {
    group: String,
    id: EventId,
    lease: Duration,
}

#[async_trait]
impl Work for Beginning {
    type Out = Begun;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Begun, Fault> {
        let id = self.id.to_string();
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        loop {
            let query = base.sql.inbox_begin.query().bind(base.now());
            let query = query.bind(&self.group).bind(&id).bind(lease);
            if let Some(row) = query.fetch_optional(&mut *conn).await? {
                return Ok(Begun::Go(Fence(row.try_get(0)?)));
            }
            let query = base.sql.inbox_look.query().bind(&self.group).bind(&id);
            // Its memory may have been trimmed between the two: then it is free.
            let Some(row) = query.fetch_optional(&mut *conn).await? else { continue };
            return Ok(match row.try_get::<&str, _>(0)? {
                "PROCESSED" => Begun::Done,
                _ => Begun::Busy { until: Millis(row.try_get(1)?) },
            });
        }
    }
}

struct Finishing {
    group: String,
    id: EventId,
    fence: Fence,
    end: InboxEnd,
}

#[async_trait]
impl Work for Finishing {
    type Out = bool;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<bool, Fault> {
        let (status, cause) = match &self.end {
            InboxEnd::Processed => ("PROCESSED", None),
            InboxEnd::Failed(cause) => ("FAILED", Some(cause.to_string())),
        };
        let query = base.sql.inbox_finish.query().bind(base.now()).bind(&self.group);
        let query = query.bind(self.id.to_string()).bind(self.fence.0).bind(status).bind(cause);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }
}

/// Takes an event in as processed, in the caller's transaction, which ends the work as well.
pub(super) async fn take_in(
    sql: &Statements,
    conn: &mut PgConnection,
    group: &str,
    id: EventId,
) -> Result<Begun, sqlx::Error> {
    let text = id.to_string();
    loop {
        let query = sql.take_in.query().bind(None::<i64>).bind(group).bind(&text);
        if let Some(row) = query.fetch_optional(&mut *conn).await? {
            return Ok(Begun::Go(Fence(row.try_get(0)?)));
        }
        let query = sql.inbox_look.query().bind(group).bind(&text);
        // Its memory may have been trimmed between the two: then it is free.
        let Some(row) = query.fetch_optional(&mut *conn).await? else { continue };
        return Ok(match row.try_get(0)? {
            "PROCESSED" => Begun::Done,
            _ => Begun::Busy { until: Millis(row.try_get(1)?) },
        });
    }
}
