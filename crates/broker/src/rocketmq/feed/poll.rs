//! The polls of a feed: one for each broker that has a topic, and the heartbeat beside them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Code, Refusal};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Request, Streaming};

use super::super::wire::{Call, lasting, resource, v2};
use super::super::{letter, refusal};
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

/// Polls until it is dropped.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut polls = JoinSet::new();
    let mut known: HashMap<Post, AbortHandle> = HashMap::new();
    polls.spawn(keep_tidy(Arc::clone(&inner)));
    loop {
        let looked = look(&inner).await;
        let rest = if looked.is_ok() { BEAT } else { REST };
        match looked {
            Ok((posts, fifo)) => {
                known.retain(|post, poll| {
                    let stays = posts.contains(post);
                    if !stays {
                        poll.abort();
                    }
                    stays
                });
                let share = (inner.wants.most / posts.len().max(1)).clamp(1, MOST);
                let wanted = if fifo { 1 } else { share };
                for post in posts {
                    let poll = || polls.spawn(poll(Arc::clone(&inner), post.clone(), wanted));
                    known.entry(post.clone()).or_insert_with(poll);
                }
            }
            Err(refusal) => inner.fail(refusal),
        }
        sleep(rest).await;
    }
}

async fn keep_tidy(inner: Arc<Inner>) {
    let pace = (inner.wants.lease / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        sleep(pace).await;
        // What one poll brought and is given back, another would only bring again.
        if inner.demand.is_over() && inner.shelf().is_calm() {
            inner.tidy().await;
        }
    }
}

/// Makes itself heard, and returns what to poll, and whether the group is FIFO: then there are
/// several polls, because each brings one event.
async fn look(inner: &Inner) -> Result<(Vec<Post>, bool), Refusal> {
    let (mut call, fifo) = inner.session.call(&inner.line, &inner.wants).await?;
    let beat = v2::HeartbeatRequest {
        group: resource(&inner.wants.group),
        client_type: v2::ClientType::SimpleConsumer.into(),
    };
    let heard = timeout(inner.wants.timeout, call.client.heartbeat(beat)).await;
    let status = received(inner, &call, heard)?.into_inner().status.unwrap_or_default();
    if status.code != refusal::OK {
        inner.session.forget().await;
        return Err(refusal::of(&status, "", false));
    }
    let mut posts = Vec::new();
    for topic in &inner.wants.topics {
        let endpoints = Some(inner.line.endpoints());
        let request = v2::QueryRouteRequest { topic: resource(topic), endpoints };
        let told = timeout(inner.wants.timeout, call.client.query_route(request)).await;
        let v2::QueryRouteResponse { status, message_queues } =
            received(inner, &call, told)?.into_inner();
        let status = status.unwrap_or_default();
        if status.code != refusal::OK {
            return Err(refusal::of(&status, topic, false));
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        for broker in message_queues.into_iter().filter_map(|queue| queue.broker) {
            let number = counts.entry(broker.name.clone()).or_default();
            if *number == 0 || fifo && *number < SIDE_BY_SIDE {
                posts.push((topic.clone(), broker.name, *number));
            }
            *number += 1;
        }
    }
    Ok((posts, fifo))
}

async fn poll(inner: Arc<Inner>, (topic, broker, _): Post, wanted: usize) {
    loop {
        inner.demand.wait().await;
        if inner.stop.is_cancelled() {
            return;
        }
        let room = inner.shelf().reserve(wanted, Instant::now());
        if room == 0 {
            // A lease may run out without anybody's word.
            let _ = timeout(Duration::from_secs(1), inner.room.notified()).await;
            continue;
        }
        let came = receive(&inner, &topic, &broker, room).await;
        inner.shelf().unreserve(room);
        inner.calm.notify_waiters();
        inner.room.notify_one();
        if let Err(refusal) = came {
            inner.fail(refusal);
            sleep(REST).await;
        }
    }
}

/// Asks once, and puts what comes onto the shelf as it comes.
async fn receive(inner: &Inner, topic: &str, broker: &str, most: usize) -> Result<(), Refusal> {
    let (mut call, _) = inner.session.call(&inner.line, &inner.wants).await?;
    let at_most = POLL + inner.wants.timeout;
    let mut request = Request::new(v2::ReceiveMessageRequest {
        group: resource(&inner.wants.group),
        message_queue: Some(v2::MessageQueue {
            topic: resource(topic),
            id: -1,
            permission: v2::Permission::Read.into(),
            broker: Some(v2::Broker { name: broker.to_owned(), id: 0, endpoints: None }),
            accept_message_types: Vec::new(),
        }),
        filter_expression: Some(everything()),
        batch_size: i32::try_from(most).unwrap_or(1),
        invisible_duration: Some(lasting(inner.wants.lease)),
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
            inner.session.forget().await;
            Err(refusal::of(status, topic, false))
        }
    }
}

fn arrive(inner: &Inner, letter: v2::Message, broker: &str) {
    let system = letter.system_properties.clone().unwrap_or_default();
    let topic = letter.topic.as_ref().map(|topic| topic.name.clone()).unwrap_or_default();
    let offset = system.queue_offset.unwrap_or_default();
    inner.shelf().arrive(Parcel {
        place: Place { topic, broker: broker.to_owned(), queue: system.queue_id, offset },
        attempt: u32::try_from(system.delivery_attempt.unwrap_or(1)).unwrap_or(1).max(1),
        message: system.message_id,
        receipt: system.receipt_handle.unwrap_or_default(),
        until: Instant::now() + inner.wants.lease,
        event: letter::open(letter),
    });
    inner.news.notify_one();
}

/// Takes an answer, or leaves the line.
fn received<T>(
    inner: &Inner,
    call: &Call,
    answer: Result<Result<T, tonic::Status>, tokio::time::error::Elapsed>,
) -> Result<T, Refusal> {
    let host = inner.line.host(call.turn);
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => {
            inner.line.leave(call.turn);
            // Nothing was offered, so nothing may have arrived: it is out of reach.
            match refusal::without(&status, host) {
                Refusal::Unknown(cause) => Err(Refusal::Down(cause)),
                refusal => Err(refusal),
            }
        }
        Err(_) => {
            inner.line.leave(call.turn);
            let detail = format!("{host}: no answer in time");
            Err(Refusal::Down(Cause::new(Code::SinkTimeout, detail)))
        }
    }
}

impl Inner {
    fn fail(&self, refusal: Refusal) {
        *self.trouble() = Some(refusal);
        self.news.notify_one();
    }
}
