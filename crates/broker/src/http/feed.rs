//! The feed `http`: a receiver of what the sink posts, as a router for the application's server.
//!
//! The answer to a request is given when its delivery is ended, so a receipt is the consumer's own
//! word. It keeps nothing: what is not ended is for its sender to bring again. Without a signature
//! that holds, nothing is handed out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use event::{Cause, Code, Delivery, Feed, Handle, Millis, Nack, Refusal, Secret};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::arrive;
use super::desk::{Desk, End, Size};
use crate::manner::Subscription;
use crate::webhook;

/// What is let in.
#[derive(Clone, Debug)]
pub struct Reception {
    /// Standard Webhooks secrets (`whsec_…`), any of which may have signed. Without one, whoever
    /// reaches the router is believed.
    pub secrets: Vec<Secret>,
    /// How far the time of a signature may lie from now.
    pub tolerance: Duration,
    /// Bytes of a body at the most.
    pub largest: usize,
    /// Requests that may wait to be handed out; those beyond are asked to come again.
    pub waiting: usize,
}

impl Reception {
    /// Bytes of a body, unless told otherwise: any event in either layout.
    pub const LARGEST: usize = 2 << 20;

    /// Lets in what one of these secrets has signed within 5 minutes: 2 MiB, 256 may wait.
    pub fn signed(secrets: Vec<Secret>) -> Reception {
        let (tolerance, largest) = (Duration::from_secs(300), Reception::LARGEST);
        Reception { secrets, tolerance, largest, waiting: 256 }
    }

    /// Lets in whoever reaches the router. Something in front must see to that.
    pub fn unsigned() -> Reception {
        Reception::signed(Vec::new())
    }
}

/// Receives events.
///
/// The lease and the timeout of the subscription must be shorter than the sender waits (10 s
/// unless its config says otherwise): the lease is how long work may take until the sender is told
/// to come again, the timeout how long an event may wait to be handed out. With topics given, only
/// events of these are taken.
#[derive(Clone)]
pub struct HttpFeed {
    desk: Arc<Desk>,
    reception: Arc<Reception>,
    subscription: Arc<Subscription>,
    /// What the ids of answers begin with.
    since: Millis,
}

impl HttpFeed {
    /// Checks the secrets. Nothing is listened to: that is the application's server.
    pub fn new(subscription: Subscription, reception: Reception) -> Result<HttpFeed, Cause> {
        webhook::sign(&reception.secrets, "", 0, b"")
            .map_err(|error| Cause::new(Code::ConfigInvalid, error))?;
        let Subscription { most, lease, timeout, .. } = subscription;
        let size = Size { most, waiting: reception.waiting, patience: timeout, lease };
        let (reception, subscription) = (Arc::new(reception), Arc::new(subscription));
        let (desk, since) = (Arc::new(Desk::new(size)), Millis::now());
        Ok(HttpFeed { desk, reception, subscription, since })
    }

    /// Returns the router, which takes events at every path below where it is nested.
    pub fn router(&self) -> Router {
        let receive = async |State(feed): State<HttpFeed>, request: Request| -> Response {
            feed.receive(request).await
        };
        Router::new().fallback(receive).with_state(self.clone())
    }

    /// Answers one request, once what it brought is ended.
    pub async fn receive(&self, request: Request) -> Response {
        match *request.method() {
            Method::POST => {}
            // Whoever asks whether somebody is there gets an answer.
            Method::OPTIONS => {
                return (StatusCode::NO_CONTENT, [("allow", "POST")]).into_response();
            }
            _ => return (StatusCode::METHOD_NOT_ALLOWED, [("allow", "POST")]).into_response(),
        }
        let (parts, body) = request.into_parts();
        let reading = timeout(self.subscription.timeout, self.read(body));
        let body = match reading.await {
            Ok(Ok(body)) => body,
            Ok(Err((status, why))) => return say(status, why),
            Err(_) => return say(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
        };
        let now = Millis::now().0.div_euclid(1000);
        let Reception { secrets, tolerance, .. } = &*self.reception;
        if let Err(error) = arrive::verify(secrets, &parts.headers, &body, now, *tolerance) {
            return say(StatusCode::UNAUTHORIZED, &error.to_string());
        }
        self.take(&parts.headers, body, parts.uri.path()).await
    }

    /// Reads a body to its end though it be too large, because whoever is cut off while it writes
    /// does not hear the answer; but not without end.
    async fn read(&self, body: Body) -> Result<Bytes, (StatusCode, &'static str)> {
        const LARGE: &str = "the body is larger than is taken here";
        let (limit, mut whole, mut size) = (self.reception.largest, BytesMut::new(), 0_usize);
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| (StatusCode::BAD_REQUEST, "the body is cut off"))?;
            size = size.saturating_add(chunk.len());
            if size > limit.saturating_mul(16) {
                break;
            }
            if size <= limit {
                whole.extend_from_slice(&chunk);
            }
        }
        match size > limit {
            true => Err((StatusCode::PAYLOAD_TOO_LARGE, LARGE)),
            false => Ok(whole.freeze()),
        }
    }

    async fn take(&self, headers: &HeaderMap, body: Bytes, path: &str) -> Response {
        let topics = &self.subscription.topics;
        let usual = topics.first().map_or("", String::as_str);
        let arrived = arrive::open(headers, body, usual);
        if let Ok(event) = &arrived
            && !topics.is_empty()
            && !topics.contains(&event.topic)
        {
            let why = format!("the topic {} is not taken here", event.topic);
            return say(StatusCode::NOT_FOUND, &why);
        }
        let (number, end) = self.desk.bring(arrived, path).await;
        let mut response = answer(end);
        let id = format!("{:x}-{number}", self.since.0);
        if let (Ok(id), 1..) = (HeaderValue::from_str(&id), number) {
            response.headers_mut().insert("x-request-id", id);
        }
        response
    }

    fn end(&self, handle: Handle, end: End) -> Result<(), Refusal> {
        if self.desk.end(handle, end) { Ok(()) } else { Err(stale()) }
    }
}

impl fmt::Debug for HttpFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFeed").field("group", &self.subscription.group).finish_non_exhaustive()
    }
}

#[async_trait]
impl Feed for HttpFeed {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        let closed = || Refusal::Down(Cause::new(Code::SinkDown, "this feed is closed"));
        self.desk.next(at_most).await.ok_or_else(closed)
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        self.end(handle, End::Taken)
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        self.end(
            handle,
            match nack {
                Nack::Again(after) => End::Again(after),
                Nack::Dead(cause) => End::Dead(cause),
            },
        )
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        if self.desk.extend(handle, by) { Ok(()) } else { Err(stale()) }
    }

    async fn close(&self) {
        self.desk.close();
    }
}

fn stale() -> Refusal {
    let why = "it was ended, or its lease ran out and its sender brings it again";
    Refusal::Reject(Cause::new(Code::SinkRefused, why))
}

fn answer(end: End) -> Response {
    match end {
        End::Taken => StatusCode::NO_CONTENT.into_response(),
        End::Again(after) => later(StatusCode::SERVICE_UNAVAILABLE, after, "not taken in yet"),
        End::Dead(cause) => say(StatusCode::UNPROCESSABLE_ENTITY, &cause.to_string()),
        End::Late => {
            // To say when to come again is to say that it was not taken in.
            let why = "it was not ended in time; it may have been taken in";
            say(StatusCode::SERVICE_UNAVAILABLE, why)
        }
        End::Full => {
            later(StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(1), "too many wait already")
        }
        End::Closed => {
            later(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1), "the consumer stops")
        }
    }
}

/// Answers with the whole seconds after which to come again.
fn later(status: StatusCode, after: Duration, why: &str) -> Response {
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    (status, [("retry-after", seconds.to_string())], why.to_owned()).into_response()
}

fn say(status: StatusCode, why: &str) -> Response {
    (status, why.to_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_says_that_it_was_not_taken_in_says_when_to_come_again() {
        let asks = |end| answer(end).headers().contains_key("retry-after");
        assert!(!asks(End::Late), "it may have been taken in");
        assert!(asks(End::Again(Duration::ZERO)) && asks(End::Full) && asks(End::Closed));
    }
}
