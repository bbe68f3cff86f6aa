//! Redis' own client in Python, and the official CloudEvents SDK, read what we publish.

use it::quay::Quay;
use it::quay::redis::shared;
use it::suite::python::{TRACE, reads};

#[tokio::test]
async fn a_reader_in_python_understands_what_we_publish() {
    let quay = shared().await;
    let topic = quay.topic("python").await.unwrap();
    let [paid, _] = reads(&quay, "redis", &topic, &[&quay.url, &topic]).await;
    assert_eq!(paid["attributes"]["traceparent"], TRACE);
}
