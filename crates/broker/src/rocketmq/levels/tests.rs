//! What is told of groups when a broker is silent or slow.

use std::time::Duration;

use event::Durability;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::super::remoting::{frame, read};
use super::*;

const STATS: &str = r#"{"offsetTable":{{"queueId":0}:{"brokerOffset":7,"consumerOffset":5}}}"#;

/// What a broker says of a topic to a request; `None`, and it never answers.
type Say = fn(i64, &str) -> Option<(i64, String)>;

async fn broker(say: Say) -> (Desk, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = vec![0; stream.read_u32().await.unwrap() as usize];
                stream.read_exact(&mut asked).await.unwrap();
                let (header, _) = read(&asked).unwrap();
                let topic = header["extFields"]["topic"].as_str().unwrap_or_default();
                let Some((code, body)) = say(header["code"].as_i64().unwrap(), topic) else {
                    return std::future::pending().await;
                };
                let told = json!({ "code": code }).to_string();
                stream.write_all(&frame(told.as_bytes(), body.as_bytes())).await.unwrap();
            });
        }
    });
    let patience = Duration::from_secs(60);
    let desk = Desk { address, keys: None, trust: None, patience };
    (desk, AbortOnDropHandle::new(serving))
}

fn group() -> Option<(i64, String)> {
    Some((0, r#"{"groupList":["g"]}"#.to_owned()))
}

fn well(code: i64, topic: &str) -> Option<(i64, String)> {
    match (i32::try_from(code).unwrap(), topic) {
        (GROUPS, _) => group(),
        (CONSUME_STATS, _) => Some((0, STATS.to_owned())),
        _ => Some((NO_TOPIC, String::new())),
    }
}

/// Says which groups it has, and is silent about how far one of them is with `b`.
fn broken(code: i64, topic: &str) -> Option<(i64, String)> {
    match (i32::try_from(code).unwrap(), topic) {
        (CONSUME_STATS, "b") => Some((1, "broken".to_owned())),
        _ => well(code, topic),
    }
}

fn stuck(code: i64, topic: &str) -> Option<(i64, String)> {
    match (i32::try_from(code).unwrap(), topic) {
        (CONSUME_STATS, "b") => None,
        _ => well(code, topic),
    }
}

async fn look(says: &[Say]) -> Inspection {
    let brokers = join_all(says.iter().map(|say| broker(*say))).await;
    let (desks, _serving): (Vec<_>, Vec<_>) = brokers.into_iter().unzip();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let all: BTreeSet<String> = names(&["a", "b", "%DLQ%g"]);
    let mut seen = Inspection::of(Durability::Durable);
    groups(&desks, names(&["a", "b"]), &all, &Rounds::default(), &mut seen).await;
    seen
}

fn lags(seen: &Inspection) -> Vec<(&str, f64)> {
    let lags = seen.levels.iter().filter(|it| it.gauge == Gauge::Lag);
    lags.map(|it| (it.topic.as_str(), it.value)).collect()
}

#[tokio::test]
async fn a_part_is_never_told_for_the_whole() {
    let seen = look(&[well, well]).await;
    assert_eq!(lags(&seen), [("a", 4.0), ("b", 4.0)]);
    let dead = Inspection::total(&seen.levels, Gauge::Dead);
    assert_eq!(dead, Some(0.0), "where a broker does not have the topic, nothing is in it");
    assert_eq!(lags(&look(&[well, broken]).await), [("a", 4.0)]);
}

#[tokio::test]
async fn a_topic_that_takes_too_long_takes_nothing_from_the_others() {
    let seen = look(&[well, stuck]).await;
    assert_eq!(lags(&seen), [("a", 4.0)]);
    let told = &seen.findings[0].detail;
    assert!(told.contains("too long") && told.ends_with(": b"), "{told}");
}
