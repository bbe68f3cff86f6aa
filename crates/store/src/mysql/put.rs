//! Writing events, in a transaction of our own or in the caller's.

use event::{Event, Millis, Payload};
use sqlx::MySqlConnection;

use super::statements::Statements;
use super::template::Value;

/// How many events, and how many bytes of them, go into one statement: every server takes a packet
/// of that size.
const AT_ONCE: (usize, usize) = (256, 4 << 20);

/// Divides events into what goes into one statement each.
pub(super) fn statements(events: &[Event]) -> Vec<&[Event]> {
    let (mut parts, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, event) in events.iter().enumerate() {
        let size = event.payload.len() + event.headers.to_json().len();
        if at > begin && (at - begin == AT_ONCE.0 || bytes + size > AT_ONCE.1) {
            parts.push(&events[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += size;
    }
    parts.push(&events[begin..]);
    parts
}

/// Writes events.
pub(super) async fn write(
    sql: &Statements,
    conn: &mut MySqlConnection,
    events: &[Event],
    due: Option<Millis>,
    now: Option<i64>,
) -> Result<(), sqlx::Error> {
    for part in statements(events) {
        let tuples: Vec<Vec<Value>> = part.iter().map(cells).collect();
        let ask = match due {
            Some(due) => sql.put_later.ask().give(now).give(due.0),
            None => sql.put.ask().give(now),
        };
        ask.each(tuples).run(&mut *conn).await?;
    }
    Ok(())
}

fn cells(event: &Event) -> Vec<Value> {
    let (text, bytes) = match &event.payload {
        Payload::Text(text) => (Some(text.clone()), None),
        Payload::Bytes(bytes) => (None, Some(bytes.to_vec())),
    };
    vec![
        event.id.to_string().into(),
        event.topic.clone().into(),
        event.kind.clone().into(),
        event.key.clone().into(),
        text.into(),
        bytes.into(),
        event.headers.to_json().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_or_large_events_go_into_several_statements() {
        let sizes = |events: &[Event]| -> Vec<usize> {
            statements(events).iter().map(|part| part.len()).collect()
        };
        let small = vec![Event::new("t", "T", "{}"); 600];
        assert_eq!(sizes(&small), [256, 256, 88]);
        assert_eq!(sizes(&small[..256]), [256]);
        let large = vec![Event::new("t", "T", "x".repeat(1 << 20)); 5];
        assert_eq!(sizes(&large), [3, 2]);
    }
}
