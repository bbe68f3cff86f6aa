//! From a row of a table to an event, strictly for sinks and leniently for people.

use event::{Cause, Code, Event, EventId, Headers, Listed, Millis, Moment, Payload};

use super::due::DueRow;
use super::fault::Fault;

/// A row as a server gave it out; NULL is `None`.
pub(crate) trait Cells {
    /// Reads a text.
    fn cell_text(&self, at: usize) -> Result<Option<&str>, Fault>;
    /// Reads bytes.
    fn cell_bytes(&self, at: usize) -> Result<Option<&[u8]>, Fault>;
    /// Reads a number, however wide its column is.
    fn cell_int(&self, at: usize) -> Result<Option<i64>, Fault>;
}

/// Reads the event of a row whose columns start at `at`: `event_id, topic, event_type, biz_key,
/// payload, payload_bytes, headers, created_at`. The inner error says why it is not an event.
pub(crate) fn event(row: &impl Cells, at: usize) -> Result<Result<Event, Cause>, Fault> {
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
pub(crate) fn shown(row: &impl Cells, at: usize) -> Result<Event, Fault> {
    let id = text(row, at)?.parse().unwrap_or(EventId::from_uuid(uuid::Uuid::nil()));
    let headers = Headers::from_json(text(row, at + 6)?).unwrap_or_default();
    read(row, at, id, headers)
}

fn read(row: &impl Cells, at: usize, id: EventId, headers: Headers) -> Result<Event, Fault> {
    let payload = match row.cell_bytes(at + 5)? {
        Some(bytes) => Payload::Bytes(bytes.to_vec().into()),
        None => Payload::Text(text(row, at + 4)?.to_owned()),
    };
    Ok(Event {
        id,
        topic: text(row, at + 1)?.to_owned(),
        kind: text(row, at + 2)?.to_owned(),
        key: row.cell_text(at + 3)?.map(str::to_owned),
        payload,
        headers,
        created: Millis(int(row, at + 7)?),
        sequence: None,
    })
}

/// Reads a text; NULL is an empty one.
pub(crate) fn text(row: &impl Cells, at: usize) -> Result<&str, Fault> {
    Ok(row.cell_text(at)?.unwrap_or_default())
}

/// Reads a number; NULL is zero.
pub(crate) fn int(row: &impl Cells, at: usize) -> Result<i64, Fault> {
    Ok(row.cell_int(at)?.unwrap_or_default())
}

/// Reads a number that is never negative.
pub(crate) fn small(row: &impl Cells, at: usize) -> Result<u32, Fault> {
    Ok(u32::try_from(int(row, at)?).unwrap_or(u32::MAX))
}

/// Reads a shard's number.
pub(crate) fn shard(row: &impl Cells, at: usize) -> Result<u16, Fault> {
    Ok(u16::try_from(int(row, at)?).unwrap_or(u16::MAX))
}

/// Reads a trail; one that is not ours is none.
pub(crate) fn trail(row: &impl Cells, at: usize) -> Result<Vec<Moment>, Fault> {
    Ok(serde_json::from_str(text(row, at)?).unwrap_or_default())
}

/// Reads a later row that is due: `number, seq, topic, biz_key, unexplained, size, due_at, shard`.
pub(crate) fn due(row: &impl Cells, new: bool) -> Result<DueRow, Fault> {
    Ok(DueRow {
        shard: shard(row, 7)?,
        number: int(row, 0)?,
        birth: int(row, 1)?,
        topic: text(row, 2)?.to_owned(),
        key: row.cell_text(3)?.map(str::to_owned),
        unexplained: int(row, 4)?,
        size: usize::try_from(int(row, 5)?).unwrap_or(0),
        due: Millis(int(row, 6)?),
        new,
    })
}

/// Reads a listed row: the event, then `status, attempts, due_at, trail, broker_message_id,
/// moved_at`.
pub(crate) fn listed(row: &impl Cells) -> Result<Listed, Fault> {
    Ok(Listed {
        event: shown(row, 0)?,
        status: text(row, 8)?.parse().expect("a statement names a status"),
        attempts: small(row, 9)?,
        next_attempt: row.cell_int(10)?.map(Millis),
        trail: trail(row, 11)?,
        broker_id: row.cell_text(12)?.map(str::to_owned),
        updated: Millis(int(row, 13)?),
        behind: 0,
    })
}
