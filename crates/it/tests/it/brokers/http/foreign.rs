//! A receiver in Python, with the official packages of CloudEvents and of Standard Webhooks,
//! understands what we post.

use std::path::Path;

use broker::http::{Http, Mode, Options};
use event::{Code, Secret};
use it::answer::{cause, paid, publish};
use it::suite::python::{TRACE, offered, understood};
use it::world::{Address, need};
use reqwest::{Client, StatusCode};
use rustls::crypto::ring;
use serde_json::{Value, json};

fn sink(receiver: &Address, mode: Mode, secrets: &[&str]) -> Http {
    let options = Options {
        mode,
        secrets: secrets.iter().copied().map(Secret::new).collect(),
        allow_private: true,
        ..Options::new(receiver.detail("url"), "orders")
    };
    Http::new(options).unwrap()
}

/// A secret that the receiver does not know.
const STRANGER: &str = "whsec_YS1zdHJhbmdlci1pcy1ub2JvZHktd2Uta25vdw==";

/// Returns what the receiver took in under an id.
async fn taken(receiver: &Address, id: &str) -> Option<Value> {
    // Fails only if a provider is installed already, which then is the one to use.
    let _ = ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let url = format!("{}{id}", receiver.detail("url"));
    let answer = client.get(url).send().await.unwrap();
    match answer.status() {
        StatusCode::NOT_FOUND => None,
        _ => Some(serde_json::from_str(&answer.text().await.unwrap()).unwrap()),
    }
}

/// Posts a text and bytes; returns what the receiver saw of them.
async fn seen(mode: Mode) -> [Value; 2] {
    let receiver = need("http");
    // The second is the one that will be once it was changed.
    let sink = sink(&receiver, mode, &[receiver.detail("secret"), STRANGER]);
    let events = offered(&sink, "order.paid").await;
    let mut read = Vec::new();
    for event in &events {
        read.extend(taken(&receiver, &event.id.to_string()).await);
    }
    let [paid, picture] = understood(&events, &read);
    for seen in [&paid, &picture] {
        assert_eq!(seen["idempotency_key"], seen["attributes"]["id"]);
    }
    assert_eq!(paid["data"], json!({"total": 42, "who": "Grüße"}));
    assert_eq!((&paid["traceparent"], &paid["package"]), (&json!(TRACE), &json!("genuine")));
    [paid, picture]
}

#[tokio::test]
async fn a_receiver_in_python_understands_the_binary_layout() {
    let [paid, picture] = seen(Mode::Binary).await;
    assert_eq!(paid["type"], "application/json");
    assert_eq!(picture["package"], "no text", "the guide says what to do");
}

#[tokio::test]
async fn a_receiver_in_python_understands_the_structured_layout() {
    let [paid, picture] = seen(Mode::Structured).await;
    assert_eq!(paid["type"], "application/cloudevents+json");
    assert_eq!(picture["package"], "genuine");
}

#[tokio::test]
async fn a_receiver_in_python_takes_nothing_that_a_stranger_or_nobody_signed() {
    let receiver = need("http");
    for mode in [Mode::Binary, Mode::Structured] {
        for secrets in [&[STRANGER][..], &[]] {
            let event = paid("order.paid");
            let (is, cause) = cause(publish(&sink(&receiver, mode, secrets), &event).await);
            assert_eq!((is, cause.code), ("down", Code::AuthRefused), "{cause}");
            assert_eq!(taken(&receiver, &event.id.to_string()).await, None);
        }
    }
}

#[test]
fn what_the_guide_shows_in_python_is_what_was_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (guide, run) = (read("../../docs/guides/http.md"), read("foreign/http/receive.py"));
    let shown: Vec<&str> = guide.split("```python\n").skip(1).collect();
    assert!(!shown.is_empty());
    for block in shown {
        let (block, _) = block.split_once("```").expect("a block ends");
        assert!(run.contains(block), "{block}");
    }
}
