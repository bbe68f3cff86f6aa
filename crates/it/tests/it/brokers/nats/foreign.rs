//! NATS' own client in Python, and the official CloudEvents SDK, read what we publish.

use it::quay::Quay;
use it::quay::nats::{shared, stream_of};
use it::suite::python::{TRACE, reads};
use serde_json::json;

#[tokio::test]
async fn a_reader_in_python_understands_what_we_publish() {
    let quay = shared().await;
    let topic = quay.topic("python").await.unwrap();
    let from = [&quay.url, &*stream_of(&topic), &topic];
    let [paid, picture] = reads(&quay, "nats", &topic, &from).await;
    for seen in [&paid, &picture] {
        assert_eq!(seen["message_id"], seen["attributes"]["id"]);
    }
    assert_eq!(paid["data"], json!({"total": 42, "who": "Grüße"}));
    assert_eq!((&paid["traceparent"], &paid["subject"]), (&json!(TRACE), &json!(topic)));
}
