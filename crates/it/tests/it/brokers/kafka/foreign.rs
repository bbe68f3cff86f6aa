//! A consumer in Java, with Kafka's own client and the CloudEvents SDK, reads our events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use broker::kafka::Kafka;
use broker::manner::Manner;
use event::{Event, Sequence, Sink};
use it::quay::kafka::shared;
use it::world::need;
use serde_json::Value;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn a_consumer_in_java_reads_our_events_and_finds_each_key_in_its_own_partition() {
    let quay = shared().await;
    let topic = quay.make(7, &[]).await.unwrap();
    let manner = Manner { timeout: Duration::from_secs(30), ..Manner::new("orders") };
    let sink = Kafka::new(quay.options(quay.access(), manner)).unwrap();
    let one = |n: usize| {
        let event = Event::new(&*topic, "OrderPaid", format!("{{\"n\":{n},\"note\":\"€\"}}"));
        let event = event.header("traceparent", TRACE).header("schema_version", "3");
        let event = Event { sequence: Sequence::of(n as i64), ..event };
        match n % 5 {
            0 => event,
            key => event.key(format!("ключ-{key} 100%")),
        }
    };
    let events: Vec<Event> = (0..60).map(one).collect();
    let answers = sink.publish(&events).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let bootstrap = quay.url.trim_start_matches("kafka://").to_owned();
    let read = tokio::task::spawn_blocking(move || read(&bootstrap, &topic, 60)).await.unwrap();
    let found: HashMap<&str, &BTreeMap<String, String>> =
        read.iter().map(|line| (line["id"].as_str(), line)).collect();
    assert_eq!(found.len(), events.len());
    let mut places = BTreeSet::new();
    for event in &events {
        let line = found[event.id.to_string().as_str()];
        let get = |name: &str| line.get(name).map(String::as_str);
        assert_eq!(get("data").map(str::as_bytes), Some(event.payload.as_bytes()));
        assert_eq!((get("type"), get("source")), (Some("OrderPaid"), Some("orders")));
        assert_eq!(
            (get("topic"), get("datacontenttype")),
            (Some(&*event.topic), Some("application/json"))
        );
        for name in ["key", "subject", "partitionkey", "bizkey"] {
            assert_eq!(get(name), event.key.as_deref(), "{name}");
        }
        assert_eq!(get("partition-of-java"), event.key.as_ref().and(get("partition")));
        assert_eq!((get("traceparent"), get("header-traceparent")), (Some(TRACE), Some(TRACE)));
        let stood = event.sequence.map(|sequence| sequence.to_string());
        assert_eq!(get("sequence"), stood.as_deref());
        assert_eq!((get("schemaversion"), get("messagekey")), (Some("3"), get("id")));
        places.insert(get("partition"));
    }
    assert!(places.len() > 1, "{places:?}");
}

/// Runs the reader; returns its lines.
fn read(bootstrap: &str, topic: &str, count: usize) -> Vec<BTreeMap<String, String>> {
    let server = need("kafka");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/kafka/Reader.java");
    let mut reader = Command::new(server.detail("java"));
    reader.args(["-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", server.detail("reader")]);
    reader.arg(source).args([bootstrap, topic, &count.to_string()]);
    let done = reader.env("POSTBOX_RUN", &server.run).output().expect("java starts");
    let (told, said) = (String::from_utf8_lossy(&done.stderr), String::from_utf8(done.stdout));
    assert!(done.status.success(), "{told}");
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("a line of JSON");
        let text =
            |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap().to_owned());
        value.as_object().expect("an object").iter().map(text).collect()
    };
    said.expect("UTF-8").lines().map(line).collect()
}
