//! A route that demands a durable broker, and a real one that is not: `run` and `doctor` refuse it,
//! and it gets nothing from the moment when it is seen to be weaker.

use std::process::Command;
use std::time::{Duration, Instant};

use event::{Event, EventId};
use it::process::{Process, postbox};
use it::quay::Quay;
use it::quay::redis::{RedisQuay, own, own_with};
use it::raw;
use it::site::{Rules, Site};
use redis::cmd;
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(50);

const RULES: Rules = Rules {
    lease: "10s",
    timeout: "3s",
    outbox: "",
    route: "durability = \"durable\"",
    policy: "",
    admin: "listen = \"127.0.0.1:0\"\nsample = \"200ms\"",
};

#[tokio::test]
async fn a_redis_that_writes_every_second_is_refused_at_the_start_and_by_the_doctor() {
    let quay = own_with(&["--appendfsync", "everysec"]).await;
    let (site, topic) = (Site::new().await.unwrap(), format!("topic-{}", EventId::new()));
    let put = [Event::new(&*topic, "Paid", "{}")];
    site.outbox.put(&put, None).await.unwrap();
    let mut relay = site.relay_to("relay", &quay.lines(), "*", &RULES).unwrap();
    let ended = relay.ends(PATIENCE).await.unwrap();
    assert_eq!(ended.code(), Some(2), "{}", relay.log());
    let said = relay.log();
    assert!(said.contains("[sink.stock]: durability-too-low: a route demands durable"), "{said}");
    assert!(said.contains("best-effort") && said.contains("appendfsync"), "{said}");
    assert!(said.contains("postbox explain durability-too-low"), "{said}");
    assert_eq!(site.counts().await.unwrap().new, 1, "nothing was published");

    let (status, said) = doctor(&site);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("best-effort, and a route demands durable"), "{said}");
    assert!(said.contains("everysec: a power cut loses"), "{said}");

    fsync(&quay, "always").await;
    let (status, said) = doctor(&site);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("durable; a route demands durable"), "{said}");
    let _relay = site.relay_to("relay", &quay.lines(), "*", &RULES).unwrap();
    site.until("it is published", PATIENCE, |counts| counts.sent == 1).await.unwrap();
}

#[tokio::test]
async fn a_redis_that_becomes_weaker_gets_nothing_until_it_is_as_it_was() {
    let (quay, site) = (own().await, Site::new().await.unwrap());
    let topic = format!("topic-{}", EventId::new());
    let put = async || {
        let event = [Event::new(&*topic, "Paid", "{}")];
        site.outbox.put(&event, None).await.unwrap();
    };
    let mut relay = site.relay_to("relay", &quay.lines(), "*", &RULES).unwrap();
    put().await;
    site.until("it is published", PATIENCE, |counts| counts.sent == 1).await.unwrap();

    fsync(&quay, "everysec").await;
    // It is looked at every 15 s.
    until_worth(&mut relay, "0").await;
    put().await;
    relay.says("its destination is down", PATIENCE).await.unwrap();
    assert!(relay.log().contains("durability-too-low"), "{}", relay.log());
    site.until("it is put back", PATIENCE, |counts| counts.new == 1).await.unwrap();
    let spent: u32 = site.rows().await.unwrap().iter().map(|row| row.attempts).sum();
    assert_eq!(spent, 1, "the one that was published");

    fsync(&quay, "always").await;
    relay.says("lane runs again: its destination is back", PATIENCE).await.unwrap();
    let counts = site.until("all is published", PATIENCE, |counts| counts.sent == 2).await;
    assert_eq!(counts.unwrap().dead, 0);
    until_worth(&mut relay, "1").await;
}

async fn fsync(quay: &RedisQuay, how: &str) {
    let mut setting = cmd("CONFIG");
    setting.arg("SET").arg("appendfsync").arg(how);
    setting.query_async::<()>(&mut quay.client().await.unwrap()).await.unwrap();
}

/// Returns how the doctor ended, and what it said of the relay's config.
fn doctor(site: &Site) -> (Option<i32>, String) {
    let mut command = Command::new(postbox().unwrap());
    command.args(["doctor", "-c", "relay.toml"]).current_dir(site.file().parent().unwrap());
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8(done.stdout).unwrap())
}

/// Waits until the metrics show what receipts are worth.
async fn until_worth(relay: &mut Process, class: &str) {
    let console = relay.console(PATIENCE).await.unwrap();
    let (until, line) =
        (Instant::now() + PATIENCE, format!("postbox_sink_durability{{sink=\"stock\"}} {class}"));
    loop {
        let page = raw::get(console, "/metrics", "").unwrap().body;
        if page.lines().any(|shown| shown == line) {
            return;
        }
        assert!(Instant::now() < until, "{line}\nis not in\n{page}");
        sleep(LOOK).await;
    }
}
