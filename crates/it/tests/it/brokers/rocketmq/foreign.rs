//! A consumer in Java, with RocketMQ's official client and the CloudEvents SDK, reads our events.

use std::collections::BTreeMap;
use std::process::Command;

use broker::rocketmq::Shape;
use event::{Event, EventId, Millis, Sequence, Sink};
use it::quay::Quay;
use it::quay::rocketmq::shared;
use it::world::need;
use serde_json::Value;

use super::{sink, topic};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn the_official_java_client_and_the_cloudevents_sdk_read_our_events() {
    let quay = shared().await;
    let (topic, group) = (topic(&quay, "FIFO").await, format!("group-{}", EventId::new()));
    quay.make_group(&group, true).await.expect("a group is made");
    let paid = |payload: &str| Event::new(&*topic, "OrderPaid", payload);
    let events = [
        paid(r#"{"total": 42, "name": "Grüße"}"#).key("ключ 7").header("traceparent", TRACE),
        paid("").key("ключ 7").header("content-type", "text/plain"),
        paid("{}"),
    ];
    let events = events.map(|event| {
        let sequence = Sequence::of(4711);
        Event { sequence, ..event.header("schema_version", "3") }
    });
    let answers = sink(&quay, Shape::Fifo).publish(&events).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let address = quay.address().expect("an address").to_string();
    let (from, count) = (topic.clone(), events.len());
    let reading = tokio::task::spawn_blocking(move || read(&address, &from, &group, count));
    let lines = reading.await.expect("it ends");
    assert_eq!(lines.len(), events.len());
    for event in &events {
        let id = event.id.to_string();
        let line = lines.iter().find(|line| line["id"] == id).expect("it came");
        let get = |name: &str| line.get(name).map(String::as_str);
        assert_eq!((get("type"), get("source")), (Some("OrderPaid"), Some("orders")));
        assert_eq!((get("topic"), get("messagekey")), (Some(&*topic), Some(&*id)));
        assert_eq!(get("time").and_then(Millis::parse), Some(event.created), "{line:?}");
        for name in ["subject", "partitionkey", "bizkey"] {
            assert_eq!(get(name), event.key.as_deref(), "{name}: {line:?}");
        }
        assert_eq!(get("schemaversion"), Some("3"), "{line:?}");
        assert_eq!(get("sequence"), Some("0000000000000004711"), "{line:?}");
        let media = event.headers.get("content-type").unwrap_or("application/json");
        assert_eq!(get("datacontenttype"), Some(media), "{line:?}");
        let trace = event.headers.get("traceparent");
        assert_eq!((get("traceparent"), get("property-traceparent")), (trace, trace), "{line:?}");
        // Nothing is read as nothing.
        let data = Some(event.payload.as_bytes()).filter(|data| !data.is_empty());
        assert_eq!(get("data").map(str::as_bytes), data, "{line:?}");
        assert_eq!((get("message-id"), get("tag")), (Some(&*id), Some("OrderPaid")));
        // Without a key, it is a group of its own.
        let keys = event.key.as_ref().map_or(id.clone(), |_| format!("{id},ключ_7"));
        assert_eq!(get("message-group"), Some(event.key.as_ref().unwrap_or(&id).as_str()));
        assert_eq!(get("keys"), Some(&*keys), "{line:?}");
    }
}

/// Runs the reader; returns its lines.
fn read(address: &str, topic: &str, group: &str, count: usize) -> Vec<BTreeMap<String, String>> {
    let server = need("rocketmq");
    let mut reader = Command::new(server.detail("java"));
    reader.args(["-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp"]);
    reader.arg(format!("{}/*", server.detail("client")));
    reader.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/rocketmq/Reader.java"));
    reader.args([address, topic, group, &count.to_string()]).env("POSTBOX_RUN", &server.run);
    let read = reader.output().expect("java starts");
    let [told, errors] = [&read.stdout, &read.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(read.status.success(), "{told}\n{errors}");
    let line = |line: &str| serde_json::from_str::<Value>(line).expect("a line of JSON");
    let fields = |line: Value| -> BTreeMap<String, String> {
        let text = |(name, value): (&String, &Value)| {
            (name.clone(), value.as_str().expect("a text").to_owned())
        };
        line.as_object().expect("an object").iter().map(text).collect()
    };
    told.lines().map(line).map(fields).collect()
}
