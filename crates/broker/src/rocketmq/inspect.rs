//! What a receipt is worth, what settings risk and how full it is, as the brokers tell it.
//!
//! A proxy tells nothing of this. The url may name a name server; it knows the brokers, and they
//! tell by the old protocol. What cannot be known counts as the least.

use std::collections::BTreeSet;
use std::time::Duration;

use event::{Durability, Finding, Gauge, Grade, Inspection, Refusal};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::Shape;
use super::common::Common;
use super::levels;
use super::remoting::{Desk, Silence, mended};
use super::worth::{self, FLUSH_TIMEOUT};

const CLUSTER: i32 = 106;
const CONFIG: i32 = 26;
const TOPICS: i32 = 206;

/// How the names of topics begin that RocketMQ keeps its own things in.
const OWN: &str = "rmq_sys_";

/// How full a disk is when a broker takes nothing any more, by its usual settings.
const REFUSED: f64 = 0.9;

/// How long a name server or a broker may take to tell one thing: who looks waits for 10 s.
const TELL: Duration = Duration::from_secs(3);

/// Looks at everything that can be known of a sink that answers a probe.
pub(super) async fn inspect(
    sink: &Common,
    probed: Result<(), Refusal>,
) -> Result<Inspection, Refusal> {
    probed.inspect_err(|_| sink.gate.press(None))?;
    let (mut seen, desks) = judged(sink).await;
    levels::disk(&desks, &mut seen).await;
    if !sink.names.is_empty() {
        let full = Inspection::total(&seen.levels, Gauge::Disk);
        sink.gate.press(full.map(|full| full / REFUSED));
    }
    if !desks.is_empty() {
        let (topics, all) = topics(sink, &mut seen).await;
        levels::groups(&desks, topics, &all, &sink.rounds, &mut seen).await;
    }
    Ok(seen)
}

/// Looks at the settings only.
pub(super) async fn worth(
    sink: &Common,
    probed: Result<(), Refusal>,
) -> Result<Inspection, Refusal> {
    probed?;
    Ok(judged(sink).await.0)
}

/// Judges the settings; returns the brokers that tell, too.
async fn judged(sink: &Common) -> (Inspection, Vec<Desk>) {
    let findings = sink.unkept.findings();
    let mut seen = Inspection { findings, ..Inspection::of(Durability::BestEffort) };
    if sink.names.is_empty() {
        seen.findings.push(Finding::new(
            Grade::Warn,
            "flush and replication",
            "a proxy does not tell the settings of its brokers, so a receipt counts as \
             best-effort: write the name server into the url, ?nameserver=HOST:9876",
        ));
        patience(sink, FLUSH_TIMEOUT, &mut seen);
        return (seen, Vec::new());
    }
    let desks = match masters(sink).await {
        Ok(masters) => of_brokers(sink, &masters, &mut seen).await,
        Err(silence) => {
            let detail = format!("no name server of the url tells the brokers: {silence}");
            seen.findings.push(Finding::new(Grade::Warn, "name server", detail));
            Vec::new()
        }
    };
    (seen, desks)
}

async fn of_brokers(sink: &Common, masters: &[Master], seen: &mut Inspection) -> Vec<Desk> {
    let mut class = None;
    let mut desks = Vec::new();
    let asking = masters.iter().map(|master| async {
        let desk = desk(sink, &master.address);
        let told = desk.ask(CONFIG, &[], b"").await.map(|body| worth::settings(&body));
        (desk, told)
    });
    for (master, (desk, told)) in masters.iter().zip(join_all(asking).await) {
        let found = match told {
            Ok(settings) => {
                let (found, findings) = worth::judge(&master.name, master.copies, &settings);
                seen.findings.extend(findings);
                patience(sink, worth::flush_timeout(&settings), seen);
                desks.push(desk);
                found
            }
            Err(silence) => {
                let name = &master.name;
                let detail = format!("the broker {name} does not tell its settings: {silence}");
                seen.findings.push(Finding::new(Grade::Warn, "flush and replication", detail));
                Durability::BestEffort
            }
        };
        // The weakest broker may get the next event.
        class = Some(class.map_or(found, |least: Durability| least.min(found)));
    }
    seen.durability = class.unwrap_or(Durability::BestEffort);
    desks
}

/// Returns the topics that events go to, and all that there are; says which of them are missing.
async fn topics(sink: &Common, seen: &mut Inspection) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut topics: BTreeSet<String> = sink.topics.all().into_iter().collect();
    let all = match names(sink, TOPICS).await {
        Ok(body) => read_topics(&body),
        Err(silence) => {
            let detail = format!("no name server of the url tells the topics: {silence}");
            seen.findings.push(Finding::new(Grade::Warn, "name server", detail));
            topics.extend(sink.leads.exact());
            return (topics, BTreeSet::new());
        }
    };
    for topic in sink.leads.exact() {
        if !all.contains(&topic) {
            seen.findings.push(absent(&topic, sink.letters.shape, &sink.names));
        }
    }
    let own = |name: &&String| !name.starts_with('%') && !name.to_lowercase().starts_with(OWN);
    let led = all.iter().filter(own).filter(|name| sink.leads.has(name));
    topics.extend(led.cloned());
    (topics, all)
}

/// Says how a topic is made that is not there.
fn absent(topic: &str, shape: Shape, names: &[String]) -> Finding {
    let detail = format!(
        "it is not there, and its events back off until it is made: mqadmin updateTopic -n '{}' -c \
         CLUSTER -t {topic} -a +message.type={}",
        names.join(";"),
        kind(shape)
    );
    Finding::new(Grade::Warn, format!("topic {topic}"), detail)
}

/// Returns how RocketMQ calls a shape of topics.
fn kind(shape: Shape) -> &'static str {
    match shape {
        Shape::Fifo => "FIFO",
        Shape::Normal => "NORMAL",
        Shape::Delay => "DELAY",
    }
}

fn read_topics(body: &[u8]) -> BTreeSet<String> {
    let table: Value = serde_json::from_slice(body).unwrap_or_default();
    let names = table["topicList"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn patience(sink: &Common, flush: u128, seen: &mut Inspection) {
    let own = sink.timeout.as_millis();
    if own <= flush {
        let detail = format!(
            "{own} ms, and the broker waits {flush} ms for its disk or its slave before it says \
             that it was slow: set the sink's timeout higher"
        );
        seen.findings.push(Finding::new(Grade::Warn, "timeout", detail));
    }
}

/// A broker that takes events.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Master {
    name: String,
    /// `HOST:PORT`.
    pub(super) address: String,
    /// How many brokers are of its name: it, and its slaves.
    copies: i64,
}

/// Asks the name servers for the masters.
pub(super) async fn masters(sink: &Common) -> Result<Vec<Master>, Silence> {
    let body = names(sink, CLUSTER).await?;
    Ok(read_masters(&String::from_utf8_lossy(&body)))
}

/// Asks the name servers for one thing, side by side until one tells.
async fn names(sink: &Common, what: i32) -> Result<Vec<u8>, Silence> {
    let mut last = Silence::Unreached("none is named".to_owned());
    let desks = sink.names.iter().map(|address| desk(sink, address));
    let asked = desks.map(|desk| async move { desk.ask(what, &[], b"").await });
    let mut asked: FuturesUnordered<_> = asked.collect();
    while let Some(told) = asked.next().await {
        match told {
            Ok(body) => return Ok(body),
            Err(silence) => last = silence,
        }
    }
    Err(last)
}

fn read_masters(body: &str) -> Vec<Master> {
    let table: Value = serde_json::from_str(&mended(body)).unwrap_or_default();
    let brokers = table["brokerAddrTable"].as_object().into_iter().flatten();
    let master = |(name, broker): (&String, &Value)| {
        let all = broker["brokerAddrs"].as_object()?;
        let address = all.get("0")?.as_str()?.to_owned();
        let copies = i64::try_from(all.len()).unwrap_or(i64::MAX);
        Some(Master { name: name.clone(), address, copies })
    };
    brokers.filter_map(master).collect()
}

pub(super) fn desk(sink: &Common, address: &str) -> Desk {
    let (keys, trust) = (sink.keys.clone(), sink.trust.clone());
    Desk { address: address.to_owned(), keys, trust, patience: sink.timeout.min(TELL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_are_read_from_what_a_name_server_tells() {
        let told = r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:1",1:"127.0.0.1:2"},
            "brokerName":"a"},"slave":{"brokerAddrs":{1:"127.0.0.1:3"}}}}"#;
        let (name, address) = ("a".to_owned(), "127.0.0.1:1".to_owned());
        assert_eq!(read_masters(told), [Master { name, address, copies: 2 }]);
        assert!(read_masters("nonsense").is_empty());
    }

    #[test]
    fn a_topic_that_is_not_there_is_told_with_how_to_make_it() {
        let names = ["names-1:9876", "names-2:9876"].map(str::to_owned);
        let found = absent("order_paid", Shape::Fifo, &names);
        let command = "mqadmin updateTopic -n 'names-1:9876;names-2:9876' -c CLUSTER -t order_paid";
        assert!(found.detail.contains(command) && found.detail.ends_with("FIFO"), "{found:?}");
    }

    #[test]
    fn topics_are_read_from_what_a_name_server_tells() {
        let told = br#"{"brokerAddr":null,"topicList":["a","%RETRY%g"]}"#;
        assert_eq!(read_topics(told), ["%RETRY%g", "a"].map(str::to_owned).into());
        assert!(read_topics(b"nonsense").is_empty());
    }
}
