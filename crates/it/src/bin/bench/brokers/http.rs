//! HTTP: a receiver that takes everything in, with a thread of its own; one request per event.
//!
//! The bare loop uses `reqwest`, as most would. Our sink uses `hyper`, which is beneath it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use broker::http::{Http, Options};
use event::Sink;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use rustls::crypto::ring;
use tokio::runtime::{Builder, Runtime};

use super::backlog::SOURCE;
use super::crew::side_by_side;
use super::letter::Letter;
use super::pier::{Loop, Pier};

/// How many requests are on the way: as many as our sink has at the most, unless told otherwise.
const AT_ONCE: usize = 16;

pub(super) struct Receiver {
    address: SocketAddr,
    taken: Arc<AtomicUsize>,
    /// Its thread ends with it.
    runtime: Option<Runtime>,
}

impl Receiver {
    pub(super) fn start() -> Result<Receiver> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let (address, taken) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let router = Router::new().route("/events", post(take)).with_state(taken.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        });
        Ok(Receiver { address, taken, runtime: Some(runtime) })
    }

    fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn take(State(taken): State<Arc<AtomicUsize>>, body: Bytes) -> StatusCode {
    if body.is_empty() {
        return StatusCode::BAD_REQUEST;
    }
    taken.fetch_add(1, Ordering::SeqCst);
    StatusCode::NO_CONTENT
}

#[async_trait]
impl Pier for Receiver {
    fn bare_loop(&self) -> &'static str {
        "reqwest: 16 requests on the way; and a table drained beside it"
    }

    async fn topic(&self) -> Result<String> {
        Ok("order.paid".to_owned())
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        let options = Options { allow_private: true, ..Options::new(self.url(), SOURCE) };
        Ok(Arc::new(Http::new(options).map_err(anyhow::Error::msg)?))
    }

    async fn bare(&self, _topic: &str, letters: Vec<Letter>) -> Result<Loop> {
        // Fails only if a provider is installed already, which then is the one to use.
        let _ = ring::default_provider().install_default();
        let (client, url) = (Client::builder().no_proxy().build()?, self.url().parse::<Url>()?);
        let offer = move |letter: Letter| {
            let asking = headers(&letter).map(|headers| {
                let mut request = Request::new(Method::POST, url.clone());
                *request.headers_mut() = headers;
                *request.body_mut() = Some(letter.payload.into());
                client.execute(request)
            });
            async move {
                let answer = asking?.await?.error_for_status()?;
                answer.bytes().await?;
                Ok(())
            }
        };
        Ok(Box::pin(side_by_side(letters, AT_ONCE, offer)))
    }

    async fn count(&self, _topic: &str) -> Result<usize> {
        Ok(self.taken.load(Ordering::SeqCst))
    }

    async fn clear(&self, _topic: &str) -> Result<()> {
        self.taken.store(0, Ordering::SeqCst);
        Ok(())
    }
}

fn headers(letter: &Letter) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(letter.attributes.len() + 2);
    for (name, value) in &letter.attributes {
        let name: HeaderName = format!("ce-{name}").parse().context("a name of a header")?;
        headers.insert(name, value.parse()?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(letter.media));
    headers.insert("idempotency-key", letter.id.parse()?);
    Ok(headers)
}
