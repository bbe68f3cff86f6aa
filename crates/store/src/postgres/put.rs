//! Writing events, in a transaction of our own or in the caller's.

use event::{Event, Millis, Payload};
use sqlx::PgConnection;

use super::statements::Statements;

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
