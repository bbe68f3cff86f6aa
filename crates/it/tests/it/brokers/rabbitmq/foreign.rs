//! A reader in another language.

use std::process::Command;

use event::{Event, Sink};
use it::quay::Quay;
use it::quay::rabbitmq::shared;
use it::world::need;
use serde_json::{Value, json};

use super::sink;

/// The official client of another language, and the official CloudEvents SDK.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_in_python_understands_what_we_publish() {
    let quay = shared().await;
    let topic = quay.topic("python").await.unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut bytes = Event::new(&*topic, "Picture", "").key("7");
    bytes.payload = event::Payload::Bytes((0..=255).collect::<Vec<u8>>().into());
    let events = [
        Event::new(&*topic, "OrderPaid", r#"{"total": 42, "who": "Grüße"}"#)
            .key("ключ €")
            .header("schema_version", "3")
            .header("traceparent", trace),
        bytes,
        Event::new(&*topic, "Said", "plain words").header("content-type", "text/plain"),
    ]
    .map(|event| Event { sequence: event::Sequence::of(4711), ..event });
    assert!(sink(&quay).publish(&events).await.iter().all(Result::is_ok));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/rabbitmq/read.py");
    let mut python = Command::new(need("rabbitmq").detail("python"));
    python.arg(script).arg(&quay.url).arg(format!("python.{topic}")).arg("3");
    let done = tokio::task::spawn_blocking(move || python.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).unwrap();
    let read: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in &events {
        let id = event.id.to_string();
        let seen = read.iter().find(|seen| seen["attributes"]["id"] == id).unwrap();
        let said = &seen["attributes"];
        assert_eq!(said["specversion"], "1.0");
        assert_eq!(said["source"], "orders");
        assert_eq!(said["type"], json!(event.kind));
        assert_eq!(said["topic"], json!(topic));
        assert_eq!(said["messagekey"], json!(id));
        assert_eq!(said["sequence"], "0000000000000004711");
        assert_eq!((&seen["message_id"], &seen["type"]), (&json!(id), &json!(event.kind)));
        assert_eq!(seen["delivery_mode"], 2);
        assert_eq!(seen["timestamp"], event.created.0.div_euclid(1000));
        let moment = said["time"].as_str().unwrap();
        assert_eq!(event::Millis::parse(moment), Some(event.created), "{moment}");
    }
    let of = |kind: &str| read.iter().find(|seen| seen["type"] == kind).unwrap();
    let paid = of("OrderPaid");
    assert_eq!(paid["data"], json!({"total": 42, "who": "Grüße"}));
    for name in ["subject", "partitionkey", "bizkey"] {
        assert_eq!(paid["attributes"][name], "ключ €");
    }
    assert_eq!(paid["attributes"]["schemaversion"], "3");
    assert_eq!(
        (&paid["attributes"]["traceparent"], &paid["traceparent"]),
        (&json!(trace), &json!(trace))
    );
    assert_eq!(paid["attributes"]["datacontenttype"], "application/json");
    assert_eq!(of("Picture")["attributes"]["datacontenttype"], "application/octet-stream");
    assert!(of("Picture")["body"].as_str().unwrap().starts_with("AAECAwQF"));
    assert_eq!(of("Said")["attributes"]["datacontenttype"], "text/plain");
}
