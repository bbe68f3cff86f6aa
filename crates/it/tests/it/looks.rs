//! The commands `status` and `doctor` and the metrics of `run`, each of a fresh process that has
//! published nothing, see what real brokers have: the topics that routes lead to, how far a group
//! is, what it has given up.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::{Manner, Subscription};
use event::{Cause, Code, Delivery, Event, EventId, Feed, Gauge, Nack};
use it::process::{Process, postbox};
use it::quay::{Quay, kafka, nats, rabbitmq, redis, rocketmq, rocketmq_4, rocketmq_remoting};
use it::raw;
use it::site::Site;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);
/// How far two looks at how full a broker is may differ: others use it between them.
const NEAR: f64 = 0.02;

#[tokio::test]
async fn of_rocketmq() {
    let quay = rocketmq::shared().await;
    see(&quay, "is not there", Some(0.0)).await;
}

#[tokio::test]
async fn of_rocketmq_without_a_proxy() {
    let quay = rocketmq_remoting::shared().await;
    see(&quay, "is not there", Some(0.0)).await;
}

#[tokio::test]
async fn of_rocketmq_4() {
    let quay = rocketmq_4::shared().await;
    see(&quay, "is not there", Some(0.0)).await;
}

#[tokio::test]
async fn of_kafka() {
    let quay = kafka::shared().await;
    see(&quay, "is not there", None).await;
}

#[tokio::test]
async fn of_rabbitmq() {
    let quay = rabbitmq::shared().await;
    see(&quay, "one member", None).await;
}

#[tokio::test]
async fn of_nats() {
    let quay = nats::shared().await;
    see(&quay, "no stream takes", Some(1.0)).await;
}

#[tokio::test]
async fn of_redis() {
    let quay = redis::shared().await;
    see(&quay, "is not there yet", None).await;
}

/// What a new topic would get here is less than the route demands; what the topic has is enough.
#[tokio::test]
async fn a_demand_is_judged_by_the_topics_that_are_there() {
    let quay = kafka::shared().await;
    let topic = quay.make_durable().await.unwrap();
    let routes = [format!("{}*", &topic[..topic.len() - 1])];
    let place = Place::new(&quay.lines(), &routes, "durability = \"durable\"").await;
    let said = place.run(&["doctor"]);
    assert!(said.contains("durable; a route demands durable"), "{said}");
}

/// Publishes five events, of which one is given up, one taken in and one given back and handed out
/// again, and looks. One route names the topic by a pattern, another a topic that is not there, of
/// which the doctor says `missing`. Of a group in order, RocketMQ counts nothing as given back.
async fn see(quay: &dyn Quay, missing: &str, retry: Option<f64>) {
    let group = format!("group-{}", EventId::new());
    let topic = quay.topic(&group).await.unwrap();
    let events = [(); 5].map(|()| Event::new(&*topic, "Counted", "{}").key("k"));
    let publisher = quay.sink(Manner::new("it")).await.unwrap();
    assert!(publisher.publish(&events).await.iter().all(Result::is_ok));
    let subscription = Subscription { most: 1, ..Subscription::new(&*group, &[&*topic]) };
    let feed = quay.feed(subscription).await.unwrap();
    let why = Cause::new(Code::BadEvent, "as the test says");
    feed.nack(next(&feed).await.handle, Nack::Dead(why)).await.unwrap();
    feed.ack(next(&feed).await.handle).await.unwrap();
    feed.nack(next(&feed).await.handle, Nack::Again(Duration::ZERO)).await.unwrap();
    next(&feed).await;
    feed.close().await;

    let start = &topic[..topic.len() - 1];
    let routes = [format!("{start}*"), format!("nobody-made-{topic}")];
    let place = Place::new(&quay.lines(), &routes, "").await;
    let until = Instant::now() + PATIENCE;
    // What a broker counts is told a moment later.
    let levels = loop {
        let told: Value = serde_json::from_str(&place.run(&["status", "--json"])).unwrap();
        let levels = told["sinks"][0]["levels"].as_array().cloned().unwrap_or_default();
        let of = |gauge: &str| sum(&levels, gauge);
        if (of("lag"), of("dead"), of("retry")) == (Some(3.0), Some(1.0), retry) {
            break levels;
        }
        assert!(Instant::now() < until, "{told}");
        sleep(LOOK).await;
    };
    let gauges: BTreeSet<&str> = levels.iter().filter_map(|it| it["gauge"].as_str()).collect();
    assert!(gauges.into_iter().eq(names(quay.traits().levels)), "{levels:?}");
    let named = |level: &Value| level["topic"].as_str().is_some_and(|name| name.contains(&*topic));
    assert!(levels.iter().any(|level| level["gauge"] == "lag" && named(level)), "{levels:?}");
    let table = place.run(&["status"]);
    let row = table.lines().find(|line| line.starts_with("there")).expect("a row of the sink");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[3], cells[5]), ("3", "1"), "{table}");
    let said = place.run(&["doctor"]);
    let line = |what: &str| said.lines().find(|line| line.contains(what)).unwrap_or_default();
    let lag = line("sink there: lag");
    assert!(lag.contains("3 not taken in yet") && lag.contains(&*topic), "{said}");
    assert!(line("sink there: dead").contains("1 given up"), "{said}");
    assert!(said.contains(missing), "{said}");
    on_metrics(&place, &levels).await;
}

/// Returns the names of gauges, sorted.
fn names(gauges: &[Gauge]) -> BTreeSet<&'static str> {
    gauges.iter().map(|gauge| gauge.as_str()).collect()
}

/// Waits until the metrics of a relay show all of these levels.
async fn on_metrics(place: &Place, levels: &[Value]) {
    let mut relay = place.start();
    let console = relay.console(PATIENCE).await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let page = raw::get(console, "/metrics", "").unwrap().body;
        let missing: Vec<&Value> = levels.iter().filter(|level| !shows(&page, level)).collect();
        if missing.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{missing:?} are not on\n{page}");
        sleep(LOOK).await;
    }
}

/// Tells whether a page of metrics has a level with its value.
fn shows(page: &str, level: &Value) -> bool {
    let [gauge, topic, group] = ["gauge", "topic", "group"].map(|name| level[name].as_str());
    let [gauge, topic, group] = [gauge, topic, group].map(|text| text.expect("a text"));
    let of = format!("{{sink=\"there\",topic=\"{topic}\",group=\"{group}\"}} ");
    let of = format!("postbox_broker_{gauge}{of}");
    let shown = page.lines().find_map(|line| line.strip_prefix(&of));
    let shown: Option<f64> = shown.and_then(|value| value.parse().ok());
    let near = if gauge == "disk" { NEAR } else { 0.0 };
    let value = level["value"].as_f64().expect("a value");
    shown.is_some_and(|shown| (shown - value).abs() <= near)
}

async fn next(feed: &Arc<dyn Feed>) -> Delivery {
    let asking = async {
        loop {
            if let Ok(Some(delivery)) = feed.next(LOOK).await {
                return delivery;
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("an event comes")
}

fn sum(levels: &[Value], gauge: &str) -> Option<f64> {
    let of = levels.iter().filter(|level| level["gauge"] == gauge);
    of.map(|level| level["value"].as_f64().expect("a value")).reduce(|one, other| one + other)
}

/// A config, and where it is.
struct Place {
    folder: TempDir,
    _site: Site,
}

impl Place {
    /// Writes a config with these topics, and a further line for each of their routes.
    async fn new(sink: &str, topics: &[String], line: &str) -> Place {
        let (folder, site) = (tempfile::tempdir().unwrap(), Site::new().await.unwrap());
        let file = site.file();
        let mut text = format!(
            "[outbox.orders]\nurl = \"sqlite:{}\"\n[sink.there]\n{sink}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\nsample = \"200ms\"\n",
            file.display()
        );
        for topic in topics {
            text += &format!("[[route]]\ntopic = \"{topic}\"\nsink = \"there\"\n{line}\n");
        }
        std::fs::write(folder.path().join("postbox.toml"), text).unwrap();
        Place { folder, _site: site }
    }

    fn start(&self) -> Process {
        Process::start(self.folder.path(), "relay", &["run", "-c", "postbox.toml"]).unwrap()
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(postbox().unwrap());
        command.args(args).args(["-c", "postbox.toml"]).current_dir(self.folder.path());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}
