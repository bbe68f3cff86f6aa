//! Putting events down, in a transaction of our own or in the caller's.

use async_trait::async_trait;
use event::{Event, Millis, Payload};
use sqlx::SqliteConnection;

use super::base::Base;
use super::error::Fault;
use super::statements::Statements;
use super::writer::Work;

/// Events for one transaction.
pub(super) struct Putting {
    pub(super) events: Vec<Event>,
    pub(super) due: Option<Millis>,
}

#[async_trait]
impl Work for Putting {
    type Out = ();
    const DURABLE: bool = true;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        Ok(write(&base.sql, conn, &self.events, self.due, base.now()).await?)
    }
}

/// Writes events.
pub(super) async fn write(
    sql: &Statements,
    conn: &mut SqliteConnection,
    events: &[Event],
    due: Option<Millis>,
    now: Option<i64>,
) -> Result<(), sqlx::Error> {
    for event in events {
        write_one(sql, conn, event, due, now).await?;
    }
    Ok(())
}

async fn write_one(
    sql: &Statements,
    conn: &mut SqliteConnection,
    event: &Event,
    due: Option<Millis>,
    now: Option<i64>,
) -> Result<(), sqlx::Error> {
    let (text, bytes) = match &event.payload {
        Payload::Text(text) => (Some(text.as_str()), None),
        Payload::Bytes(bytes) => (None, Some(&bytes[..])),
    };
    let query = if due.is_some() { sql.put_later.query() } else { sql.put.query() };
    let query = query.bind(now).bind(event.id.to_string()).bind(&event.topic).bind(&event.kind);
    let query = query.bind(event.key.as_deref()).bind(text).bind(bytes);
    let query = query.bind(event.headers.to_json());
    match due {
        Some(due) => query.bind(due.0).execute(conn).await?,
        None => query.execute(conn).await?,
    };
    Ok(())
}
