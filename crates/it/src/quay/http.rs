//! HTTP as a broker: a load balancer on loopback, and behind it the instances of a consumer, which
//! are the feeds of a topic.
//!
//! It keeps nothing, so its sinks bring until somebody takes. The load balancer is a process of its
//! own: killing it cuts every connection, and while it is stopped nothing is answered.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use broker::http::{Http, HttpFeed, Mode, Options, Reception, TRAITS};
use broker::manner::{Manner, Subscription};
use broker::traits::Traits;
use broker::webhook;
use event::{Delivery, EventId, Feed, Handle, Millis, Nack, Refusal, Secret, Sink};
use futures_util::FutureExt;
use rustls::crypto::ring;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::{Detour, Quay};
use crate::front::Front;
use crate::line::Line;
use crate::ports::Ports;

const SECRET: &str = "whsec_dGhlLXF1YXktb2YtaHR0cC1rbm93cy10aGlzLTE=";
/// [`WRONG`](super::WRONG), as a signature wants it.
const WRONG: &str = "whsec_YzRuNHJ5LW9mLWEtc3RyYW5nZXItMDEyMzQ1Njc4OQ==";

/// More than any request of a test has.
const BODY: usize = 64 << 20;

/// A way in, and the feeds that stand behind it.
pub struct HttpQuay {
    address: SocketAddr,
    _port: Ports<1>,
    mode: Mode,
    desks: Arc<Desks>,
    front: Mutex<Front>,
    server: Option<Runtime>,
}

/// Makes one whose events are laid out in binary form.
pub async fn binary() -> HttpQuay {
    HttpQuay::start(Mode::Binary).expect("a server starts")
}

/// Makes one whose events are laid out in structured form.
pub async fn structured() -> HttpQuay {
    HttpQuay::start(Mode::Structured).expect("a server starts")
}

impl HttpQuay {
    fn start(mode: Mode) -> Result<HttpQuay> {
        let port = Ports::reserve()?;
        let address = (Ipv4Addr::LOCALHOST, port.numbers[0]).into();
        let desks = Arc::new(Desks::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let behind = listener.local_addr()?;
        let server = Some(serve(listener, desks.clone())?);
        let front = Mutex::new(Front::start(address, behind)?);
        Ok(HttpQuay { address, _port: port, mode, desks, front, server })
    }

    fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sink_to(&self, address: SocketAddr, secret: &str, manner: Manner) -> Result<Arc<dyn Sink>> {
        let options = Options {
            mode: self.mode,
            timeout: manner.timeout,
            stop: manner.stop,
            secrets: vec![Secret::new(secret)],
            allow_private: true,
            concurrency: manner.concurrency,
            gates: manner.gates,
            ..Options::new(format!("http://{address}/events"), manner.source)
        };
        Ok(Arc::new(Http::new(options).map_err(anyhow::Error::msg)?))
    }
}

impl Drop for HttpQuay {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }
}

#[async_trait]
impl Quay for HttpQuay {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.address)
    }

    fn lines(&self) -> String {
        let address = self.address;
        format!(
            "kind = \"http\"\nurl = \"http://{address}/events\"\nallow_private = true\n\
             secrets = [\"{SECRET}\"]"
        )
    }

    fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned(), WRONG.to_owned()]
    }

    async fn topic(&self, _group: &str) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        self.desks.topics().insert(topic.clone(), Vec::new());
        Ok(topic)
    }

    async fn sink(&self, manner: Manner) -> Result<Arc<dyn Sink>> {
        self.sink_to(self.address, SECRET, manner)
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        let reception = Reception::signed(vec![Secret::new(SECRET)]);
        let topics = subscription.topics.clone();
        let feed = HttpFeed::new(subscription, reception).map_err(anyhow::Error::msg)?;
        let member = self.desks.turn.fetch_add(1, Ordering::SeqCst);
        for topic in &topics {
            let mut known = self.desks.topics();
            known.entry(topic.clone()).or_default().push((member, feed.clone()));
        }
        Ok(Arc::new(Member { feed, member, desks: self.desks.clone() }))
    }

    async fn dead(&self, _group: &str, _topic: &str, _reader: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// Brings bytes as a sender does, until they are ended.
    async fn foreign(&self, topic: &str, bytes: &[u8]) -> Result<()> {
        let (body, id) = (bytes.to_vec(), EventId::new().to_string());
        let seconds = Millis::now().0.div_euclid(1000);
        let signature = webhook::sign(&[Secret::new(SECRET)], &id, seconds, &body)?;
        let url = format!("http://{}/{topic}", self.address);
        // Fails only if a provider is installed already, which then is the one to use.
        let _ = ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build()?;
        tokio::spawn(async move {
            loop {
                let request = client.post(&url).body(body.clone());
                let request = request.header("webhook-id", &id);
                let request = request.header("webhook-timestamp", seconds);
                let answer = request.header("webhook-signature", &signature).send().await;
                match answer {
                    Ok(answer) if answer.status() != StatusCode::SERVICE_UNAVAILABLE => break,
                    _ => sleep(LOOK).await,
                }
            }
        });
        Ok(())
    }

    async fn stranger(&self, manner: Manner) -> Result<Option<Arc<dyn Sink>>> {
        self.sink_to(self.address, WRONG, manner).map(Some)
    }

    async fn detour(&self, manner: Manner) -> Result<(Line, Arc<dyn Sink>)> {
        let line = Line::open(self.address).await?;
        let sink = self.sink_to(line.address(), SECRET, manner)?;
        Ok((line, sink))
    }

    async fn feed_detour(&self, _subscription: Subscription) -> Result<Option<Detour>> {
        Ok(None)
    }

    async fn pause(&self, paused: bool) -> Result<()> {
        self.front().pause(paused)
    }

    async fn kill(&self) -> Result<()> {
        self.front().kill()
    }

    async fn revive(&self) -> Result<()> {
        self.front().revive()
    }
}

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Which feeds take a topic. A topic that was made and that nobody takes now asks for patience.
#[derive(Default)]
struct Desks {
    topics: Mutex<HashMap<String, Vec<(usize, HttpFeed)>>>,
    turn: AtomicUsize,
}

impl Desks {
    fn topics(&self) -> MutexGuard<'_, HashMap<String, Vec<(usize, HttpFeed)>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, member: usize) {
        for members in self.topics().values_mut() {
            members.retain(|(other, _)| *other != member);
        }
    }

    async fn pass_on(&self, request: Request) -> Response {
        if request.method() != Method::POST {
            return StatusCode::NO_CONTENT.into_response();
        }
        let (parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, BODY).await else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        let topic = topic(&parts.headers, &body);
        let topic = topic.unwrap_or_else(|| parts.uri.path().trim_matches('/').to_owned());
        let chosen = self.topics().get(&topic).map(|members| {
            let turn = self.turn.fetch_add(1, Ordering::SeqCst);
            members.get(turn % members.len().max(1)).map(|(_, feed)| feed.clone())
        });
        match chosen {
            Some(Some(feed)) => feed.receive(Request::from_parts(parts, Body::from(body))).await,
            Some(None) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            None => (StatusCode::NOT_FOUND, format!("there is no {topic}")).into_response(),
        }
    }
}

fn topic(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    if let Some(named) = headers.get("ce-topic").and_then(|value| value.to_str().ok()) {
        return Some(named.to_owned());
    }
    // Without reading the payload, which may hold what no number can be.
    let document: HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    serde_json::from_str(document.get("topic")?.get()).ok()
}

/// Serves in threads of its own, which end with it.
fn serve(listener: TcpListener, desks: Arc<Desks>) -> Result<Runtime> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let pass =
        async |State(desks): State<Arc<Desks>>, request: Request| desks.pass_on(request).await;
    let app = Router::new().fallback(pass).with_state(desks);
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, app).await
    });
    Ok(runtime)
}

/// One consumer. When it is gone, its requests go to others.
struct Member {
    feed: HttpFeed,
    member: usize,
    desks: Arc<Desks>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.desks.leave(self.member);
        self.feed.close().now_or_never();
    }
}

#[async_trait]
impl Feed for Member {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        self.feed.next(at_most).await
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        self.feed.ack(handle).await
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        self.feed.nack(handle, nack).await
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        self.feed.extend(handle, by).await
    }

    async fn close(&self) {
        self.desks.leave(self.member);
        self.feed.close().await;
    }
}
