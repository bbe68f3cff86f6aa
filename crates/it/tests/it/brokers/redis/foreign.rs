//! Redis' own client in Python, and the official CloudEvents SDK, read what we publish.

use std::process::Command;

use broker::manner::Manner;
use event::{Event, Millis, Payload};
use it::quay::Quay;
use it::quay::redis::shared;
use it::world::need;
use serde_json::{Value, json};

#[tokio::test]
async fn a_reader_in_python_understands_what_we_publish() {
    let quay = shared().await;
    let topic = quay.topic("python").await.unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let paid = Event::new(&*topic, "OrderPaid", r#"{"total": 42, "who": "Grüße"}"#)
        .key("ключ €")
        .header("schema_version", "3")
        .header("traceparent", trace);
    let mut picture = Event::new(&*topic, "Picture", "");
    picture.payload = Payload::Bytes((0..=255).collect::<Vec<u8>>().into());
    let events = [paid, picture];
    let sink = quay.sink(Manner::new("orders")).await.unwrap();
    for event in &events {
        // One after another: without a key there is no order to keep.
        assert!(sink.publish(std::slice::from_ref(event)).await[0].is_ok());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/redis/read.py");
    let mut python = Command::new(need("redis").detail("python"));
    python.arg(script).arg(&quay.url).arg(&topic).arg("2");
    let done = tokio::task::spawn_blocking(move || python.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).unwrap();
    let read: Vec<Value> = printed.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    for (event, seen) in events.iter().zip(&read) {
        let (id, said) = (event.id.to_string(), &seen["attributes"]);
        assert_eq!((&said["specversion"], &said["source"]), (&json!("1.0"), &json!("orders")));
        assert_eq!((&said["id"], &said["messagekey"]), (&json!(id), &json!(id)));
        assert_eq!((&said["type"], &said["topic"]), (&json!(event.kind), &json!(topic)));
        let moment = said["time"].as_str().unwrap();
        assert_eq!(Millis::parse(moment), Some(event.created), "{moment}");
    }
    let (paid, picture) = (&read[0]["attributes"], &read[1]);
    for name in ["subject", "partitionkey", "bizkey"] {
        assert_eq!(paid[name], "ключ €");
    }
    assert_eq!((&paid["schemaversion"], &paid["traceparent"]), (&json!("3"), &json!(trace)));
    assert_eq!(paid["datacontenttype"], "application/json");
    assert_eq!(picture["attributes"]["datacontenttype"], "application/octet-stream");
    assert!(picture["body"].as_str().unwrap().starts_with("AAECAwQF"));
}
