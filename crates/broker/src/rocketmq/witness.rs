//! Whether a topic without a route is missing, or the brokers are away: a proxy says the same of
//! both.
//!
//! It is missing only if it never had a route here and somebody else has one now. Whatever cannot
//! be known counts as away, because that spends no attempts.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::refusal::{self, Absence};
use super::remoting::Silence;
use super::sink::RocketMq;
use super::{inspect, wire};

/// How long an answer stands for the next question. Many events of a topic ask at once.
const FRESH: Duration = Duration::from_secs(1);

/// How long name servers may take.
const NAMES: Duration = Duration::from_secs(1);

/// How long it may take in all.
const PATIENCE: Duration = Duration::from_secs(2);

/// Other topics that are asked for, at the most.
const MOST: usize = 16;

const ROUTE: i32 = 105;
const NO_ROUTE: i64 = 17;

/// What was found out a moment ago.
#[derive(Debug, Default)]
pub(super) struct Witness(Mutex<HashMap<String, (Instant, bool)>>);

/// Says why a topic has no route.
pub(super) async fn absence(sink: &RocketMq, topic: &str) -> Absence {
    if sink.common.topics.has_worked(topic) {
        return Absence::Lost;
    }
    let asked = sink.witness.is_missing(sink, topic);
    match timeout(PATIENCE.min(sink.common.timeout), asked).await {
        Ok(true) => Absence::Missing,
        Ok(false) | Err(_) => Absence::Dark,
    }
}

impl Witness {
    async fn is_missing(&self, sink: &RocketMq, topic: &str) -> bool {
        let mut known = self.0.lock().await;
        known.retain(|_, (at, _)| at.elapsed() < FRESH);
        if let Some((_, missing)) = known.get(topic) {
            return *missing;
        }
        let missing = match timeout(NAMES, by_names(sink, topic)).await {
            Ok(Some(missing)) => missing,
            Ok(None) | Err(_) => by_others(sink, topic).await,
        };
        known.insert(topic.to_owned(), (Instant::now(), missing));
        missing
    }
}

/// Asks the name servers; none may be known, or none may answer.
async fn by_names(sink: &RocketMq, topic: &str) -> Option<bool> {
    for address in &sink.common.names {
        match inspect::desk(&sink.common, address).ask(ROUTE, &[("topic", topic)], b"").await {
            // The proxy remembers for a while that there was none.
            Ok(_) => return Some(false),
            Err(Silence::Refused { code: NO_ROUTE, .. }) => {
                let masters = inspect::masters(&sink.common).await.ok()?;
                return Some(!masters.is_empty());
            }
            Err(_) => {}
        }
    }
    None
}

/// Asks the proxy for the routes of other topics.
async fn by_others(sink: &RocketMq, topic: &str) -> bool {
    for other in sink.common.topics.others(topic).into_iter().take(MOST) {
        let told = sink.route(&other).await;
        let status = told.ok().and_then(|wire::v2::QueryRouteResponse { status, .. }| status);
        if status.is_some_and(|status| status.code == refusal::OK) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::Refusal;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_util::task::AbortOnDropHandle;

    use super::super::remoting::{frame, read};
    use super::super::{Access, Options, Shape};
    use super::*;
    use crate::manner::{Manner, Naming};

    const MASTER: &str = r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:1"}}}}"#;
    const NOBODY: &str = r#"{"brokerAddrTable":{}}"#;

    /// A name server that knows these routes and these brokers.
    async fn names(routes: &'static str, brokers: &'static str) -> (String, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = vec![0; stream.read_u32().await.unwrap() as usize];
                stream.read_exact(&mut asked).await.unwrap();
                let (header, _) = read(&asked).unwrap();
                let knows = header["extFields"]["topic"].as_str() == Some(routes);
                let route = header["code"] == i64::from(ROUTE);
                let code = if route && !knows { NO_ROUTE } else { 0 };
                let told: Value = json!({ "code": code });
                let answer = frame(told.to_string().as_bytes(), brokers.as_bytes());
                stream.write_all(&answer).await.unwrap();
            }
        });
        (address, AbortOnDropHandle::new(serving))
    }

    fn sink(names: &str) -> Arc<RocketMq> {
        let url = format!("rocketmq://127.0.0.1:1{names}");
        let (topic, shape) = (Naming::default(), Shape::Fifo);
        let (access, manner) = (Access { url, keys: None }, Manner::new("orders"));
        Arc::new(RocketMq::new(Options { access, topic, shape, manner }).unwrap())
    }

    #[tokio::test]
    async fn a_topic_is_missing_only_if_brokers_are_there_and_none_of_them_has_it() {
        let cases = [
            ("nothing", MASTER, Absence::Missing),
            ("nothing", NOBODY, Absence::Dark),
            ("t", MASTER, Absence::Dark),
        ];
        for (routes, brokers, expected) in cases {
            let (address, _serving) = names(routes, brokers).await;
            let sink = sink(&format!("?nameserver={address}"));
            assert_eq!(absence(&sink, "t").await, expected, "{routes} {brokers}");
        }
    }

    #[tokio::test]
    async fn a_topic_that_has_worked_is_never_missing_while_the_process_lives() {
        let (address, _serving) = names("nothing", MASTER).await;
        let sink = sink(&format!("?nameserver={address}"));
        sink.common.topics.worked("t");
        let status = wire::v2::Status { code: 40402, message: "no route".to_owned() };
        let judged = sink.judge(&status, "t").await;
        assert!(matches!(judged, Refusal::Down(_)), "{judged:?}");
        let judged = sink.judge(&status, "other").await;
        assert!(matches!(judged, Refusal::Retry(..)), "{judged:?}");
    }

    #[tokio::test]
    async fn what_an_event_lacks_is_told() {
        for (code, what) in [(50002, "copies"), (50402, "copies"), (50401, "flushes")] {
            let sink = sink("");
            let status = wire::v2::Status { code, message: String::new() };
            let judged = sink.judge(&status, "t").await;
            assert!(matches!(judged, Refusal::Unknown(_)), "{judged:?}");
            let told = sink.common.unkept.findings().into_iter().map(|it| it.what);
            assert_eq!(told.collect::<Vec<_>>(), [what], "{code}");
        }
    }

    #[tokio::test]
    async fn where_nobody_tells_more_no_attempt_is_spent() {
        let sink = sink("");
        sink.common.topics.offered("t");
        let status =
            wire::v2::Status { code: 40014, message: "expected type is UNSPECIFIED".to_owned() };
        let judged = sink.judge(&status, "t").await;
        let Refusal::Down(cause) = judged else { panic!("{judged:?}") };
        assert!(cause.detail.contains("make the topic"), "{cause}");
    }
}
