//! HTTP: one POST per event, as a CloudEvent, signed if there is a secret; and who receives it.
//!
//! The sink never follows a redirect, never asks the environment for a proxy, never tries again by
//! itself, and connects to public addresses only, unless the config allows others.

mod address;
mod answer;
mod arrive;
mod client;
mod desk;
mod dial;
mod feed;
mod request;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use event::{
    Answer, Cause, Code, Durability, Event, Finding, Grade, Inspection, Millis, Refusal, Secret,
    Sink,
};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, Uri};
use rustls::RootCertStore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use url::{Position, Url};

use self::client::{Client, Failure, Line, Whole};
use self::dial::Dial;
use self::request::Form;
use crate::gate::{Gate, Gates};
use crate::keyed::{self, Offered, Until};
use crate::traits::Traits;
use crate::webhook;
use crate::width::Signal;

#[cfg(feature = "rabbitmq")]
pub(crate) use self::answer::chain;
#[cfg(feature = "rabbitmq")]
pub(crate) use self::dial::trust_nobody;
pub use self::feed::{HttpFeed, Reception};

/// What a destination over HTTP can do, if it receives by [`HttpFeed`]; any other one is asked only
/// for an honest status.
pub const TRAITS: Traits = Traits {
    kind: "http",
    durability: Durability::Replicated,
    keeps: false,
    largest: Reception::LARGEST,
    dedupes: false,
    knows_topics: true,
    ordered: true,
    counts: false,
    leases: true,
    levels: &[],
};

/// How a CloudEvent is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Attributes as `ce-…` headers, the payload as the body.
    #[default]
    Binary,
    /// One JSON document as the body.
    Structured,
}

/// Where and how events are posted.
#[derive(Clone)]
pub struct Options {
    /// The destination: `http` or `https`, without user and password.
    pub url: String,
    /// The layout.
    pub mode: Mode,
    /// How long one event may take; half of it, at most 5 s, to connect. It must be well below the
    /// lease and the drain, because a publish can last twice as long.
    pub timeout: Duration,
    /// When the relay stops: what is out is waited for, and nothing new is offered.
    pub stop: CancellationToken,
    /// Standard Webhooks secrets (`whsec_…`). All of them sign, for the time of a rotation.
    pub secrets: Vec<Secret>,
    /// Further headers, such as `authorization`.
    pub headers: Vec<(String, Secret)>,
    /// Whether addresses that are not public may be connected to.
    pub allow_private: bool,
    /// What a receipt of this destination is worth. HTTP does not tell: it is the operator's word.
    pub durability: Durability,
    /// Which outbox the events came from.
    pub source: String,
    /// The most events at once; how many it is in fact follows the destination.
    pub concurrency: usize,
    /// Where the gate of the destination is. All sinks of a process should share one, so that those
    /// with the same scheme, host and port count together.
    pub gates: Gates,
}

impl Options {
    /// Returns the usual options: binary, 10 s, unsigned, public addresses only, 16 at once.
    pub fn new(url: impl Into<String>, source: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            mode: Mode::Binary,
            timeout: Duration::from_secs(10),
            stop: CancellationToken::new(),
            secrets: Vec::new(),
            headers: Vec::new(),
            allow_private: false,
            durability: Durability::BestEffort,
            source: source.into(),
            concurrency: 16,
            gates: Gates::default(),
        }
    }
}

// Without the URL: its path or query may hold a secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { mode, timeout, allow_private, source, concurrency, .. } = self;
        f.debug_struct("Options")
            .field("mode", mode)
            .field("timeout", timeout)
            .field("allow_private", allow_private)
            .field("source", source)
            .field("concurrency", concurrency)
            .finish_non_exhaustive()
    }
}

/// Posts events.
pub struct Http {
    client: Client,
    /// What of the URL is asked for.
    path: Uri,
    /// The destination as a person may read it.
    host: String,
    form: Form,
    until: Until,
    gate: Arc<Gate>,
    masks: Vec<Secret>,
    durability: Durability,
    /// Why the last probe was turned away, until an event is taken in.
    turned: Mutex<Option<Cause>>,
}

impl Http {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Http, Cause> {
        let url = address::read(&options.url, options.allow_private)?;
        Http::with(options, url, None)
    }

    /// Checks the options; without `roots`, it trusts the machine's.
    fn with(options: Options, url: Url, roots: Option<RootCertStore>) -> Result<Http, Cause> {
        const CONNECT: Duration = Duration::from_secs(5);
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, why);
        if options.timeout.is_zero() {
            return Err(invalid("timeout: it must be longer than 0"));
        }
        webhook::sign(&options.secrets, "", 0, b"").map_err(|error| invalid(&error.to_string()))?;
        let connect = CONNECT.min(options.timeout / 2);
        let client = Client::new(Dial::new(&url, options.allow_private, connect, roots)?);
        let path = url[Position::BeforePath..Position::AfterQuery].parse();
        let path = path.map_err(|_| invalid("url: its path is not one that HTTP allows"))?;
        let own = options.headers.iter().map(|(_, secret)| secret);
        let masks = options.secrets.iter().chain(own).flat_map(masks).collect();
        let form = Form {
            mode: options.mode,
            source: options.source,
            headers: request::common(&url, &options.headers)?,
            secrets: options.secrets,
        };
        let gate = options.gates.of(&url.origin().ascii_serialization(), options.concurrency);
        let port = url.port_or_known_default().unwrap_or_default();
        let host = format!("{}:{port}", url.host_str().unwrap_or_default());
        let until = Until { patience: options.timeout, stop: options.stop };
        let durability = options.durability;
        let turned = Mutex::default();
        Ok(Http { client, path, host, form, until, gate, masks, durability, turned })
    }

    async fn offer(&self, event: &Event) -> Offered {
        let mut headers = self.client.headers();
        let body = match self.form.fill(event, Millis::now(), &mut headers) {
            Ok(body) => body,
            Err(cause) => return (Err(Refusal::Reject(cause)), Signal::Silent),
        };
        let mut request = Request::new(Whole::new(body));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        let began = Instant::now();
        let until = began + self.until.patience;
        match self.ask(request, until).await {
            Ok((response, line)) => {
                let signal = answer::load(response.status(), began.elapsed());
                (self.read(response, line, until).await, signal)
            }
            Err(failure) => {
                let refusal = answer::failed(failure, &self.host);
                let signal = answer::load_of_silence(&refusal);
                (Err(refusal), signal)
            }
        }
    }

    async fn ask(
        &self,
        mut request: Request<Whole>,
        until: Instant,
    ) -> Result<(Response<Incoming>, Line), Failure> {
        *request.uri_mut() = self.path.clone();
        timeout_at(until, self.client.ask(request)).await.unwrap_or(Err(Failure::Late))
    }

    fn turned(&self) -> MutexGuard<'_, Option<Cause>> {
        self.turned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the answer to a probe says of events: a probe is not signed, and whoever wants
    /// signatures does not let it in.
    fn telling(&self, refusal: Refusal) -> Option<Cause> {
        let Refusal::Down(cause) = refusal else { return None };
        (cause.code != Code::AuthRefused || self.form.secrets.is_empty()).then_some(cause)
    }

    /// Reads a response; if that was to its end, its connection is used again.
    async fn read(&self, mut response: Response<Incoming>, line: Line, until: Instant) -> Answer {
        let (answer, ended) = answer::read(&mut response, until, &self.masks).await;
        if ended {
            self.client.keep(line, std::mem::take(response.headers_mut()));
        }
        answer
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("host", &self.host).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for Http {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let answers =
            keyed::publish(events, &self.gate, &self.until, |event| self.offer(event)).await;
        if answers.iter().any(Result::is_ok) {
            *self.turned() = None;
        }
        answers
    }

    /// Any response at all means that the destination can be reached, and so does a connection that
    /// stays silent. One that would rest the lane is found: an event may have the same.
    async fn probe(&self) -> Result<(), Refusal> {
        let mut request = Request::new(Whole::new(Bytes::new()));
        *request.method_mut() = Method::OPTIONS;
        *request.headers_mut() = self.client.headers();
        request.headers_mut().extend(self.form.headers.clone());
        let until = Instant::now() + self.until.patience;
        match self.ask(request, until).await.map_err(|failure| answer::failed(failure, &self.host))
        {
            Ok((response, line)) => {
                let refusal = self.read(response, line, until).await.err();
                *self.turned() = refusal.and_then(|refusal| self.telling(refusal));
                Ok(())
            }
            Err(down @ Refusal::Down(_)) => Err(down),
            Err(_) => Ok(()),
        }
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let findings = self.turned().iter().map(turned_away).collect();
        Ok(Inspection { findings, ..Inspection::of(self.durability) })
    }

    async fn close(&self) {
        self.client.close();
    }
}

fn turned_away(cause: &Cause) -> Finding {
    let detail = format!(
        "{cause}: so OPTIONS was answered, and if POST is, too, nothing is taken in and the lane \
         rests; `postbox explain {}`",
        cause.code
    );
    Finding::new(Grade::Warn, "answer", detail)
}

/// Returns what to mask of a secret: all of it, and what follows a scheme such as `Bearer`. Shorter
/// texts hide nothing, and would mask half of an answer.
fn masks(secret: &Secret) -> Vec<Secret> {
    let whole = secret.reveal().trim();
    let last = whole.rsplit(' ').next().unwrap_or(whole);
    [whole, last].into_iter().filter(|text| text.len() >= 6).map(Secret::new).collect()
}

#[cfg(test)]
mod tests;
