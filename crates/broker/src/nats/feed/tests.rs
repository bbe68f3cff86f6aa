//! What a feed tells, and when, by a server that only writes down what it hears.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use event::{Cause, Code, Event, Feed, Handle, Nack, Refusal, Secret};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::pull::{Ticket, tell};
use super::{Access, NatsFeed};
use crate::hand::Arrival;
use crate::manner::Subscription;

const LEASE: Duration = Duration::from_millis(200);

/// A server that lets everybody in after a while, and answers nothing else.
struct Ear {
    url: String,
    heard: Arc<Mutex<String>>,
    _tasks: JoinSet<()>,
}

impl Ear {
    async fn open(slow: Duration) -> Ear {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let (heard, mut tasks) = (Arc::<Mutex<String>>::default(), JoinSet::new());
        let noted = Arc::clone(&heard);
        tasks.spawn(async move {
            let mut guests = JoinSet::new();
            while let Ok((guest, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                guests.spawn(async move {
                    let (reading, mut writing) = guest.into_split();
                    let info = "INFO {\"server_id\":\"ear\",\"version\":\"2.15.0\",\"proto\":1,\
                                \"headers\":true,\"max_payload\":1048576}\r\n";
                    let _ = writing.write_all(info.as_bytes()).await;
                    let mut lines = BufReader::new(reading).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        if line == "PING" {
                            sleep(slow).await;
                            let _ = writing.write_all(b"PONG\r\n").await;
                        }
                        noted.lock().unwrap().push_str(&(line + "\n"));
                    }
                });
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
