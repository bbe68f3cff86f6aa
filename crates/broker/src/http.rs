//! HTTP: one POST per event, as a CloudEvent, signed if there is a secret; and who receives it.
//!
//! The sink never follows a redirect, never asks the environment for a proxy, never tries again by
//! itself, and connects to public addresses only, unless the config allows others.

mod address;
mod answer;
mod arrive;
mod desk;
mod feed;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Durability, Event, Inspection, Millis, Refusal, Secret, Sink};
use reqwest::{Client, Method, Request, redirect};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::address::Resolver;
use self::request::Form;
use crate::gate::{Gate, Gates};
use crate::keyed::{self, Offered, Until};
use crate::traits::Traits;
use crate::webhook;
use crate::width::Signal;

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
    url: Url,
    /// The destination as a person may read it.
    host: String,
    form: Form,
    until: Until,
    gate: Arc<Gate>,
    masks: Vec<Secret>,
    durability: Durability,
}

impl Http {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Http, Cause> {
        let url = address::read(&options.url, options.allow_private)?;
        let tls = if url.scheme() == "http" { Some(trust_nobody()?) } else { None };
        Http::with(options, url, tls)
    }

    fn with(options: Options, url: Url, tls: Option<ClientConfig>) -> Result<Http, Cause> {
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, why);
        if options.timeout.is_zero() {
            return Err(invalid("timeout: it must be longer than 0"));
        }
        webhook::sign(&options.secrets, "", 0, b"").map_err(|error| invalid(&error.to_string()))?;
        let client = client(&options, tls)?;
        let own = options.headers.iter().map(|(_, secret)| secret);
        let masks = options.secrets.iter().chain(own).flat_map(masks).collect();
        let form = Form {
            mode: options.mode,
            source: options.source,
            headers: request::own(&options.headers)?,
            secrets: options.secrets,
        };
        let gate = options.gates.of(&url.origin().ascii_serialization(), options.concurrency);
        let port = url.port_or_known_default().unwrap_or_default();
        let host = format!("{}:{port}", url.host_str().unwrap_or_default());
        let until = Until { patience: options.timeout, stop: options.stop };
        let durability = options.durability;
        Ok(Http { client, url, host, form, until, gate, masks, durability })
    }

    async fn offer(&self, event: &Event) -> Offered {
        let (headers, body) = match self.form.fill(event, Millis::now()) {
            Ok(filled) => filled,
            Err(cause) => return (Err(Refusal::Reject(cause)), Signal::Silent),
        };
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        let began = Instant::now();
        match self.client.execute(request).await {
            Ok(response) => {
                let signal = answer::load(response.status(), began.elapsed());
                (answer::read(response, &self.masks).await, signal)
            }
            Err(error) => {
                let refusal = answer::failed(error, &self.host);
                let signal = answer::load_of_silence(&refusal);
                (Err(refusal), signal)
            }
        }
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
        keyed::publish(events, &self.gate, &self.until, |event| self.offer(event)).await
    }

    /// Any response at all means that the destination can be reached, and so does a connection that
    /// stays silent.
    async fn probe(&self) -> Result<(), Refusal> {
        let request = Request::new(Method::OPTIONS, self.url.clone());
        let Err(error) = self.client.execute(request).await else { return Ok(()) };
        match answer::failed(error, &self.host) {
            down @ Refusal::Down(_) => Err(down),
            _ => Ok(()),
        }
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        Ok(Inspection::of(self.durability))
    }
}

/// Makes the client; without `tls`, it trusts the platform's roots.
fn client(options: &Options, tls: Option<ClientConfig>) -> Result<Client, Cause> {
    // Below the idle timeout of common servers (5 s), so that few events meet a closing connection.
    const IDLE: Duration = Duration::from_secs(4);
    const CONNECT: Duration = Duration::from_secs(5);
    let builder = Client::builder()
        .user_agent(concat!("postbox/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .timeout(options.timeout)
        .connect_timeout(CONNECT.min(options.timeout / 2))
        .pool_idle_timeout(IDLE)
        .dns_resolver(Resolver { allow_private: options.allow_private });
    let builder = match tls {
        Some(config) => builder.tls_backend_preconfigured(config),
        None => {
            // Fails only if a provider is installed already, which then is the one to use.
            let _ = ring::default_provider().install_default();
            builder
        }
    };
    let invalid = |error: reqwest::Error| {
        Cause::new(Code::ConfigInvalid, format_args!("TLS: {}", answer::chain(&error)))
    };
    builder.build().map_err(invalid)
}

/// For plain HTTP, which must work on a machine without certificates.
pub(crate) fn trust_nobody() -> Result<ClientConfig, Cause> {
    let invalid = |error| Cause::new(Code::ConfigInvalid, format_args!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
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
