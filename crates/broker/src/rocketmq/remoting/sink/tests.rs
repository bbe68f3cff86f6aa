//! What takes several brokers that answer as is rarely seen, or one that is old.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::super::super::Access;
use super::super::{Trust, frame, read};
use super::*;
use crate::manner::{Manner, Naming};
use crate::trust::Stream;
use crate::trust::tests::certified;

/// What a server says to a request: a code and a body, or nothing, and the connection breaks.
type Say = Box<dyn Fn(&Value) -> Option<(i64, String)> + Send + Sync>;

/// A name server or a broker that does as a test says.
struct Fake {
    address: String,
    /// The codes of what it was asked.
    asked: Arc<Mutex<Vec<i64>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Fake {
    async fn start(version: i64, tls: Option<TlsAcceptor>, say: Say) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let (asked, say) = (Arc::new(Mutex::new(Vec::new())), Arc::new(say));
        let noted = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (say, noted, tls) = (Arc::clone(&say), Arc::clone(&noted), tls.clone());
                tokio::spawn(async move {
                    let mut stream: Box<dyn Stream> = match tls {
                        None => Box::new(stream),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => Box::new(stream),
                            Err(_) => return,
                        },
                    };
                    while let Ok(length) = stream.read_u32().await {
                        let mut asked = vec![0; length as usize];
                        stream.read_exact(&mut asked).await.unwrap();
                        let (header, _) = read(&asked).unwrap();
                        noted.lock().unwrap().push(header["code"].as_i64().unwrap());
                        let Some((code, body)) = say(&header) else { return };
                        let told = json!({
                            "code": code, "opaque": header["opaque"], "flag": 1,
                            "version": version,
                        });
                        let told = frame(told.to_string().as_bytes(), body.as_bytes());
                        stream.write_all(&told).await.unwrap();
                    }
                });
            }
        });
        Fake { address, asked, _serving: AbortOnDropHandle::new(serving) }
    }

    /// A broker that takes everything, or breaks off.
    async fn broker(takes: bool) -> Fake {
        Fake::start(513, None, Box::new(move |_| takes.then(|| (0, String::new())))).await
    }

    /// A broker that answers everything that is published with a code.
    async fn broker_that_says(code: i64) -> Fake {
        let say = move |header: &Value| {
            let publishes = [310, 320].contains(&header["code"].as_i64().unwrap());
            Some((if publishes { code } else { 0 }, String::new()))
        };
        Fake::start(513, None, Box::new(say)).await
    }

    /// A name server that knows one topic on these brokers, two queues each.
    async fn names(brokers: &[&str]) -> Fake {
        const CLUSTER: i64 = 106;
        let (route, all) = (route(brokers), cluster(brokers));
        let say = move |header: &Value| {
            let all = (header["code"].as_i64() == Some(CLUSTER)).then(|| all.clone());
            Some((0, all.unwrap_or_else(|| route.clone())))
        };
        Fake::start(513, None, Box::new(say)).await
    }

    fn published(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|code| [310, 320].contains(*code)).count()
    }
}

fn route(brokers: &[&str]) -> String {
    let each = |row: fn(usize, &str) -> String| {
        let rows = brokers.iter().enumerate().map(|(at, address)| row(at, address));
        rows.collect::<Vec<_>>().join(",")
    };
    let places = each(|at, address| {
        format!(r#"{{"brokerAddrs":{{0:"{address}"}},"brokerName":"broker-{at}"}}"#)
    });
    let queues = each(|at, _| {
        format!(r#"{{"brokerName":"broker-{at}","perm":6,"readQueueNums":2,"writeQueueNums":2}}"#)
    });
    format!(r#"{{"brokerDatas":[{places}],"queueDatas":[{queues}]}}"#)
}

fn cluster(brokers: &[&str]) -> String {
    let row = |(at, address)| format!(r#""broker-{at}":{{"brokerAddrs":{{0:"{address}"}}}}"#);
    let rows: Vec<String> = brokers.iter().enumerate().map(row).collect();
    format!(r#"{{"brokerAddrTable":{{{}}}}}"#, rows.join(","))
}

fn sink(names: &str, shape: Shape) -> RocketMqRemoting {
    let url = format!("rocketmq+remoting://{names}");
    let manner = Manner { timeout: Duration::from_secs(20), ..Manner::new("orders") };
    let (access, topic) = (Access { url, keys: None }, Naming::default());
    RocketMqRemoting::new(Options { access, topic, shape, manner }).unwrap()
}

fn events(count: usize) -> Vec<Event> {
    (0..count).map(|n| Event::new("t", "T", "{}").key(format!("key-{n}"))).collect()
}

/// Holds an address without listening, so that nobody listens there.
fn nobody() -> (TcpSocket, String) {
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = held.local_addr().unwrap().to_string();
    (held, address)
}

#[tokio::test]
async fn without_order_the_next_attempt_goes_to_another_broker() {
    let (bad, good) = (Fake::broker(false).await, Fake::broker(true).await);
    let names = Fake::names(&[&bad.address, &good.address]).await;
    let sink = sink(&names.address, Shape::Normal);
    let first = sink.publish(&events(1)).await;
    assert!(matches!(first[..], [Err(Refusal::Unknown(_))]), "{first:?}");
    for _ in 0..8 {
        let next = sink.publish(&events(1)).await;
        assert!(next[0].is_ok(), "{next:?}");
    }
    assert_eq!((bad.published(), good.published()), (1, 8));
}

#[tokio::test]
async fn without_order_a_broker_that_is_not_there_is_passed_over() {
    let good = Fake::broker(true).await;
    let (_held, nobody) = nobody();
    let names = Fake::names(&[&nobody, &good.address]).await;
    let sink = sink(&names.address, Shape::Normal);
    for _ in 0..4 {
        let answers = sink.publish(&events(3)).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    assert_eq!(good.published(), 4, "events of a topic go together");
}

#[tokio::test]
async fn a_key_stays_with_its_broker_and_another_broker_goes_on() {
    let there = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&there);
    let say = move |_: &Value| seen.load(Ordering::Relaxed).then(|| (0, String::new()));
    let good = Fake::start(513, None, Box::new(say)).await;
    let (_held, nobody) = nobody();
    let names = Fake::names(&[&nobody, &good.address]).await;
    let sink = sink(&names.address, Shape::Fifo);
    let events = events(40);
    let answers = sink.publish(&events).await;
    let away = |answer: &Answer| match answer {
        Err(Refusal::Retry(cause, None)) => cause.code == Code::SinkDown,
        _ => false,
    };
    let gone: Vec<usize> = (0..40).filter(|place| away(&answers[*place])).collect();
    assert!((1..40).contains(&gone.len()), "both have keys: {answers:?}");
    assert!(answers.iter().all(|answer| answer.is_ok() || away(answer)), "{answers:?}");
    let again = sink.publish(&events).await;
    let still: Vec<usize> = (0..40).filter(|place| away(&again[*place])).collect();
    assert_eq!(gone, still);
    assert_eq!(sink.probe().await, Ok(()), "one of two is there");
    let lost: Vec<Event> = gone.iter().map(|place| events[*place].clone()).collect();
    let alone = sink.publish(&lost).await;
    assert!(alone.iter().all(away), "another is there, though nothing went to it: {alone:?}");
    there.store(false, Ordering::Relaxed);
    let down = sink.publish(&lost).await;
    assert!(down.iter().all(|it| matches!(it, Err(Refusal::Down(_)))), "nobody is: {down:?}");
}

#[tokio::test]
async fn of_a_key_whose_broker_is_away_only_the_first_event_is_tried_again() {
    let good = Fake::broker(true).await;
    let (_held, nobody) = nobody();
    let names = Fake::names(&[&nobody, &good.address]).await;
    let sink = sink(&names.address, Shape::Fifo);
    let twice: Vec<Event> = events(40).into_iter().flat_map(|it| [it.clone(), it]).collect();
    let answers = sink.publish(&twice).await;
    let right = |pair: &[Answer]| match pair {
        [Ok(_), Ok(_)] => true,
        [Err(Refusal::Retry(..)), second] => *second == Err(Refusal::Held),
        _ => false,
    };
    assert!(answers.chunks(2).all(right), "{answers:?}");
    assert!(answers.contains(&Err(Refusal::Held)) && answers.iter().any(Result::is_ok));
}

#[tokio::test]
async fn a_broker_that_is_full_rests_nobody_unless_it_is_the_only_one() {
    const FULL: i64 = 14;
    let (full, good) = (Fake::broker_that_says(FULL).await, Fake::broker(true).await);
    let names = Fake::names(&[&full.address, &good.address]).await;
    let several = sink(&names.address, Shape::Normal);
    let first = several.publish(&events(1)).await;
    let [Err(Refusal::Retry(cause, None))] = &first[..] else { panic!("{first:?}") };
    assert_eq!(cause.code, Code::BrokerFull);
    for _ in 0..4 {
        assert!(several.publish(&events(1)).await[0].is_ok(), "another is not full");
    }
    let names = Fake::names(&[&full.address]).await;
    let down = sink(&names.address, Shape::Normal).publish(&events(1)).await;
    assert!(matches!(&down[..], [Err(Refusal::Down(_))]), "{down:?}");
}

#[tokio::test]
async fn what_an_event_lacks_is_unknown_and_told() {
    for (code, what) in [
        (refusal::NO_SLAVE, "copies"),
        (refusal::SLOW_SLAVE, "copies"),
        (refusal::SLOW_DISK, "flushes"),
    ] {
        let broker = Fake::broker_that_says(code).await;
        let names = Fake::names(&[&broker.address]).await;
        let sink = sink(&names.address, Shape::Fifo);
        assert!(sink.common.unkept.findings().is_empty());
        let answers = sink.publish(&events(1)).await;
        let [Err(Refusal::Unknown(cause))] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(cause.code, Code::NotKept);
        let told = sink.common.unkept.findings().into_iter().map(|it| it.what);
        assert_eq!(told.collect::<Vec<_>>(), [what], "{code}");
    }
}

#[tokio::test]
async fn a_new_route_is_asked_for_after_a_failure() {
    let (bad, good) = (Fake::broker(false).await, Fake::broker(true).await);
    let (old, new) = (route(&[&bad.address]), route(&[&good.address]));
    let moved = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&moved);
    let names = Fake::start(
        513,
        None,
        Box::new(move |_| {
            let route = if seen.load(Ordering::Relaxed) { &new } else { &old };
            Some((0, route.clone()))
        }),
    );
    let names = names.await;
    let sink = sink(&names.address, Shape::Fifo);
    let first = sink.publish(&events(1)).await;
    assert!(matches!(first[..], [Err(Refusal::Unknown(_))]), "{first:?}");
    moved.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(20);
    while sink.publish(&events(1)).await[0].is_err() {
        assert!(Instant::now() < until, "the new route is not asked for");
    }
    assert!(good.published() > 0);
}

#[tokio::test]
async fn another_name_server_is_asked_when_one_is_away_and_a_route_outlives_both() {
    let good = Fake::broker(true).await;
    let names = Fake::names(&[&good.address]).await;
    let (_held, nobody) = nobody();
    let sink = sink(&format!("{nobody},{}", names.address), Shape::Fifo);
    assert!(sink.publish(&events(1)).await[0].is_ok());
    drop(names);
    sink.routes.doubt("t");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    assert!(sink.publish(&events(1)).await[0].is_ok());
    let other = sink.publish(&[Event::new("other", "T", "{}")]).await;
    let Err(Refusal::Down(cause)) = &other[0] else { panic!("{other:?}") };
    assert!(cause.detail.contains("name server"), "{cause}");
}

#[tokio::test]
async fn a_broker_that_knows_no_moment_gets_no_delayed_event() {
    for (version, takes) in [(411, false), (413, true)] {
        let broker = Fake::start(version, None, Box::new(|_| Some((0, String::new())))).await;
        let names = Fake::names(&[&broker.address]).await;
        let answers = sink(&names.address, Shape::Delay).publish(&events(2)).await;
        assert_eq!(answers.iter().all(Result::is_ok), takes, "{version}: {answers:?}");
        assert_eq!(broker.published(), if takes { 2 } else { 0 });
        if let Err(Refusal::Down(cause)) = &answers[0] {
            assert!(cause.code == Code::ConfigInvalid && cause.detail.contains("shape"), "{cause}");
        }
    }
}

#[tokio::test]
async fn of_a_key_another_topic_waits_for_the_first() {
    let broker = Fake::start(
        513,
        None,
        Box::new(|header| {
            let topic = header["extFields"]["b"].as_str();
            Some((if topic == Some("busy") { 2 } else { 0 }, String::new()))
        }),
    );
    let broker = broker.await;
    let names = Fake::names(&[&broker.address]).await;
    let event = |topic: &str, key: &str| Event::new(topic, "T", "{}").key(key);
    let events = [event("busy", "a"), event("free", "a"), event("free", "b"), event("busy", "a")];
    let answers = sink(&names.address, Shape::Fifo).publish(&events).await;
    assert!(matches!(answers[0], Err(Refusal::Retry(..))), "{answers:?}");
    assert_eq!((&answers[1], &answers[3]), (&Err(Refusal::Held), &Err(Refusal::Held)));
    assert!(answers[2].is_ok(), "{answers:?}");
}

fn trust(sink: &mut RocketMqRemoting, trust: Trust) {
    sink.common.trust = Some(trust);
    sink.brokers = Brokers::new(&sink.common);
}

#[tokio::test]
async fn with_tls_all_is_encrypted_and_a_certificate_that_nobody_trusts_is_down_and_told() {
    let (tls, ca) = certified();
    let tls = Some(tls);
    let broker = Fake::start(513, tls.clone(), Box::new(|_| Some((0, String::new())))).await;
    let route = route(&[&broker.address]);
    let names = Fake::start(513, tls, Box::new(move |_| Some((0, route.clone())))).await;
    let mut sink = sink(&names.address, Shape::Fifo);
    let plain = sink.publish(&events(1)).await;
    assert!(matches!(plain[..], [Err(Refusal::Down(_))]), "{plain:?}");
    trust(&mut sink, Trust::of([]));
    let strange = sink.publish(&events(1)).await;
    let Err(Refusal::Down(cause)) = &strange[0] else { panic!("{strange:?}") };
    assert!(cause.detail.contains("certificate"), "{cause}");
    trust(&mut sink, Trust::of([ca]));
    let answers = sink.publish(&events(1)).await;
    assert!(answers[0].is_ok(), "{answers:?}");
}

/// Takes connections and says nothing: with TLS, nobody is ever connected.
async fn hole() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    (listener, address)
}

/// A sink, two brokers that never connect, and behind them one that does.
async fn behind_holes(shape: Shape) -> (RocketMqRemoting, [Fake; 2], [TcpListener; 2], String) {
    let (tls, ca) = certified();
    let ((one, first), (two, second)) = (hole().await, hole().await);
    let good = Fake::start(513, Some(tls.clone()), Box::new(|_| Some((0, String::new())))).await;
    let route = route(&[&first, &second, &good.address]);
    let names = Fake::start(513, Some(tls), Box::new(move |_| Some((0, route.clone())))).await;
    let mut sink = sink(&names.address, shape);
    sink.common.timeout = Duration::from_secs(8);
    trust(&mut sink, Trust::of([ca]));
    (sink, [names, good], [one, two], first)
}

#[tokio::test]
async fn brokers_that_never_connect_leave_time_for_one_that_does() {
    for shape in [Shape::Normal, Shape::Delay] {
        let (sink, [_names, good], _holes, _) = behind_holes(shape).await;
        for count in 1..=3 {
            let answers = sink.publish(&events(1)).await;
            assert!(answers[0].is_ok(), "{shape:?}: {answers:?}");
            assert_eq!(good.published(), count);
        }
    }
}

#[tokio::test]
async fn where_no_time_is_left_nothing_is_offered() {
    let (sink, [_names, good], _holes, _) = behind_holes(Shape::Normal).await;
    let route = sink.routes.of(&sink.common, "t").await.unwrap();
    let reached = sink.brokers.reach_any(&route, Instant::now(), &Down::default()).await;
    assert!(matches!(reached, Err(Refusal::Down(_))));
    assert_eq!(good.published(), 0);
}

#[tokio::test]
async fn one_that_did_not_connect_a_moment_ago_is_not_waited_for_long() {
    let (sink, _fakes, _holes, hole) = behind_holes(Shape::Fifo).await;
    sink.brokers.leave(&hole, &refusal::down("as the test says"), &Down::default());
    let (began, down) = (Instant::now(), Down::default());
    let reached = sink.brokers.reach(&hole, Duration::from_secs(60), &down).await;
    assert!(matches!(reached, Err(Refusal::Down(_))));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_topic_that_is_closed_or_lost_does_not_speak_for_the_sink() {
    let broker = Fake::broker(true).await;
    let open = route(&[&broker.address]);
    let closed = open.replace(r#""perm":6"#, r#""perm":4"#);
    let lost = open.replace("brokerAddrs", "none");
    let all =
        format!(r#"{{"brokerAddrTable":{{"a":{{"brokerAddrs":{{0:"{}"}}}}}}}}"#, broker.address);
    let say = move |header: &Value| {
        let told = match header["extFields"]["topic"].as_str() {
            Some("closed") => &closed,
            Some("lost") => &lost,
            Some(_) => &open,
            None => &all,
        };
        Some((0, told.clone()))
    };
    let names = Fake::start(513, None, Box::new(say)).await;
    for (topics, there) in
        [(&["closed", "lost", "t"][..], true), (&["closed"], true), (&["closed", "lost"], false)]
    {
        let sink = sink(&names.address, Shape::Fifo);
        topics.iter().for_each(|topic| sink.common.topics.worked(topic));
        let probed = sink.probe().await;
        assert_eq!(probed.is_ok(), there, "{topics:?}: {probed:?}");
    }
}

#[tokio::test]
async fn a_look_sees_past_a_broker_that_is_silent_and_what_it_saw_is_forgotten_with_the_next() {
    let (_hole, silent) = hole().await;
    let broker = Fake::start(
        513,
        None,
        Box::new(|header| {
            Some((
                0,
                match header["code"].as_i64() {
                    Some(26) => "flushDiskType=SYNC_FLUSH".to_owned(),
                    Some(28) => r#"{"table":{"commitLogDiskRatio":"0.9"}}"#.to_owned(),
                    _ => String::new(),
                },
            ))
        }),
    );
    let broker = broker.await;
    let address = &broker.address;
    let all = format!(
        r#"{{"brokerAddrTable":{{"a":{{"brokerAddrs":{{0:"{silent}"}}}},
            "b":{{"brokerAddrs":{{0:"{address}"}}}}}}}}"#
    );
    let names = Fake::start(513, None, Box::new(move |_| Some((0, all.clone())))).await;
    let sink = sink(&names.address, Shape::Fifo);
    let usual = sink.common.gate.width();
    let seen = timeout(Duration::from_secs(10), sink.inspect()).await;
    let seen = seen.expect("who looks waits for 10 s").unwrap();
    assert_eq!(Inspection::total(&seen.levels, event::Gauge::Disk), Some(0.9));
    assert_eq!(sink.common.gate.width(), 1, "it is full");
    drop((names, broker));
    assert!(sink.inspect().await.is_err());
    assert_eq!(sink.common.gate.width(), usual, "nobody says so any more");
}
