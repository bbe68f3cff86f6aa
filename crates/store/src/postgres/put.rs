//! Putting events down, in a transaction of our own or in the caller's.

use async_trait::async_trait;
use event::{Event, Millis, Payload};
use sqlx::PgConnection;

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::statements::Statements;
use super::work::Work;

/// Events for one transaction, which is one statement.
pub(super) struct Putting {
    pub(super) events: Vec<Event>,
    pub(super) due: Option<Millis>,
}

#[async_trait]
impl Work for Putting {
    type Out = ();
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        base.shards(conn).await?;
        Ok(write(&base.sql, conn, &self.events, self.due, base.now()).await?)
    }
}

/// Writes events.
pub(super) async fn write(
    sql: &Statements,
    conn: &mut PgConnection,
    events: &[Event],
    due: Option<Millis>,
    now: Option<i64>,
) -> Result<(), sqlx::Error> {
    let texts = |of: fn(&Event) -> &str| -> Vec<String> {
        events.iter().map(|event| of(event).to_owned()).collect()
    };
    let ids: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
    let keys: Vec<Option<String>> = events.iter().map(|event| event.key.clone()).collect();
    let (mut payloads, mut bytes) = (Vec::new(), Vec::new());
    for event in events {
        let (text, raw) = match &event.payload {
            Payload::Text(text) => (Some(text.clone()), None),
            Payload::Bytes(bytes) => (None, Some(bytes.to_vec())),
        };
        payloads.push(text);
        bytes.push(raw);
    }
    let headers: Vec<String> = events.iter().map(|event| event.headers.to_json()).collect();
    let query = if due.is_some() { sql.put_later.query() } else { sql.put.query() };
    let query = query.bind(now).bind(ids).bind(texts(|event| &event.topic));
    let query = query.bind(texts(|event| &event.kind)).bind(keys).bind(payloads).bind(bytes);
    let query = query.bind(headers);
    match due {
        Some(due) => query.bind(due.0).execute(conn).await?,
        None => query.execute(conn).await?,
    };
    Ok(())
}
