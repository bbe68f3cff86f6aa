//! What a feed tells, and when, by a server that only writes down what it hears.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::{Config, pull};
use event::{Cause, Code, Event, Feed, Handle, Nack, Refusal, Secret};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::missed::look;
use super::pull::{Ticket, Well, tell};
use super::{Access, NatsFeed};
use crate::hand::Arrival;
use crate::manner::Subscription;

const LEASE: Duration = Duration::from_millis(200);

/// A server that lets everybody in after a while, and answers nothing else, or what it is told to.
struct Ear {
    url: String,
    heard: Arc<Mutex<String>>,
    _tasks: JoinSet<()>,
}

/// What is answered to a question on a subject.
type Answers = fn(&str) -> Option<Value>;

impl Ear {
    async fn open(slow: Duration) -> Ear {
        Ear::with(slow, |_| None).await
    }

    async fn with(slow: Duration, answers: Answers) -> Ear {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let (heard, mut tasks) = (Arc::<Mutex<String>>::default(), JoinSet::new());
        let noted = Arc::clone(&heard);
        tasks.spawn(async move {
            let mut guests = JoinSet::new();
            while let Ok((guest, _)) = listener.accept().await {
                guests.spawn(hear(guest, slow, Arc::clone(&noted), answers));
            }
        });
        Ear { url, heard, _tasks: tasks }
    }

    fn has_heard(&self, word: &str) -> bool {
        self.heard.lock().unwrap().contains(word)
    }

    fn feed(&self) -> NatsFeed {
        let access = Access { url: Secret::new(&*self.url), token: None, credentials: None };
        let timeout = Duration::from_secs(1);
        let subscription = Subscription { lease: LEASE, timeout, ..Subscription::new("g", &["t"]) };
        NatsFeed::new(&access, subscription).unwrap()
    }
}

async fn hear(guest: TcpStream, slow: Duration, noted: Arc<Mutex<String>>, answers: Answers) {
    let (reading, mut writing) = guest.into_split();
    let info = "INFO {\"server_id\":\"ear\",\"version\":\"2.15.0\",\"proto\":1,\
                \"headers\":true,\"max_payload\":1048576}\r\n";
    let _ = writing.write_all(info.as_bytes()).await;
    let (mut lines, mut inbox) = (BufReader::new(reading).lines(), String::new());
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["PING"] => {
                sleep(slow).await;
                let _ = writing.write_all(b"PONG\r\n").await;
            }
            ["SUB", _, sid] => inbox = sid.to_owned(),
            ["PUB", subject, reply, _] => {
                if let Some(answer) = answers(subject).map(|answer| answer.to_string()) {
                    let size = answer.len();
                    let said = format!("MSG {reply} {inbox} {size}\r\n{answer}\r\n");
                    let _ = writing.write_all(said.as_bytes()).await;
                }
            }
            _ => {}
        }
        noted.lock().unwrap().push_str(&(line + "\n"));
    }
}

fn ticket() -> Ticket {
    let (reply, subject) = ("$JS.ACK.it".into(), "t".to_owned());
    Ticket { reply, subject, headers: None, payload: "{}".into() }
}

/// Puts one into the hand of a feed, as if it had just come.
async fn held(feed: &NatsFeed) -> Handle {
    let (event, until) = (Ok(Event::new("t", "T", "{}")), Instant::now() + LEASE);
    let arrival = Arrival { event, origin: "s:1".into(), attempt: 1, ticket: ticket(), until };
    feed.hand.arrive((0, 1), arrival);
    feed.hand.next(until).await.unwrap().unwrap().handle
}

#[tokio::test]
async fn what_is_said_while_the_lease_lasts_is_said() {
    let ear = Ear::open(Duration::ZERO).await;
    let feed = ear.feed();
    let handle = held(&feed).await;
    feed.ack(handle).await.unwrap_err();
    assert!(ear.has_heard("+ACK"));
}

#[tokio::test]
async fn nothing_is_said_by_who_got_a_connection_when_the_lease_was_over() {
    let ear = Ear::open(LEASE * 2).await;
    let feed = ear.feed();
    let dead = || Nack::Dead(Cause::new(Code::BadEvent, "no"));
    for end in 0..4 {
        let handle = held(&feed).await;
        let ended = match end {
            0 => feed.ack(handle).await,
            1 => feed.nack(handle, Nack::Again(LEASE)).await,
            2 => feed.nack(handle, dead()).await,
            _ => feed.extend(handle, LEASE).await,
        };
        assert!(ended.is_err(), "{end}");
        assert!(!ear.has_heard("PUB "), "{end}: {}", ear.heard.lock().unwrap());
        let over = feed.ack(handle).await.unwrap_err();
        assert!(matches!(over, Refusal::Reject(_)), "{end}: {over:?}");
    }
    let _ = held(&feed).await;
    feed.close().await;
    assert!(!ear.has_heard("PUB "), "{}", ear.heard.lock().unwrap());
}

#[tokio::test]
async fn too_late_is_too_late_also_with_a_connection() {
    let ear = Ear::open(Duration::ZERO).await;
    let feed = ear.feed();
    feed.link.context().await.unwrap();
    let late = tell(&feed.link, &ticket(), "-NAK".into(), Instant::now()).await;
    assert!(matches!(late, Err(Refusal::Reject(_))), "{late:?}");
    // What is written is written in order: had the first been said, it would be there by now.
    let soon = Instant::now() + LEASE;
    tell(&feed.link, &ticket(), "+WPI".into(), soon).await.unwrap_err();
    assert!(ear.has_heard("+WPI") && !ear.has_heard("-NAK"));
}

/// A JetStream of which a consumer has two out, and which does not let anything be read.
fn unread(subject: &str) -> Option<Value> {
    let at = |event: u64| json!({ "consumer_seq": event, "stream_seq": event });
    let config = Config { filter_subject: "t".to_owned(), ack_wait: LEASE, ..Config::default() };
    let info = json!({ "stream_name": "S", "name": "g", "created": "2026-11-19T00:00:00Z",
        "config": config, "delivered": at(9), "ack_floor": at(0), "num_ack_pending": 2,
        "num_redelivered": 0, "num_waiting": 0, "num_pending": 0 });
    subject.starts_with("$JS.API.CONSUMER.").then_some(info)
}

#[tokio::test]
async fn keys_that_cannot_be_read_in_time_let_everything_newer_wait() {
    let ear = Ear::with(Duration::ZERO, unread).await;
    let access = Access { url: Secret::new(&*ear.url), token: None, credentials: None };
    let patient = Duration::from_secs(60);
    let subscription = Subscription { timeout: patient, ..Subscription::new("g", &["t"]) };
    let feed = NatsFeed::new(&access, subscription).unwrap();
    let context = feed.link.context().await.unwrap();
    let config = pull::Config { durable_name: Some("g".to_owned()), ..pull::Config::default() };
    let consumer = context.create_consumer_on_stream(config, "S").await.unwrap();
    let well = Well { at: 0, consumer, seen: Arc::default() };
    let looked = look(&feed.link, &well, &context, &feed.hand, Duration::from_millis(50));
    timeout(patient / 2, looked).await.expect("it reads no longer than that").unwrap();
    assert!(ear.has_heard("$JS.API.STREAM.MSG.GET.S"), "{}", ear.heard.lock().unwrap());

    for (key, place) in [("a", 10), ("b", 5)] {
        let event = Ok(Event::new("t", "T", "{}").key(key));
        let (origin, until) = (place.to_string(), Instant::now() + patient);
        feed.hand
            .arrive((0, place), Arrival { event, origin, attempt: 1, ticket: ticket(), until });
    }
    let come = feed.hand.next(Instant::now()).await.unwrap().unwrap();
    assert_eq!(come.origin, "5");
    assert_eq!(feed.hand.next(Instant::now()).await, Ok(None), "of what keys, nobody knows");
}
