//! The polls of a feed: one for each broker that has a topic, and the heartbeat beside them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Code, Refusal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Streaming};

use super::super::letter;
use super::super::refusal::{self, Absence};
use super::super::wire::{Call, lasting, resource, v2};
use super::Inner;
use super::session::everything;
use super::shelf::{Parcel, Place};

/// How long a poll waits at the proxy, which grants 5 to 20 s. A broker knows nothing of a consumer
/// that has gone, and hands out to its polls until they end.
pub(super) const POLL: Duration = Duration::from_secs(5);

/// Polls at once of one broker at the most. Each may take an event along if the consumer dies,
/// which counts as an attempt.
const SIDE_BY_SIDE: usize = 8;

/// How often the proxy hears of this consumer, and routes are looked at.
const BEAT: Duration = Duration::from_secs(10);

/// How long to wait after a failure.
const REST: Duration = Duration::from_millis(500);

/// Parcels of one poll at the most; a proxy grants 32.
const MOST: usize = 32;

/// One poll: a topic, a broker that has it, and a number among those alike.
type Post = (String, String, usize);

/// The brokers of one topic, one for each queue; or why there are none.
type Route = (String, Result<Vec<String>, Refusal>);

/// What a look has found.
#[derive(Debug, Default)]
struct Looked {
    posts: Vec<Post>,
    /// Topics that cannot be polled now, and why.
    troubled: Vec<(String, Refusal)>,
}

/// The polls that run. One that is not wanted any more ends its call first, which may bring events.
#[derive(Debug, Default)]
struct Polls {
    running: JoinSet<()>,
    known: HashMap<Post, DropGuard>,
}

/// Polls until it is dropped.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut polls = Polls::default();
    polls.running.spawn(keep_tidy(Arc::clone(&inner)));
    loop {
        let rest = match look(&inner).await {
            Ok((looked, fifo)) => {
                let share = (inner.wants().most / looked.posts.len().max(1)).clamp(1, MOST);
                let wanted = if fifo { 1 } else { share };
                polls.align(&looked, |post, gone| poll(Arc::clone(&inner), post, wanted, gone));
                let rest = if looked.posts.is_empty() { REST } else { BEAT };
                if let Some((_, refusal)) = looked.troubled.into_iter().next() {
                    inner.fail(refusal);
                }
                rest
            }
            Err(refusal) => {
                inner.fail(refusal);
                REST
            }
        };
        sleep(rest).await;
    }
}

impl Polls {
    /// Starts what is missing, and lets end what is gone. What could not be looked at stays.
    fn align<F>(&mut self, looked: &Looked, poll: impl Fn(Post, CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.running.try_join_next().is_some() {}
        let troubled = |topic: &str| looked.troubled.iter().any(|(other, _)| other == topic);
        self.known.retain(|post, _| looked.posts.contains(post) || troubled(&post.0));
        for post in &looked.posts {
            let start = || {
                let gone = CancellationToken::new();
                self.running.spawn(poll(post.clone(), gone.clone()));
                gone.drop_guard()
            };
            self.known.entry(post.clone()).or_insert_with(start);
        }
    }
}

/// Keeps what waits while somebody asks, and gives it back when nobody does.
async fn keep_tidy(inner: Arc<Inner>) {
    let pace = (inner.wants().lease / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        sleep(pace).await;
        if !inner.demand.is_over() {
            inner.keep.refresh_all().await;
        } else if inner.keep.is_calm() {
            // What one poll brought and is given back, another would only bring again.
            inner.keep.give_back().await;
        }
    }
}

/// Makes itself heard, and returns what to poll, and whether the group is FIFO.
async fn look(inner: &Inner) -> Result<(Looked, bool), Refusal> {
    let (mut call, fifo) = inner.wire().call().await?;
    let beat = v2::HeartbeatRequest {
        group: resource(&inner.wants().group),
        client_type: v2::ClientType::SimpleConsumer.into(),
    };
    let heard = timeout(inner.wants().timeout, call.client.heartbeat(beat)).await;
    let status = received(inner, &call, heard)?.into_inner().status.unwrap_or_default();
    if status.code != refusal::OK {
        inner.wire().session.forget().await;
        return Err(refusal::of(&status, "", Absence::Missing));
    }
    let mut routes = Vec::new();
    for topic in &inner.wants().topics {
        routes.push((topic.clone(), route(inner, &mut call, topic).await?));
    }
    Ok((gather(routes, fifo), fifo))
}

/// Asks which brokers have a topic. That it has none is an answer.
async fn route(
    inner: &Inner,
    call: &mut Call,
    topic: &str,
) -> Result<Result<Vec<String>, Refusal>, Refusal> {
    let endpoints = Some(inner.wire().line.endpoints());
    let request = v2::QueryRouteRequest { topic: resource(topic), endpoints };
    let told = timeout(inner.wants().timeout, call.client.query_route(request)).await;
    let v2::QueryRouteResponse { status, message_queues } =
        received(inner, call, told)?.into_inner();
    let status = status.unwrap_or_default();
    if status.code != refusal::OK {
        return Ok(Err(refusal::of(&status, topic, Absence::Missing)));
    }
    let brokers = message_queues.into_iter().filter_map(|queue| queue.broker);
    Ok(Ok(brokers.map(|broker| broker.name).collect()))
}

/// Says what to poll. Of a FIFO group there are several polls, because each brings one event.
fn gather(routes: Vec<Route>, fifo: bool) -> Looked {
    let mut looked = Looked::default();
    for (topic, brokers) in routes {
        let brokers = match brokers {
            Ok(brokers) => brokers,
            Err(refusal) => {
                looked.troubled.push((topic, refusal));
                continue;
            }
        };
        let mut counts: HashMap<String, usize> = HashMap::new();
        for broker in brokers {
            let number = counts.entry(broker.clone()).or_default();
            if *number == 0 || fifo && *number < SIDE_BY_SIDE {
                looked.posts.push((topic.clone(), broker, *number));
            }
            *number += 1;
        }
    }
    looked
}

async fn poll(inner: Arc<Inner>, (topic, broker, _): Post, wanted: usize, gone: CancellationToken) {
    poll_with(&inner, wanted, &gone, |room| receive(&inner, &topic, &broker, room)).await;
}

/// Asks again and again, until the feed stops or the post is gone; never cuts a call off.
async fn poll_with<F>(
    inner: &Inner,
    wanted: usize,
    gone: &CancellationToken,
    receive: impl Fn(usize) -> F,
) where
    F: Future<Output = Result<(), Refusal>>,
{
    loop {
        inner.demand.wait().await;
        if inner.stop.is_cancelled() || gone.is_cancelled() {
            return;
        }
        let Some(room) = inner.keep.reserve(wanted) else {
            // A lease may run out without anybody's word.
            let _ = timeout(Duration::from_secs(1), inner.keep.room.notified()).await;
            continue;
        };
        let came = receive(room.count).await;
        drop(room);
        if let Err(refusal) = came {
            inner.fail(refusal);
            sleep(REST).await;
        }
    }
}

/// Asks once, and puts what comes onto the shelf as it comes.
async fn receive(inner: &Inner, topic: &str, broker: &str, most: usize) -> Result<(), Refusal> {
    let (mut call, _) = inner.wire().call().await?;
    let at_most = POLL + inner.wants().timeout;
    let mut request = Request::new(v2::ReceiveMessageRequest {
        group: resource(&inner.wants().group),
        message_queue: Some(v2::MessageQueue {
            topic: resource(topic),
            id: -1,
            permission: v2::Permission::Read.into(),
            broker: Some(v2::Broker { name: broker.to_owned(), id: 0, endpoints: None }),
            accept_message_types: Vec::new(),
        }),
        filter_expression: Some(everything()),
        batch_size: i32::try_from(most).unwrap_or(1),
        invisible_duration: Some(lasting(inner.wants().lease)),
        auto_renew: false,
        long_polling_timeout: Some(lasting(POLL)),
    });
    // The proxy derives from it how long it may wait, and fails without.
    request.set_timeout(at_most);
    let came = timeout(at_most, call.client.receive_message(request)).await;
    let mut stream = received(inner, &call, came)?.into_inner();
    loop {
        let part = timeout(at_most, next(&mut stream)).await;
        let Some(part) = received(inner, &call, part)? else { return Ok(()) };
        match part.content {
            Some(v2::receive_message_response::Content::Message(letter)) => {
                arrive(inner, letter, broker);
            }
            Some(v2::receive_message_response::Content::Status(status)) => {
                told(inner, &status, topic).await?;
            }
            _ => {}
        }
    }
}

async fn next(
    stream: &mut Streaming<v2::ReceiveMessageResponse>,
) -> Result<Option<v2::ReceiveMessageResponse>, tonic::Status> {
    stream.message().await
}

async fn told(inner: &Inner, status: &v2::Status, topic: &str) -> Result<(), Refusal> {
    match status.code {
        refusal::OK | refusal::MESSAGE_NOT_FOUND => Ok(()),
        _ => {
            // A proxy that was started anew does not know this consumer; it says so in many ways.
            inner.wire().session.forget().await;
            Err(refusal::of(status, topic, Absence::Missing))
        }
    }
}

fn arrive(inner: &Inner, letter: v2::Message, broker: &str) {
    let system = letter.system_properties.clone().unwrap_or_default();
    let topic = letter.topic.as_ref().map(|topic| topic.name.clone()).unwrap_or_default();
    let offset = system.queue_offset.unwrap_or_default();
    inner.keep.arrive(Parcel {
        place: Place { topic, broker: broker.to_owned(), queue: system.queue_id, offset },
        attempt: u32::try_from(system.delivery_attempt.unwrap_or(1)).unwrap_or(1).max(1),
        message: system.message_id,
        receipt: system.receipt_handle.unwrap_or_default(),
        sure: true,
        turn: Arc::default(),
        until: Instant::now() + inner.wants().lease,
        event: letter::open(letter),
    });
}

/// Takes an answer, or leaves the line.
fn received<T>(
    inner: &Inner,
    call: &Call,
    answer: Result<Result<T, tonic::Status>, tokio::time::error::Elapsed>,
) -> Result<T, Refusal> {
    let host = inner.wire().line.host(call.turn);
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => {
            inner.wire().line.leave(call.turn);
            // Nothing was offered, so nothing may have arrived: it is out of reach.
            match refusal::without(&status, host) {
                Refusal::Unknown(cause) => Err(Refusal::Down(cause)),
                refusal => Err(refusal),
            }
        }
        Err(_) => {
            inner.wire().line.leave(call.turn);
            let detail = format!("{host}: no answer in time");
            Err(Refusal::Down(Cause::new(Code::SinkTimeout, detail)))
        }
    }
}

impl Inner {
    fn fail(&self, refusal: Refusal) {
        *self.trouble() = Some(refusal);
        self.keep.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::super::shelf::tests::parcel;
    use super::super::{Access, RocketMqFeed};
    use super::*;
    use crate::manner::Subscription;

    fn feed() -> RocketMqFeed {
        let access = Access { url: "rocketmq://127.0.0.1:1".to_owned(), keys: None };
        RocketMqFeed::new(&access, Subscription::new("g", &["t"])).unwrap()
    }

    fn post(topic: &str) -> Post {
        (topic.to_owned(), "b".to_owned(), 0)
    }

    fn missing() -> Refusal {
        Refusal::Retry(Cause::new(Code::TopicMissing, "as the test says"), None)
    }

    async fn settle() {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_is_not_wanted_any_more_ends_its_call_and_loses_nothing() {
        let (inner, go) = (Arc::clone(&feed().inner), Arc::new(Notify::new()));
        let _asking = inner.demand.ask();
        let mut polls = Polls::default();
        let here = Looked { posts: vec![post("t")], troubled: Vec::new() };
        let start = |_, gone| {
            let (inner, go) = (Arc::clone(&inner), Arc::clone(&go));
            async move {
                let receive = |_| async {
                    go.notified().await;
                    inner.keep.arrive(parcel(0));
                    Ok(())
                };
                poll_with(&inner, 100, &gone, receive).await;
            }
        };
        polls.align(&here, start);
        settle().await;
        assert!(inner.keep.reserve(1).is_none(), "all the room is asked for");
        polls.align(&Looked::default(), start);
        settle().await;
        assert!(!inner.keep.is_calm(), "its call is still out");
        go.notify_one();
        inner.keep.calm().await;
        assert!(inner.keep.take().await.unwrap().is_some(), "what it brought is here");
        assert_eq!(inner.keep.reserve(100).unwrap().count, 63);
        settle().await;
        assert!(polls.running.try_join_next().is_some(), "it asks no more");
    }

    #[tokio::test]
    async fn a_topic_that_is_missing_keeps_no_other_away_and_stops_no_poll_that_runs() {
        let brokers = || Ok(vec!["b".to_owned(), "b".to_owned()]);
        let routes = vec![("gone".to_owned(), Err(missing())), ("t".to_owned(), brokers())];
        let looked = gather(routes, false);
        assert_eq!(looked.posts, [post("t")]);
        assert_eq!(looked.troubled, [("gone".to_owned(), missing())]);
        let mut polls = Polls::default();
        let start = |_, gone: CancellationToken| async move { gone.cancelled().await };
        polls.align(&gather(vec![("gone".to_owned(), brokers())], false), start);
        polls.align(&looked, start);
        let mut known: Vec<&Post> = polls.known.keys().collect();
        known.sort();
        assert_eq!(known, [&post("gone"), &post("t")]);
        assert_eq!(gather(vec![("t".to_owned(), brokers())], true).posts.len(), 2);
    }
}
