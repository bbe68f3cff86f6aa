//! NATS' own client in Python, and the official CloudEvents SDK, read what we publish.

use std::process::Command;

use broker::manner::Manner;
use event::{Event, Millis, Payload};
use it::quay::Quay;
use it::quay::nats::{shared, stream_of};
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
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/nats/read.py");
    let mut python = Command::new(need("nats").detail("python"));
    python.arg(script).arg(&quay.url).arg(stream_of(&topic)).arg(&topic).arg("2");
    let done = tokio::task::spawn_blocking(move || python.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).unwrap();
    let read: Vec<Value> = printed.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    for event in &events {
        let id = event.id.to_string();
        let seen = read.iter().find(|seen| seen["attributes"]["id"] == id).unwrap();
        let said = &seen["attributes"];
        assert_eq!((&said["specversion"], &said["source"]), (&json!("1.0"), &json!("orders")));
        assert_eq!((&said["type"], &said["topic"]), (&json!(event.kind), &json!(topic)));
        assert_eq!((&said["messagekey"], &seen["message_id"]), (&json!(id), &json!(id)));
        let moment = said["time"].as_str().unwrap();
        assert_eq!(Millis::parse(moment), Some(event.created), "{moment}");
    }
    let (paid, picture) = (&read[0], &read[1]);
    assert_eq!(paid["data"], json!({"total": 42, "who": "Grüße"}));
    for name in ["subject", "partitionkey", "bizkey"] {
        assert_eq!(paid["attributes"][name], "ключ €");
    }
    assert_eq!(paid["attributes"]["schemaversion"], "3");
    assert_eq!(paid["attributes"]["datacontenttype"], "application/json");
    assert_eq!((&paid["traceparent"], &paid["subject"]), (&json!(trace), &json!(topic)));
    assert_eq!(picture["attributes"]["datacontenttype"], "application/octet-stream");
    assert!(picture["body"].as_str().unwrap().starts_with("AAECAwQF"));
}
