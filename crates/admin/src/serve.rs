//! The listener: takes connections, gives slow ones up, and ends them gracefully.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::gate::Peer;
use crate::routes::stoppable;
use crate::{AdminError, Console, Options, check_token};

/// How long a connection may take for a request's headers, or be idle between two requests.
const QUIET: Duration = Duration::from_secs(10);
/// How long requests under way may take to end after the stop.
const GRACE: Duration = Duration::from_secs(5);
/// Connections at once.
const CONNECTIONS: usize = 256;
/// Bytes of a request's headers at the most.
const HEADERS: usize = 16 * 1024;

/// Serves the console until `stop`, then lets requests under way end.
pub async fn serve(
    listener: TcpListener,
    console: Console,
    options: Options,
    stop: CancellationToken,
) -> Result<(), AdminError> {
    let local = listener.local_addr()?;
    match &options.token {
        Some(token) => check_token(token)?,
        None if !local.ip().is_loopback() => return Err(AdminError::Open(local)),
        None => {}
    }
    let router = stoppable(console, options, local, stop.child_token());
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Some((stream, peer, place)) = next(&listener, &places, &stop).await {
        let connection = connection(stream, peer, router.clone(), graceful.watcher());
        tokio::spawn(async move {
            connection.await;
            drop(place);
        });
    }
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests to the console were cut off: they did not end in time");
    }
    Ok(())
}

async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    loop {
        let place = stop.run_until_cancelled(places.clone().acquire_owned()).await?;
        let place = place.expect("the semaphore is never closed");
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok((stream, peer)) => return Some((stream, peer, place)),
            Err(error) => {
                // Out of file descriptors, most likely: others must end before accepting helps.
                tracing::warn!(%error, "the console cannot take a connection");
                stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(100))).await?;
            }
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, watcher: Watcher) {
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        inner.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(QUIET)
        .max_header_size(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%peer, %error, "a connection to the console broke");
    }
}
