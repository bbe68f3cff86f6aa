//! The memory of a consumer group. The unique key decides who works, and the fence who may say so.

use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, EventId, Fence, Inbox, InboxEnd, Millis, StoreError};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::statements::Statements;
use super::writer::{Work, Writer};

/// The consumers' memory of one handle.
pub(super) struct SqliteInbox(pub(super) Writer);

#[async_trait]
impl Inbox for SqliteInbox {
    async fn begin(&self, group: &str, id: EventId, lease: Duration) -> Result<Begun, StoreError> {
        self.0.run(Beginning { group: group.to_owned(), id, lease }).await
    }

    async fn finish(
        &self,
        group: &str,
        id: EventId,
        fence: Fence,
        end: InboxEnd,
    ) -> Result<bool, StoreError> {
        self.0.run(Finishing { group: group.to_owned(), id, fence, end }).await
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
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Begun, Fault> {
        let id = self.id.to_string();
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        let query = base.sql.inbox_begin.query().bind(base.now());
        let query = query.bind(&self.group).bind(&id).bind(lease);
        if let Some(row) = query.fetch_optional(&mut *conn).await? {
            return Ok(Begun::Go(Fence(row.try_get(0)?)));
        }
        let found = look(&base.sql, conn, &self.group, &id).await?;
        Ok(found.ok_or(sqlx::Error::RowNotFound)?)
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
    const DURABLE: bool = true;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<bool, Fault> {
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
    conn: &mut SqliteConnection,
    group: &str,
    id: EventId,
) -> Result<Begun, sqlx::Error> {
    let text = id.to_string();
    let query = sql.take_in.query().bind(None::<i64>).bind(group).bind(&text);
    if let Some(row) = query.fetch_optional(&mut *conn).await? {
        return Ok(Begun::Go(Fence(row.try_get(0)?)));
    }
    look(sql, conn, group, &text).await?.ok_or(sqlx::Error::RowNotFound)
}

/// Tells whether the caller's transaction has an event as taken in. One that an error has ended
/// lost it.
pub(super) async fn remembers(
    sql: &Statements,
    conn: &mut SqliteConnection,
    group: &str,
    id: EventId,
) -> Result<bool, sqlx::Error> {
    Ok(look(sql, conn, group, &id.to_string()).await? == Some(Begun::Done))
}

/// Reads why an event cannot be begun.
async fn look(
    sql: &Statements,
    conn: &mut SqliteConnection,
    group: &str,
    id: &str,
) -> Result<Option<Begun>, sqlx::Error> {
    let query = sql.inbox_look.query().bind(group).bind(id);
    let Some(row) = query.fetch_optional(conn).await? else { return Ok(None) };
    Ok(Some(match row.try_get(0)? {
        "PROCESSED" => Begun::Done,
        _ => Begun::Busy { until: Millis(row.try_get(1)?) },
    }))
}
