//! A reader in Python: a broker's own client and the official CloudEvents SDK read what we publish.

use std::path::Path;
use std::process::Command;

use broker::manner::Manner;
use event::{Event, Millis, Payload, Sequence, Sink};
use serde_json::{Value, json};

use crate::quay::Quay;
use crate::world::need;

/// The trace of the first event.
pub const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Publishes a text of a key and bytes without one, has `foreign/<broker>/read.py` read both, and
/// returns what it saw of each. What every reader of CloudEvents must see is checked.
pub async fn reads(quay: &dyn Quay, broker: &str, topic: &str, from: &[&str]) -> [Value; 2] {
    let sink = quay.sink(Manner::new("orders")).await.expect("the options are right");
    let events = offered(&*sink, topic).await;
    understood(&events, &run(broker, from).await)
}

/// Publishes a text of a key and bytes without one.
pub async fn offered(sink: &dyn Sink, topic: &str) -> [Event; 2] {
    let paid = Event::new(topic, "OrderPaid", r#"{"total": 42, "who": "Grüße"}"#)
        .key("ключ €")
        .header("schema_version", "3")
        .header("traceparent", TRACE);
    let paid = Event { sequence: Sequence::of(4711), ..paid };
    let mut picture = Event::new(topic, "Picture", "");
    picture.payload = Payload::Bytes((0..=255).collect::<Vec<u8>>().into());
    let events = [paid, picture];
    for event in &events {
        // One after another: without a key there is no order to keep.
        let answers = sink.publish(std::slice::from_ref(event)).await;
        assert!(answers[0].is_ok(), "{answers:?}");
    }
    events
}

/// Checks what every reader of CloudEvents must see, and returns what this one saw of each.
pub fn understood(events: &[Event; 2], read: &[Value]) -> [Value; 2] {
    let seen = events.each_ref().map(|event| {
        let id = json!(event.id.to_string());
        let seen = read.iter().find(|seen| seen["attributes"]["id"] == id);
        let seen = seen.unwrap_or_else(|| panic!("{id} is not in {read:?}"));
        check(event, seen);
        seen.clone()
    });
    let (paid, picture) = (&seen[0]["attributes"], &seen[1]);
    for name in ["subject", "partitionkey", "bizkey"] {
        assert_eq!(paid[name], "ключ €");
    }
    assert_eq!((&paid["schemaversion"], &paid["datacontenttype"]), (&json!("3"), &json!(JSON)));
    assert_eq!(paid["sequence"], "0000000000000004711");
    assert_eq!(picture["attributes"]["sequence"], Value::Null);
    assert_eq!(picture["attributes"]["datacontenttype"], "application/octet-stream");
    assert!(picture["body"].as_str().is_some_and(|body| body.starts_with("AAECAwQF")));
    seen
}

const JSON: &str = "application/json";

/// Runs the reader of a broker; returns its lines.
async fn run(broker: &str, from: &[&str]) -> Vec<Value> {
    let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign");
    let mut python = Command::new(need(broker).detail("python"));
    python.arg(foreign.join(broker).join("read.py")).args(from).arg("2");
    let done = tokio::task::spawn_blocking(move || python.output()).await;
    let done = done.expect("it ends").expect("python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).expect("UTF-8");
    printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Checks what is the same of every event.
fn check(event: &Event, seen: &Value) {
    let (id, said) = (json!(event.id.to_string()), &seen["attributes"]);
    assert_eq!((&said["specversion"], &said["source"]), (&json!("1.0"), &json!("orders")));
    assert_eq!((&said["type"], &said["topic"]), (&json!(event.kind), &json!(event.topic)));
    assert_eq!(said["messagekey"], id);
    let moment = said["time"].as_str().unwrap_or_default();
    assert_eq!(Millis::parse(moment), Some(event.created), "{moment}");
}
