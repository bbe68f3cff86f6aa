//! From a row of a table to an event, strictly for sinks and leniently for people.

use std::borrow::Cow;

use event::{Cause, Code, Event, EventId, Headers, Millis, Moment, Payload};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::error::Fault;

/// Reads the event of a row whose columns start at `at`: `event_id, topic, event_type, biz_key,
/// payload, payload_bytes, headers, created_at`. The inner error says why it is not an event.
pub(super) fn event(row: &SqliteRow, at: usize) -> Result<Result<Event, Cause>, Fault> {
    let bad = |detail: String| Ok(Err(Cause::new(Code::BadEvent, detail)));
    let text = |index: usize| -> Result<Option<&str>, Fault> {
        Ok(row.try_get_unchecked::<Option<&str>, _>(at + index)?)
    };
    macro_rules! readable {
        ($name:literal, $index:literal) => {
            match text($index) {
                Ok(text) => text,
                Err(Fault::Sql(sqlx::Error::ColumnDecode { source, .. })) => {
                    return bad(format!("{} is not UTF-8: {source}", $name));
                }
                Err(fault) => return Err(fault),
            }
        };
    }
    let id: EventId = match readable!("event_id", 0).unwrap_or_default().parse() {
        Ok(id) => id,
        Err(invalid) => return bad(format!("{invalid}")),
    };
    let payload = match readable!("payload", 4) {
        Some(text) => Payload::Text(text.to_owned()),
        None => Payload::Bytes(bytes(row, at + 5)?.to_vec().into()),
    };
    let headers = match readable!("headers", 6).unwrap_or_default() {
        "{}" => Headers::default(),
        json => match Headers::from_json(json) {
            Ok(headers) => headers,
            Err(invalid) => return bad(format!("{invalid}")),
        },
    };
    Ok(Ok(Event {
        id,
        topic: readable!("topic", 1).unwrap_or_default().to_owned(),
        kind: readable!("event_type", 2).unwrap_or_default().to_owned(),
        key: readable!("biz_key", 3).map(str::to_owned),
        payload,
        headers,
        created: Millis(row.try_get_unchecked(at + 7)?),
        sequence: None,
    }))
}

/// Reads the event of a row as a person may see it, whatever its producer wrote.
pub(super) fn shown(row: &SqliteRow, at: usize) -> Result<Event, Fault> {
    let null = |index: usize| -> Result<bool, Fault> {
        Ok(row.try_get_unchecked::<Option<&[u8]>, _>(at + index)?.is_none())
    };
    let payload = if null(5)? {
        Payload::Text(lenient(row, at + 4)?.into_owned())
    } else {
        Payload::Bytes(bytes(row, at + 5)?.to_vec().into())
    };
    Ok(Event {
        id: lenient(row, at)?.parse().unwrap_or(EventId::from_uuid(uuid::Uuid::nil())),
        topic: lenient(row, at + 1)?.into_owned(),
        kind: lenient(row, at + 2)?.into_owned(),
        key: if null(3)? { None } else { Some(lenient(row, at + 3)?.into_owned()) },
        payload,
        headers: Headers::from_json(&lenient(row, at + 6)?).unwrap_or_default(),
        created: Millis(row.try_get_unchecked(at + 7)?),
        sequence: None,
    })
}

/// Reads a text whose bytes may be anything.
pub(super) fn lenient(row: &SqliteRow, index: usize) -> Result<Cow<'_, str>, Fault> {
    Ok(String::from_utf8_lossy(bytes(row, index)?))
}

fn bytes(row: &SqliteRow, index: usize) -> Result<&[u8], Fault> {
    Ok(row.try_get_unchecked::<Option<&[u8]>, _>(index)?.unwrap_or_default())
}

/// Reads a trail; one that is not ours is none.
pub(super) fn trail(row: &SqliteRow, index: usize) -> Result<Vec<Moment>, Fault> {
    let text = lenient(row, index)?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
