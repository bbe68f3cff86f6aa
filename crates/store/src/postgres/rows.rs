//! From a row of a table to an event, strictly for sinks and leniently for people.

use event::{Cause, Code, Event, EventId, Headers, Millis, Moment, Payload};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::error::Fault;
use crate::own::Snapshot;

/// Reads the event of a row whose columns start at `at`: `event_id, topic, event_type, biz_key,
/// payload, payload_bytes, headers, created_at`. The inner error says why it is not an event.
pub(super) fn event(row: &PgRow, at: usize) -> Result<Result<Event, Cause>, Fault> {
    let bad = |detail: String| Ok(Err(Cause::new(Code::BadEvent, detail)));
    let id: EventId = match text(row, at)?.parse() {
        Ok(id) => id,
        Err(invalid) => return bad(format!("{invalid}")),
    };
    let headers = match text(row, at + 6)? {
        "{}" => Headers::default(),
        json => match Headers::from_json(json) {
            Ok(headers) => headers,
            Err(invalid) => return bad(format!("{invalid}")),
        },
    };
    Ok(Ok(read(row, at, id, headers)?))
}

/// Reads the event of a row as a person may see it, whatever its producer wrote.
pub(super) fn shown(row: &PgRow, at: usize) -> Result<Event, Fault> {
    let id = text(row, at)?.parse().unwrap_or(EventId::from_uuid(uuid::Uuid::nil()));
    let headers = Headers::from_json(text(row, at + 6)?).unwrap_or_default();
    read(row, at, id, headers)
}

fn read(row: &PgRow, at: usize, id: EventId, headers: Headers) -> Result<Event, Fault> {
    let payload = match row.try_get_unchecked::<Option<&[u8]>, _>(at + 5)? {
        Some(bytes) => Payload::Bytes(bytes.to_vec().into()),
        None => Payload::Text(text(row, at + 4)?.to_owned()),
    };
    Ok(Event {
        id,
        topic: text(row, at + 1)?.to_owned(),
        kind: text(row, at + 2)?.to_owned(),
        key: row.try_get_unchecked::<Option<String>, _>(at + 3)?,
        payload,
        headers,
        created: Millis(row.try_get_unchecked(at + 7)?),
    })
}

/// Reads a text; NULL is an empty one.
pub(super) fn text(row: &PgRow, index: usize) -> Result<&str, Fault> {
    Ok(row.try_get_unchecked::<Option<&str>, _>(index)?.unwrap_or_default())
}

/// Reads a snapshot.
pub(super) fn snapshot(row: &PgRow, index: usize) -> Result<Snapshot, Fault> {
    Ok(Snapshot::parse(text(row, index)?).unwrap_or_default())
}

/// Reads a shard's number.
pub(super) fn shard(row: &PgRow, index: usize) -> Result<u16, Fault> {
    Ok(u16::try_from(row.try_get::<i16, _>(index)?).unwrap_or(u16::MAX))
}

/// Reads a trail; one that is not ours is none.
pub(super) fn trail(row: &PgRow, index: usize) -> Result<Vec<Moment>, Fault> {
    Ok(serde_json::from_str(text(row, index)?).unwrap_or_default())
}
