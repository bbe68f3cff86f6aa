//! Order per key, keys side by side, an answer at each event's place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use event::{Code, Event, Sink};
use hyper::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::server::{Reply, Seen, Server, status, with};
use super::{event, kind, options, sink};
use crate::gate::Gates;
use crate::http::client::Whole;
use crate::http::{Http, Options};

/// Answers with the status that the event type names.
fn by_type(seen: &Seen) -> Reply {
    status(seen.header("ce-type").parse().unwrap())
}

fn wanting(status: u16, key: &str) -> Event {
    Event::new("t", status.to_string(), "{}").key(key)
}

#[tokio::test]
async fn each_event_of_a_batch_has_its_own_answer() {
    let server = Server::start(by_type).await;
    let events = [wanting(200, "a"), wanting(400, "b"), wanting(503, "c"), wanting(500, "d")];
    let answers = sink(&server).publish(&events).await;
    let kinds: Vec<_> = answers.iter().map(kind).collect();
    let expected = [
        ("receipt", None),
        ("reject", Some(Code::SinkRefused)),
        ("unknown", Some(Code::SinkBusy)),
        ("unknown", Some(Code::SinkBroken)),
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn events_of_a_key_arrive_in_order_and_are_held_after_the_first_refusal() {
    let server = Server::start(by_type).await;
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..20 {
        events.extend(["a", "b", "c"].map(|key| wanting(200, key)));
    }
    events.extend([wanting(500, "b"), wanting(400, "c")]);
    events.extend(["a", "b", "c", "b"].map(|key| wanting(200, key)));
    let answers = sink(&server).publish(&events).await;

    let kinds: Vec<_> = answers[60..].iter().map(|answer| kind(answer).0).collect();
    assert_eq!(kinds, ["unknown", "reject", "receipt", "held", "held", "held"]);
    assert!(answers[..60].iter().all(Result::is_ok));
    for key in ["a", "b", "c"] {
        let offered = events.iter().zip(&answers);
        let offered = offered.filter(|(event, answer)| {
            event.key.as_deref() == Some(key) && kind(answer).0 != "held"
        });
        let offered: Vec<String> = offered.map(|(event, _)| event.id.to_string()).collect();
        let seen = server.seen();
        let seen = seen.iter().filter(|seen| seen.header("ce-subject") == key);
        let seen: Vec<String> = seen.map(|seen| seen.header("ce-id").to_owned()).collect();
        assert_eq!(seen, offered, "key {key}");
    }
}

#[tokio::test]
async fn keys_go_side_by_side() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let all_here = Arc::new(Barrier::new(3));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let all_here = Arc::clone(&all_here);
            tokio::spawn(async move {
                stream.read_exact(&mut [0; 16]).await.unwrap();
                all_here.wait().await;
                let answer = b"HTTP/1.1 204 x\r\nconnection: close\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    let http = Http::new(options(url)).unwrap();
    let answers = http.publish(&[wanting(0, "a"), wanting(0, "b"), event()]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn all_lanes_to_one_destination_count_together() {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::clone(&most);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&seen));
            tokio::spawn(async move {
                stream.read_exact(&mut [0; 16]).await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..200 {
                    tokio::task::yield_now().await;
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                let answer = b"HTTP/1.1 204 x\r\nconnection: close\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    let gates = Gates::default();
    let lane = |path: &str, concurrency| {
        let gates = gates.clone();
        Http::new(Options { gates, concurrency, ..options(url.clone() + path) }).unwrap()
    };
    let (one, other) = (lane("/one", 3), lane("/other", 16));
    let events: Vec<Event> = (0..30).map(|_| event()).collect();
    let answers = tokio::join!(one.publish(&events), other.publish(&events));
    assert!(answers.0.iter().chain(&answers.1).all(Result::is_ok), "{answers:?}");
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_silent_destination_spends_few_attempts_of_a_batch() {
    let server = Server::start(|_| Reply::Silence).await;
    let timeout = Duration::from_millis(500);
    let http = Http::new(Options { timeout, ..options(server.url()) }).unwrap();
    let events: Vec<Event> = (0..50).map(|_| event()).collect();
    let answers = http.publish(&events).await;
    let unknown = answers.iter().filter(|answer| kind(answer).0 == "unknown").count();
    let held = answers.iter().filter(|answer| kind(answer).0 == "held").count();
    assert_eq!((unknown, held), (4, 46));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Server::start(|_| status(400)).await;
    let http = sink(&server);
    for _ in 0..5 {
        http.publish(&[event()]).await;
    }
    assert_eq!((server.seen().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn a_probe_uses_the_connection_of_a_publish_and_leaves_it_to_the_next() {
    let server = Server::start(|_| with(405, "x-said: 1\r\n", "no such method")).await;
    let http = sink(&server);
    for _ in 0..3 {
        http.publish(&[event()]).await;
        http.probe().await.unwrap();
    }
    assert_eq!((server.seen().len(), server.connections()), (6, 1));
    let (map, next) = (http.client.headers(), http.client.headers());
    assert!(map.capacity() > 0 && map.is_empty() && next.capacity() == 0, "one map goes round");
}

#[tokio::test]
async fn a_close_ends_the_connections_that_nobody_uses() {
    let server = Server::start(|_| status(200)).await;
    let http = sink(&server);
    http.publish(&[event()]).await;
    assert_eq!((server.open(), http.client.idle()), (1, 1));
    http.close().await;
    assert_eq!((http.client.idle(), http.client.headers().capacity()), (0, 0));
    let ended = async {
        while server.open() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), ended).await.expect("the destination sees its end");
    assert_eq!(kind(&http.publish(&[event()]).await[0]), ("receipt", None));
    assert_eq!(server.connections(), 2);
}

/// Moves the clock.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_that_nobody_used_for_long_is_closed_and_not_used_again() {
    let server = Server::start(|_| status(200)).await;
    let http = sink(&server);
    http.publish(&[event()]).await;
    pass(3).await;
    http.publish(&[event()]).await;
    assert_eq!((server.connections(), http.client.idle()), (1, 1));
    pass(2).await;
    assert_eq!(http.client.idle(), 1, "looked at, and not yet old");
    pass(2).await;
    http.publish(&[event()]).await;
    assert_eq!(server.connections(), 2, "old, and not yet looked at");
    pass(9).await;
    pass(9).await;
    assert_eq!(http.client.idle(), 0);
}

#[tokio::test]
async fn a_connection_that_the_destination_closed_is_not_used_again() {
    let last = "HTTP/1.1 200 x\r\ncontent-length: 0\r\n\r\n";
    let server = Server::start(move |_| Reply::WriteAndCut(last.into())).await;
    let http = sink(&server);
    for connections in 1..=3 {
        let answers = http.publish(&[event()]).await;
        assert_eq!(kind(&answers[0]), ("receipt", None));
        assert_eq!(server.connections(), connections);
        while http.client.idle() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Answers the first request so, and those after it otherwise.
async fn first_then(first: Reply, then: Reply) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => first.clone(),
        _ => then.clone(),
    })
    .await
}

/// An answer whose body nobody reads to its end.
fn endless() -> Reply {
    let head = "HTTP/1.1 200 x\r\ncontent-length: 999999999\r\n\r\n";
    Reply::Write(head.to_owned() + &"x".repeat(100_000))
}

#[tokio::test]
async fn what_was_read_from_a_connection_used_again_is_unknown_and_never_written_twice() {
    let server = first_then(status(200), Reply::Cut).await;
    let (http, events) = (sink(&server), [event(), event()]);
    let mut kinds = Vec::new();
    for event in &events {
        kinds.push(kind(&http.publish(std::slice::from_ref(event)).await[0]));
    }
    assert_eq!(kinds, [("receipt", None), ("unknown", Some(Code::SinkBroken))]);
    let seen: Vec<_> = server.seen().iter().map(|seen| seen.header("ce-id").to_owned()).collect();
    assert_eq!(seen, events.map(|event| event.id.to_string()), "each was read once");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_response_that_is_not_read_to_its_end_does_not_bring_its_connection_back() {
    let server = first_then(endless(), status(200)).await;
    let http = sink(&server);
    assert_eq!(kind(&http.publish(&[event()]).await[0]), ("receipt", None));
    assert_eq!(http.client.idle(), 0);
    assert_eq!(kind(&http.publish(&[event()]).await[0]), ("receipt", None));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_cannot_be_written_to_is_not_waited_for() {
    let server = first_then(endless(), status(200)).await;
    let http = sink(&server);
    let request = Request::new(Whole::new(Bytes::new()));
    let until = Instant::now() + Duration::from_secs(20);
    let (unread, line) = http.ask(request, until).await.unwrap();
    http.client.keep(line, http.client.headers());
    assert_eq!(kind(&http.publish(&[event()]).await[0]), ("receipt", None));
    assert_eq!(server.connections(), 2);
    drop(unread);
}

#[tokio::test]
async fn a_destination_that_cannot_keep_up_gets_fewer_at_once_and_a_quick_one_more() {
    let all = |status| (0..40).map(|n| wanting(status, &n.to_string())).collect::<Vec<_>>();
    for status in [408, 429, 500, 502, 503, 504] {
        let server = Server::start(by_type).await;
        let http = sink(&server);
        assert_eq!(http.gate.width(), 4);
        http.publish(&all(status)).await;
        assert_eq!(http.gate.width(), 1, "{status}");
        for _ in 0..100 {
            if http.gate.width() > 4 {
                break;
            }
            http.publish(&all(200)).await;
        }
        assert!(http.gate.width() > 4, "it never grew: {:?}", http.gate);
    }
}

#[tokio::test]
async fn a_destination_that_fails_for_some_events_only_gets_as_many_at_once_as_before() {
    let server = Server::start(by_type).await;
    let http = sink(&server);
    let status = |n: usize| if n.is_multiple_of(4) { 500 } else { 200 };
    let events: Vec<Event> = (0..40).map(|n| wanting(status(n), &n.to_string())).collect();
    http.publish(&events).await;
    assert!(http.gate.width() >= 4, "{:?}", http.gate);
}

#[tokio::test]
async fn a_stop_lets_what_is_out_be_answered_and_offers_nothing_new() {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    // The first request that arrives is what stops the relay.
    let server = Server::start(move |_| {
        stopping.cancel();
        status(200)
    })
    .await;
    let http = Http::new(Options { stop, ..options(server.url()) }).unwrap();
    let events: Vec<Event> = (0..50).map(|_| event()).collect();
    let answers = http.publish(&events).await;
    let receipts = answers.iter().filter(|answer| answer.is_ok()).count();
    let held = answers.iter().filter(|answer| kind(answer).0 == "held").count();
    assert_eq!((receipts, held), (server.seen().len(), 50 - receipts), "{answers:?}");
    assert!((1..=4).contains(&receipts), "no more than were out: {receipts}");

    let again = http.publish(&events).await;
    assert!(again.iter().all(|answer| kind(answer).0 == "held"), "{again:?}");
}
