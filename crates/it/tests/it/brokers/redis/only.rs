//! What only Redis Streams have.

use std::time::{Duration, Instant};

use broker::manner::{Manner, Subscription};
use broker::redis::{RedisFeed, dead_stream};
use event::{Cause, Code, Durability, Event, Feed, Gauge, Grade, Inspection, Nack, Secret, Topics};
use it::answer::{cause, paid, publish};
use it::line::Line;
use it::quay::Quay;
use it::quay::redis::{RedisQuay, own_with, shared};
use redis::{FromRedisValue, Value};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{sleep, timeout};

async fn ask<T: FromRedisValue>(quay: &RedisQuay, words: &[&str]) -> T {
    let mut asking = redis::Cmd::new();
    words.iter().for_each(|word| {
        asking.arg(word);
    });
    asking.query_async(&mut quay.client().await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_server_that_is_full_is_down_and_goes_on_when_there_is_room() {
    let quay = own_with(&["--maxmemory", "1kb"]).await;
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let event = paid("orders");
    let (is, cause) = cause(publish(&*sink, &event).await);
    assert_eq!((is, cause.code), ("down", Code::BrokerFull), "{cause}");
    let _: Value = ask(&quay, &["CONFIG", "SET", "maxmemory", "0"]).await;
    publish(&*sink, &event).await.unwrap();
}

#[tokio::test]
async fn a_replica_and_a_server_without_replicas_are_down() {
    let quay = own_with(&["--min-replicas-to-write", "1"]).await;
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let (is, why) = cause(publish(&*sink, &paid("orders")).await);
    assert_eq!((is, why.code), ("down", Code::NotKept), "{why}");
    let _: Value = ask(&quay, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let (is, why) = cause(publish(&*sink, &paid("orders")).await);
    assert_eq!((is, why.code), ("down", Code::SinkDown), "{why}");
    let seen = sink.inspect().await.unwrap();
    assert!(says(&seen, Grade::Bad, "replica"), "{seen:?}");
}

#[tokio::test]
async fn what_is_larger_than_the_server_takes_is_rejected_before_it_is_written() {
    let quay = own_with(&["--proto-max-bulk-len", "1mb"]).await;
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let large = Event::new("orders", "Large", "x".repeat((1 << 20) + 1));
    let answers = sink.publish(&[paid("orders"), large, paid("orders")]).await;
    let (is, cause) = cause(answers[1].clone());
    assert_eq!((is, cause.code), ("reject", Code::TooLarge));
    assert!(cause.detail.contains("1048577 bytes; the limit is 1048576"), "{cause}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
}

#[tokio::test]
async fn a_key_that_is_no_stream_refuses_its_own_events_only() {
    let quay = shared().await;
    let (taken, free) = (quay.topic("g").await.unwrap(), quay.topic("g").await.unwrap());
    let _: Value = ask(&quay, &["SET", &taken, "no stream"]).await;
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let events = [Event::new(&*taken, "T", "{}"), Event::new(&*free, "T", "{}")];
    let answers = sink.publish(&events).await;
    let (is, cause) = cause(answers[0].clone());
    assert_eq!((is, cause.code), ("retry", Code::SinkRefused), "{cause}");
    assert!(cause.detail.contains(&taken) && answers[1].is_ok(), "{cause} {answers:?}");
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let quay = shared().await;
    let (name, stream) = (quay.topic("g").await.unwrap(), quay.topic("g").await.unwrap());
    let rule = ["ACL", "SETUSER", &name, "on", ">narrow-of-redis", "~other*", "+@all"];
    let _: Value = ask(&quay, &rule).await;
    let address = quay.url.rsplit_once('@').unwrap().1;
    let url = event::Secret::new(format!("redis://{name}:narrow-of-redis@{address}"));
    let topic = broker::manner::Naming::default();
    let options = broker::redis::Options { url, topic, manner: Manner::new("it") };
    let sink = broker::redis::Redis::new(options).unwrap();
    let (is, cause) = cause(publish(&sink, &paid(&stream)).await);
    assert_eq!((is, cause.code), ("retry", Code::AuthRefused), "{cause}");
    assert!(!cause.detail.contains("narrow-of-redis"), "{cause}");
    publish(&sink, &paid("other")).await.unwrap();
    let _: Value = ask(&quay, &["ACL", "DELUSER", &name]).await;
}

fn says(seen: &Inspection, grade: Grade, word: &str) -> bool {
    seen.findings.iter().any(|it| it.grade == grade && it.detail.contains(word))
}

#[tokio::test]
async fn a_class_is_what_the_settings_keep() {
    let quay = own_with(&[]).await;
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let seen = sink.inspect().await.unwrap();
    assert_eq!((seen.durability, seen.findings.len()), (Durability::Durable, 0), "{seen:?}");
    assert!(seen.levels.iter().any(|level| level.gauge == Gauge::Disk), "{seen:?}");
    let settings = [
        (["appendfsync", "everysec"], "everysec"),
        (["appendfsync", "no"], "power cut"),
        (["appendonly", "no"], "restart"),
    ];
    for ([name, value], word) in settings {
        let _: Value = ask(&quay, &["CONFIG", "SET", name, value]).await;
        let seen = sink.inspect().await.unwrap();
        assert_eq!(seen.durability, Durability::BestEffort, "{name} {value}");
        assert!(says(&seen, Grade::Warn, word), "{seen:?}");
    }
    for words in [["maxmemory", "100mb"], ["maxmemory-policy", "allkeys-lru"]] {
        let _: Value = ask(&quay, &["CONFIG", "SET", words[0], words[1]]).await;
    }
    let seen = sink.inspect().await.unwrap();
    assert!(says(&seen, Grade::Warn, "noeviction"), "{seen:?}");
}

/// All sinks of a server share its gate, so one look narrows it for all.
#[tokio::test]
async fn a_server_that_is_nearly_full_gets_fewer_at_once_before_it_refuses() {
    let quay = own_with(&["--maxmemory", "1gb"]).await;
    let manner = Manner { concurrency: 4, ..Manner::new("it") };
    let gates = manner.gates.clone();
    let sink = quay.sink(manner).await.unwrap();
    let address = quay.url.rsplit_once('@').unwrap().1;
    let host = format!("redis://{}", address.split('/').next().unwrap());
    let width = async || {
        sink.inspect().await.unwrap();
        gates.of(&host, 4).width()
    };
    assert_eq!(width().await, 4);
    let told: String = ask(&quay, &["INFO", "memory"]).await;
    let used = told.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let used: u64 = used.trim().parse().unwrap();
    // Little more than it has, and far from refusing.
    let most = (used + used / 8).to_string();
    let _: Value = ask(&quay, &["CONFIG", "SET", "maxmemory", &most]).await;
    assert!(width().await < 4);
    publish(&*sink, &paid("orders")).await.unwrap();
    let _: Value = ask(&quay, &["CONFIG", "SET", "maxmemory", "1gb"]).await;
    assert_eq!(width().await, 4);
}

/// A server has no list of its streams: keys of other kinds, and names that are no text, are passed
/// over.
#[tokio::test]
async fn streams_that_routes_lead_to_are_found_among_many_keys() {
    let quay = own_with(&[]).await;
    let mut many = redis::pipe();
    for n in 0..5000 {
        many.set(format!("order.{n}"), "no stream").ignore();
    }
    let add = |many: &mut redis::Pipeline, name: &[u8]| {
        many.cmd("XADD").arg(name).arg("*").arg("a").arg("b").ignore();
    };
    for n in 0..300 {
        add(&mut many, format!("order.s{n}").as_bytes());
        many.cmd("XGROUP").arg("CREATE").arg(format!("order.s{n}")).arg("stock").arg("0").ignore();
    }
    add(&mut many, b"order.\xff");
    add(&mut many, b"bill");
    add(&mut many, b"order.s7.dead");
    let _: () = many.query_async(&mut quay.client().await.unwrap()).await.unwrap();
    let route = |text: &str, mine| (text.parse().unwrap(), mine);
    let topics = vec![Topics::of(vec![route("order.s8", false), route("order.*", true)])];
    let sink = quay.sink(Manner { topics, ..Manner::new("it") }).await.unwrap();
    let seen = sink.inspect().await.unwrap();
    let of = |gauge| Inspection::total(&seen.levels, gauge);
    // One of them goes elsewhere, and beyond 64 they count, too.
    assert_eq!((of(Gauge::Lag), of(Gauge::Dead)), (Some(299.0), Some(1.0)), "{:?}", seen.findings);
    assert!(seen.levels.iter().all(|it| it.topic != "order.s8" && it.topic != "bill"));
}

#[tokio::test]
async fn lag_and_the_dead_are_told_and_nothing_is_trimmed() {
    let quay = shared().await;
    let topic = quay.topic("stock").await.unwrap();
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    for _ in 0..3 {
        publish(&*sink, &paid(&topic)).await.unwrap();
    }
    let feed = quay.feed(Subscription::new("stock", &[&topic])).await.unwrap();
    let first = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
    let why = Cause::new(Code::BadEvent, "as the test says");
    feed.nack(first.handle, Nack::Dead(why)).await.unwrap();
    let seen = sink.inspect().await.unwrap();
    let level = |gauge| seen.levels.iter().find(|level| level.gauge == gauge);
    let lag = level(Gauge::Lag).unwrap();
    assert_eq!((lag.group.as_str(), lag.value), ("stock", 2.0), "{seen:?}");
    let dead = level(Gauge::Dead).unwrap();
    assert_eq!((dead.topic.as_str(), dead.value), (&*dead_stream(&topic), 1.0), "{seen:?}");
    let kept: u64 = ask(&quay, &["XLEN", &topic]).await;
    assert_eq!(kept, 3, "what was ended stays in the stream");
    let reply: Vec<(String, Vec<String>)> =
        ask(&quay, &["XRANGE", &dead_stream(&topic), "-", "+"]).await;
    let told = reply[0].1.chunks(2).find(|field| field[0] == "dead_detail").unwrap();
    assert_eq!(told[1], "as the test says");
}

/// A follower waits for one that comes again, in one feed, however long after a lease that is.
#[tokio::test]
async fn one_feed_keeps_a_key_in_order_over_a_nack_that_is_longer_than_a_lease() {
    let quay = shared().await;
    let topic = quay.topic("again").await.unwrap();
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let events = [paid(&topic), paid(&topic)];
    for event in &events {
        publish(&*sink, event).await.unwrap();
    }
    let brief =
        Subscription { lease: Duration::from_millis(500), ..Subscription::new("again", &[&topic]) };
    let feed = quay.feed(brief).await.unwrap();
    let first = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
    let (after, began) = (Duration::from_secs(2), Instant::now());
    feed.nack(first.handle, Nack::Again(after)).await.unwrap();
    for (event, attempt) in events.iter().zip([2, 1]) {
        let next = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
        assert_eq!((next.event.as_ref(), next.attempt), (Ok(event), attempt));
        assert!(began.elapsed() > after * 3 / 4, "too soon: {:?}", began.elapsed());
        feed.ack(next.handle).await.unwrap();
    }
}

/// Who leaves is forgotten by the group; who leaves something behind is not.
#[tokio::test]
async fn a_consumer_goes_from_its_group_when_nothing_is_left() {
    let quay = shared().await;
    let topic = quay.topic("leave").await.unwrap();
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    publish(&*sink, &paid(&topic)).await.unwrap();
    for (end, left) in [(false, 1), (true, 1)] {
        let feed = quay.feed(Subscription::new("leave", &[&topic])).await.unwrap();
        let come = feed.next(Duration::from_secs(20)).await.unwrap().unwrap();
        if end {
            feed.ack(come.handle).await.unwrap();
        }
        feed.close().await;
        let known: Vec<Value> = ask(&quay, &["XINFO", "CONSUMERS", &topic, "leave"]).await;
        assert_eq!(known.len(), left, "the first has left something behind");
    }
}

/// The server sees a few of those that are pending at a time, and others may hold all of these.
#[tokio::test]
async fn what_was_let_go_comes_from_behind_many_that_others_hold() {
    let quay = shared().await;
    let topic = quay.topic("behind").await.unwrap();
    let mut many = redis::pipe();
    for _ in 0..500 {
        many.cmd("XADD").arg(&topic).arg("*").arg("a").arg("b").ignore();
    }
    let _: () = many.query_async(&mut quay.client().await.unwrap()).await.unwrap();
    let _: Value = ask(&quay, &["XGROUP", "CREATE", &topic, "behind", "0"]).await;
    let read = async |consumer: &str| {
        let words = ["XREADGROUP", "GROUP", "behind", consumer, "STREAMS", &topic, ">"];
        let _: Value = ask(&quay, &words).await;
    };
    read("holds").await;
    let (sink, event) = (quay.sink(Manner::new("it")).await.unwrap(), paid(&topic));
    publish(&*sink, &event).await.unwrap();
    read("gone").await;
    let gone: Vec<(String, String, u64, u64)> =
        ask(&quay, &["XPENDING", &topic, "behind", "-", "+", "9", "gone"]).await;
    let idle = ["XCLAIM", &topic, "behind", "gone", "0", &gone[0].0, "IDLE", "900000", "JUSTID"];
    let _: Value = ask(&quay, &idle).await;
    let lease = Duration::from_secs(600);
    let narrow = Subscription { most: 1, lease, ..Subscription::new("behind", &[&topic]) };
    let feed = quay.feed(narrow).await.unwrap();
    let come = feed.next(Duration::from_secs(20)).await.unwrap();
    let come = come.expect("somebody has let it go");
    assert_eq!((come.event.as_ref(), come.attempt), (Ok(&event), 2));
    feed.ack(come.handle).await.unwrap();
}

/// An answer that is cut off had the first of a key. The server takes it for handed out.
#[tokio::test]
async fn what_an_answer_had_that_never_came_goes_before_its_followers() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let quay = shared().await;
    let topic = quay.topic("lost").await.unwrap();
    let sink = quay.sink(Manner::new("it")).await.unwrap();
    let line = Line::open(quay.address().unwrap()).await.unwrap();
    let port = |of: std::net::SocketAddr| format!(":{}", of.port());
    let url = quay.url.replace(&port(quay.address().unwrap()), &port(line.address()));
    let long = Subscription { lease: 20 * PATIENCE, ..Subscription::new("lost", &[&topic]) };
    let feed = RedisFeed::new(&Secret::new(url), long).unwrap();
    let (came, mut next) = unbounded_channel();
    tokio::spawn(async move {
        loop {
            // What goes wrong with the line is told here, and passes.
            let Ok(Some(come)) = feed.next(PATIENCE).await else { continue };
            came.send(come.event.unwrap().id).unwrap();
            while feed.ack(come.handle).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let mut come = async || timeout(PATIENCE, next.recv()).await.unwrap().unwrap();
    let first = paid(&topic);
    publish(&*sink, &first).await.unwrap();
    assert_eq!(come().await, first.id);
    let is_out = async || {
        let told: Vec<Value> = ask(&quay, &["XPENDING", &topic, "lost"]).await;
        told[0] != Value::Int(0)
    };
    for _ in 0..100 {
        let (lost, follower) = (paid(&topic), paid(&topic));
        line.hold_answers(true);
        publish(&*sink, &lost).await.unwrap();
        let until = Instant::now() + Duration::from_secs(1);
        while !is_out().await && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
        if !is_out().await {
            // The feed had no question out at that moment.
            line.hold_answers(false);
            assert_eq!(come().await, lost.id);
            continue;
        }
        publish(&*sink, &follower).await.unwrap();
        line.cut();
        line.hold_answers(false);
        assert_eq!([come().await, come().await], [lost.id, follower.id]);
        return;
    }
    panic!("no answer was ever lost");
}
