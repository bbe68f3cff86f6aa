//! A broker that is down costs time and nothing else: its lane rests and knocks now and then, no
//! event loses an attempt, and when it is back each is offered once. By the relay, on real brokers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use broker::manner::Subscription;
use event::{Counts, Event, EventId};
use it::quay::{Quay, http, kafka, nats, rabbitmq, redis, rocketmq, rocketmq_4, rocketmq_remoting};
use it::raw;
use it::site::{Rules, Site};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(200);

const GROUP: &str = "stock";
const EVENTS: u64 = 200;
const KEYS: u64 = 20;

/// How many events are offered at once: one turn is taken at a time.
const BATCH: u64 = 20;

/// Whoever spends the one attempt of an event ends it.
const RULES: Rules = Rules {
    lease: "60s",
    timeout: "5s",
    outbox: "batch = 20\nturns = 1",
    route: "",
    policy: "attempts = 1",
    admin: "listen = \"127.0.0.1:0\"",
};

/// How often a lane that rests for 0.2 s must knock, and how soon it may not have done so: a probe
/// may open several connections, and sinks have a client of their own for looks.
const KNOCKS: usize = 20;
const TOO_SOON: Duration = Duration::from_secs(1);

#[tokio::test]
async fn of_rocketmq_costs_only_time() {
    costs_only_time(&rocketmq::own().await).await;
}

#[tokio::test]
async fn of_rocketmq_without_a_proxy_costs_only_time() {
    costs_only_time(&rocketmq_remoting::own().await).await;
}

#[tokio::test]
async fn of_rocketmq_4_costs_only_time() {
    costs_only_time(&rocketmq_4::own().await).await;
}

#[tokio::test]
async fn of_kafka_costs_only_time() {
    costs_only_time(&kafka::own().await).await;
}

#[tokio::test]
async fn of_rabbitmq_costs_only_time() {
    costs_only_time(&rabbitmq::own().await).await;
}

#[tokio::test]
async fn of_nats_costs_only_time() {
    costs_only_time(&nats::own().await).await;
}

#[tokio::test]
async fn of_redis_costs_only_time() {
    costs_only_time(&redis::own().await).await;
}

#[tokio::test]
async fn of_http_costs_only_time() {
    costs_only_time(&http::binary().await).await;
}

async fn costs_only_time(quay: &dyn Quay) {
    let topic = quay.topic(GROUP).await.unwrap();
    quay.kill().await.unwrap();
    let event = |n| Event::new(&*topic, "Counted", "{}").key(format!("k{}", n % KEYS));
    let events: Vec<Event> = (0..EVENTS).map(event).collect();
    let site = Site::new().await.unwrap();
    site.outbox.put(&events, None).await.unwrap();
    let mut relay = site.relay_to("relay", &quay.lines(), "*", &RULES).unwrap();
    let console = relay.console(PATIENCE).await.unwrap();
    relay.says("its destination is down", PATIENCE).await.unwrap();

    // Over plain HTTP, whoever hangs up may have taken an event, and so is not away.
    if quay.traits().keeps {
        let took = knocks(quay.address().unwrap(), KNOCKS).await;
        assert!(took > TOO_SOON, "{KNOCKS} times within {took:?}\n{}", relay.log());
    }
    site.until("all is put back", PATIENCE, |counts| counts.new == EVENTS).await.unwrap();
    let rows = site.rows().await.unwrap();
    let spent: u32 = rows.iter().map(|row| row.attempts).sum();
    assert_eq!(spent, 0, "an outage spent attempts");
    assert_eq!(offered(console), BATCH, "events were offered while the lane rested");

    let back = async {
        quay.revive().await.unwrap();
        let over = |counts: &Counts| counts.sent + counts.dead == EVENTS;
        site.until("all is over", PATIENCE, over).await
    };
    // One that keeps nothing has nobody to give it to, unless they wait for it.
    let (ended, come) = match quay.traits().keeps {
        true => (back.await, come(quay, &topic).await),
        false => {
            let (come, ended) = tokio::join!(come(quay, &topic), back);
            (ended, come)
        }
    };
    let counts = ended.unwrap_or_else(|error| panic!("{error}\n{}", relay.log()));
    assert_eq!(counts.dead, 0, "{}", relay.log());
    let rows = site.rows().await.unwrap();
    assert!(rows.iter().all(|row| row.attempts == 1), "{rows:?}");
    // One that answers a knock may not be ready yet: then one batch was offered before each rest.
    let rests = relay.log().matches("its destination is down").count() as u64;
    let offered = offered(console);
    assert!(offered <= EVENTS + BATCH * rests, "{offered} in {rests} rests\n{}", relay.log());
    assert_eq!(by_key(&come), by_key(&events));
}

/// Stands where a broker was, and hangs up on whoever comes. Returns how long it took from the
/// first until so many had come.
async fn knocks(at: SocketAddr, count: usize) -> Duration {
    let place = TcpListener::bind(at).await.unwrap();
    let knock = async || {
        timeout(PATIENCE, place.accept()).await.expect("somebody knocks").unwrap();
        Instant::now()
    };
    let (first, mut last) = (knock().await, None);
    for _ in 1..count {
        last = Some(knock().await);
    }
    last.expect("more than one").duration_since(first)
}

/// Asks a relay how many events it has claimed so far, each for one offer.
fn offered(console: SocketAddr) -> u64 {
    let page = raw::get(console, "/metrics", "").unwrap().body;
    let line = page.lines().find(|line| line.starts_with("postbox_claimed_total{"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{page}"))
}

/// Takes in what was published, each event once.
async fn come(quay: &dyn Quay, topic: &str) -> Vec<Event> {
    let feed = quay.feed(Subscription::new(GROUP, &[topic])).await.unwrap();
    let (until, mut come) = (Instant::now() + PATIENCE, Vec::<Event>::new());
    while come.len() < EVENTS as usize {
        assert!(Instant::now() < until, "{} of {EVENTS} have come", come.len());
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
    come
}

fn by_key(events: &[Event]) -> HashMap<&str, Vec<EventId>> {
    let mut lines = HashMap::<&str, Vec<EventId>>::new();
    for event in events {
        lines.entry(event.key.as_deref().expect("a key")).or_default().push(event.id);
    }
    lines
}
