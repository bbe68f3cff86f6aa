//! Events as a command shows them: as JSON in the names of the JSON API, and as text.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::{Listed, Millis, Moment, Payload, Status, scrub};
use serde_json::{Map, Value, json};

use crate::config::duration;
use crate::escape::escape;
use crate::out::Out;
use crate::table::{Align, Cell, Table, Tone};

/// Returns an event as JSON, without its payload.
pub(crate) fn json(outbox: &str, listed: &Listed) -> Map<String, Value> {
    let event = &listed.event;
    let moment = |moment: &Moment| {
        let Moment { at, attempt, cause } = moment;
        json!({ "at": at.to_string(), "attempt": attempt, "cause": cause })
    };
    let value = json!({
        "outbox": outbox,
        "id": event.id,
        "topic": event.topic,
        "type": event.kind,
        "key": event.key,
        "status": listed.status,
        "attempts": listed.attempts,
        "next_attempt": listed.next_attempt.map(|at| at.to_string()),
        "trail": listed.trail.iter().map(moment).collect::<Vec<_>>(),
        "broker_id": listed.broker_id,
        "headers": headers(listed).into_iter().collect::<Map<_, _>>(),
        "created": event.created.to_string(),
        "updated": listed.updated.to_string(),
        "behind": listed.behind,
    });
    match value {
        Value::Object(map) => map,
        _ => unreachable!("an object was written"),
    }
}

/// Returns an event as JSON, with its payload.
pub(crate) fn json_with_payload(outbox: &str, listed: &Listed) -> Value {
    let mut map = json(outbox, listed);
    match &listed.event.payload {
        Payload::Text(text) => map.insert("payload".into(), json!(text)),
        Payload::Bytes(bytes) => map.insert("payload_base64".into(), json!(STANDARD.encode(bytes))),
    };
    Value::Object(map)
}

fn headers(listed: &Listed) -> Vec<(String, Value)> {
    let mask = |(name, value): (&String, &String)| {
        let line = format!("{name}={value}");
        let shown = if scrub(&line) == line { value.as_str() } else { "***" };
        (name.clone(), json!(shown))
    };
    listed.event.headers.0.iter().map(mask).collect()
}

/// Returns the tone of a status.
pub(crate) fn tone(status: Status) -> Tone {
    match status {
        Status::New | Status::Dispatching => Tone::Plain,
        Status::Retry => Tone::Warn,
        Status::Sent => Tone::Good,
        Status::Dead => Tone::Bad,
    }
}

/// Returns events as a table.
pub(crate) fn table(events: &[Listed]) -> Table {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("STATUS", Align::Left),
        ("TOPIC", Align::Left),
        ("TYPE", Align::Left),
        ("KEY", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("AGE", Align::Right),
        ("TROUBLE", Align::Left),
    ]);
    let now = Millis::now();
    for listed in events {
        let event = &listed.event;
        let trouble = listed.last_error().filter(|_| listed.status != Status::Sent);
        table.row(vec![
            event.id.to_string().into(),
            Cell::new(status(listed, now)).tone(tone(listed.status)),
            Cell::new(&event.topic),
            Cell::new(&event.kind),
            Cell::new(event.key.as_deref().unwrap_or("-")),
            listed.attempts.to_string().into(),
            duration::short(now.since(event.created)).into(),
            Cell::new(trouble.map(|cause| cause.code.as_str()).unwrap_or_default()),
        ]);
    }
    table
}

/// Names the status, and how far ahead its due moment lies.
fn status(listed: &Listed, now: Millis) -> String {
    let name = listed.status.as_str();
    let waits = matches!(listed.status, Status::New | Status::Retry);
    match listed.next_attempt.filter(|due| waits && *due > now) {
        Some(due) => format!("{name} in {}", ahead(due.since(now))),
        None => name.to_owned(),
    }
}

/// Writes a time to wait with its two largest units at the most, rounded up: never "in 0s", and two
/// hours are not one hour a moment later.
fn ahead(wait: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    let unit = match wait.as_secs() {
        0..HOUR => 1,
        HOUR..86_400 => MINUTE,
        _ => HOUR,
    };
    let seconds = wait.as_millis().div_ceil(1000);
    let seconds = u64::try_from(seconds).unwrap_or(u64::MAX).div_ceil(unit).saturating_mul(unit);
    duration::text(Duration::from_secs(seconds))
}

/// Says everything about one event, line by line.
pub(crate) fn page(out: Out, outbox: &str, listed: &Listed, payload: bool) -> std::io::Result<()> {
    let event = &listed.event;
    let status = out.paint(tone(listed.status), listed.status.as_str());
    out.line(format!("{}  {status}", out.paint(Tone::Bold, &event.id.to_string())))?;
    let mut facts = vec![
        ("outbox", escape(outbox)),
        ("topic", escape(&event.topic)),
        ("type", escape(&event.kind)),
        ("key", event.key.as_deref().map_or("-".to_owned(), escape)),
        ("attempts", listed.attempts.to_string()),
        ("created", event.created.to_string()),
        ("updated", listed.updated.to_string()),
    ];
    if let Some(next) = listed.next_attempt {
        facts.push(("due", next.to_string()));
    }
    if let Some(id) = &listed.broker_id {
        facts.push(("broker id", escape(id)));
    }
    if listed.behind > 0 {
        facts.push(("behind it", behind(listed.behind)));
    }
    for (name, value) in headers(listed) {
        let value = value.as_str().map(escape).unwrap_or_default();
        facts.push(("header", format!("{} = {value}", escape(&name))));
    }
    for (name, text) in facts {
        out.line(format!("  {}  {text}", out.paint(Tone::Dim, &format!("{name:<9}"))))?;
    }
    for moment in &listed.trail {
        let Moment { at, attempt, cause } = moment;
        let code = out.paint(Tone::Bad, cause.code.as_str());
        out.line(format!("  {at}  attempt {attempt}  {code}: {}", escape(&cause.detail)))?;
    }
    say_payload(out, &event.payload, payload)
}

fn behind(count: u64) -> String {
    match count {
        1 => "1 event of its key waits".to_owned(),
        _ => format!("{count} events of its key wait"),
    }
}

fn say_payload(out: Out, payload: &Payload, shown: bool) -> std::io::Result<()> {
    match payload {
        _ if !shown => {
            out.aside(Tone::Dim, "The payload is not shown; --payload shows it.");
            Ok(())
        }
        Payload::Bytes(bytes) => {
            out.line(format!("\n{} bytes: {}", bytes.len(), STANDARD.encode(bytes)))
        }
        Payload::Text(text) => {
            let parsed: Option<Value> = serde_json::from_str(text).ok();
            let pretty = parsed.and_then(|value| serde_json::to_string_pretty(&value).ok());
            let lines: Vec<String> = match &pretty {
                Some(pretty) => pretty.lines().map(escape).collect(),
                None => text.split('\n').map(escape).collect(),
            };
            out.line(format!("\n{}", lines.join("\n")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_behind_another_is_one_event() {
        assert_eq!(behind(1), "1 event of its key waits");
        assert_eq!(behind(2), "2 events of its key wait");
    }

    #[test]
    fn a_wait_is_rounded_up_to_what_matters() {
        for (millis, said) in [
            (1, "1s"),
            (59_001, "1m"),
            (90_000, "1m30s"),
            (7_199_999, "2h"),
            (3_661_000, "1h2m"),
            (86_400_000 * 3 + 1, "3d1h"),
        ] {
            assert_eq!(ahead(Duration::from_millis(millis)), said);
        }
    }
}
