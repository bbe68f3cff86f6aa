//! What a cluster of three keeps is worth as much as the majority of it that has it: one of three
//! may be away, and without two of three nothing is called done. By the relay, on real clusters.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use broker::manner::Subscription;
use event::{Code, Durability, Event, EventId, Inspection, Sink, Status};
use it::process::Process;
use it::site::{Rules, Site};
use it::three::{FOLLOWS, LEADS, Three, nats, rabbitmq};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(200);

const GROUP: &str = "stock";
const PART: usize = 100;
const KEYS: usize = 10;

/// Nothing is published to what is worth less.
const RULES: Rules = Rules {
    lease: "60s",
    timeout: "5s",
    outbox: "",
    route: "durability = \"replicated\"",
    policy: "backoff = \"200ms\"\nbackoff_cap = \"1s\"",
    admin: "off = true",
};

/// A stream without a leader takes nothing, and the lane rests.
#[tokio::test]
async fn of_nats_decides_and_the_lane_rests_without_it() {
    let three = nats().unwrap();
    let rests = |log: &str, _: &[Code]| {
        let rests = log.lines().filter(|line| line.contains("its destination is down"));
        rests.filter(|line| line.contains("stream")).count()
    };
    decides(three, "offline or behind", rests).await;
}

/// A queue without its majority confirms nothing, so nobody knows whether it will have it.
#[tokio::test]
async fn of_rabbitmq_decides_and_nothing_is_known_without_it() {
    let three = rabbitmq().await.unwrap();
    let late =
        |_: &str, codes: &[Code]| codes.iter().filter(|it| **it == Code::SinkTimeout).count();
    decides(three, "it does not run", late).await;
}

/// Puts events while one of three is away, and then two; `told` counts what tells of the latter in
/// the log of the relay and in the newest causes of what waits.
async fn decides(mut three: impl Three, away: &str, told: fn(&str, &[Code]) -> usize) {
    let topic = three.topic(GROUP).await.unwrap();
    let sink = three.sink().await.unwrap();
    let seen = until(&*sink, |seen| seen.durability == Durability::Replicated).await;
    assert!(!says(&seen, away), "{seen:?}");
    let (site, mut events) = (Site::new().await.unwrap(), Vec::new());
    let relay = site.relay_to("relay", &three.lines(), "*", &RULES).unwrap();
    put(&site, &topic, &mut events).await;
    sent(&site, &relay, PART).await;

    three.kill(LEADS).await.unwrap();
    put(&site, &topic, &mut events).await;
    sent(&site, &relay, 2 * PART).await;
    let seen = until(&*sink, |seen| says(seen, away)).await;
    assert_eq!(seen.durability, Durability::Replicated, "{seen:?}");

    three.kill(FOLLOWS).await.unwrap();
    let before = told(&relay.log(), &[]);
    put(&site, &topic, &mut events).await;
    let began = Instant::now();
    while told(&relay.log(), &newest(&site).await) == before {
        assert!(began.elapsed() < PATIENCE, "{}", relay.log());
        sleep(LOOK).await;
    }
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.sent, counts.dead), (2 * PART as u64, 0), "{}", relay.log());

    three.revive(LEADS).await.unwrap();
    three.revive(FOLLOWS).await.unwrap();
    sent(&site, &relay, 3 * PART).await;
    assert_eq!(come(&three, &topic).await, by_key(&events));
}

fn says(seen: &Inspection, word: &str) -> bool {
    seen.findings.iter().any(|it| it.detail.contains(word))
}

/// Looks until it is seen. Whoever looks may be the last to notice who is away.
async fn until(sink: &dyn Sink, is: impl Fn(&Inspection) -> bool) -> Inspection {
    let began = Instant::now();
    loop {
        let seen = sink.inspect().await;
        match seen {
            Ok(seen) if is(&seen) => return seen,
            seen => assert!(began.elapsed() < PATIENCE, "{seen:?}"),
        }
        sleep(LOOK).await;
    }
}

async fn put(site: &Site, topic: &str, events: &mut Vec<Event>) {
    let event = |n| Event::new(topic, "Counted", "{}").key(format!("k{}", n % KEYS));
    let more: Vec<Event> = (0..PART).map(event).collect();
    site.outbox.put(&more, None).await.unwrap();
    events.extend(more);
}

async fn sent(site: &Site, relay: &Process, count: usize) {
    let sent = site.until("all are sent", PATIENCE, |counts| counts.sent == count as u64);
    let counts = sent.await.unwrap_or_else(|error| panic!("{error}\n{}", relay.log()));
    assert_eq!(counts.dead, 0, "{}", relay.log());
}

async fn newest(site: &Site) -> Vec<Code> {
    let rows = site.rows().await.unwrap();
    let waiting = rows.iter().filter(|row| row.status != Status::Sent);
    waiting.filter_map(|row| Some(row.last_error()?.code)).collect()
}

type Lines = HashMap<String, Vec<EventId>>;

/// Takes in what was published, each event once, in the order in which it first came.
async fn come(three: &dyn Three, topic: &str) -> Lines {
    let feed = three.feed(Subscription::new(GROUP, &[topic])).await.unwrap();
    let (began, mut come) = (Instant::now(), Vec::<Event>::new());
    while come.len() < 3 * PART {
        assert!(began.elapsed() < PATIENCE, "{} have come", come.len());
        let Ok(Some(delivery)) = feed.next(LOOK).await else {
            sleep(LOOK).await;
            continue;
        };
        // What could not be ended comes again.
        let _ = feed.ack(delivery.handle).await;
        let event = delivery.event.unwrap();
        if come.iter().all(|known| known.id != event.id) {
            come.push(event);
        }
    }
    feed.close().await;
    by_key(&come)
}

fn by_key(events: &[Event]) -> Lines {
    let mut lines = Lines::new();
    for event in events {
        lines.entry(event.key.clone().expect("a key")).or_default().push(event.id);
    }
    lines
}
