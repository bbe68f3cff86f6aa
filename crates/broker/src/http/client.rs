//! Requests to one destination, over connections that are used again.
//!
//! It never writes a request twice: only one of which nothing was written goes to another
//! connection. How many are out at once is decided elsewhere.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::{HeaderMap, Request, Response};
use tokio::time::{Instant, sleep, timeout};

use super::address::Forbidden;
use super::answer::chain;
use super::dial::Dial;

/// Below the idle timeout of common servers (5 s), so that few events meet a closing connection.
const IDLE: Duration = Duration::from_secs(4);
/// How long one that was used may take until it can be written to: a new one takes about as long.
const READY: Duration = Duration::from_millis(50);

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failure {
    /// The name leads only to addresses that are not public.
    Forbidden(Forbidden),
    /// There is no connection.
    Down(String),
    /// The connection ended, or what came over it is no response.
    Broken(hyper::Error),
    /// The time is over.
    Late,
}

impl Failure {
    pub(super) fn down(error: impl Error + 'static) -> Failure {
        Failure::Down(chain(&error))
    }
}

/// One end of a connection.
pub(super) type Line = SendRequest<Whole>;

/// Asks one destination.
#[derive(Debug)]
pub(super) struct Client {
    dial: Dial,
    idle: Arc<Idle>,
}

impl Client {
    pub(super) fn new(dial: Dial) -> Client {
        Client { dial, idle: Arc::default() }
    }

    /// Asks, and returns the response with its connection, which can be used again once the
    /// response was read to its end.
    pub(super) async fn ask(
        &self,
        mut request: Request<Whole>,
    ) -> Result<(Response<Incoming>, Line), Failure> {
        while let Some(mut line) = self.idle.take() {
            let Ok(Ok(())) = timeout(READY, line.ready()).await else { continue };
            match line.try_send_request(request).await {
                Ok(response) => return Ok((response, line)),
                Err(mut error) => match error.take_message() {
                    Some(unwritten) => request = unwritten,
                    None => return Err(Failure::Broken(error.into_error())),
                },
            }
        }
        // In a box, because it is rare and far larger than all the rest of a request.
        let line = Box::pin(self.dial.connect()).await?;
        first(line, request).await
    }

    /// Takes a connection back for the next request, and the headers of what came over it for the
    /// room they have: they are in the map that the request had.
    pub(super) fn keep(&self, line: Line, mut headers: HeaderMap) {
        headers.clear();
        self.idle.put(line, headers);
    }

    /// Returns a map without headers, with room for them if there is one.
    pub(super) fn headers(&self) -> HeaderMap {
        self.idle.lines().maps.pop().unwrap_or_default()
    }

    /// Ends the connections that nobody uses.
    pub(super) fn close(&self) {
        let mut lines = self.idle.lines();
        (lines.free, lines.maps) = Default::default();
    }

    /// Returns how many connections can be used again.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.lines().free.iter().filter(|(line, _)| !line.is_closed()).count()
    }
}

/// Asks over a new connection. One that ended before anything was written led nowhere.
async fn first(
    mut line: Line,
    request: Request<Whole>,
) -> Result<(Response<Incoming>, Line), Failure> {
    match line.try_send_request(request).await {
        Ok(response) => Ok((response, line)),
        Err(mut error) => Err(match error.take_message() {
            Some(_) => Failure::down(error.into_error()),
            None => Failure::Broken(error.into_error()),
        }),
    }
}

/// Connections that nobody uses.
#[derive(Debug, Default)]
struct Idle(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    free: Vec<(Line, Instant)>,
    /// No more than there were requests at once.
    maps: Vec<HeaderMap>,
    /// Whether somebody looks after them.
    swept: bool,
}

impl Idle {
    /// Takes the one that was used last, if possible of those that can be written to at once.
    fn take(&self) -> Option<Line> {
        let (mut lines, now) = (self.lines(), Instant::now());
        lines.free.retain(|(_, since)| now - *since < IDLE);
        let at = lines.free.iter().rposition(|(line, _)| line.is_ready());
        let at = at.or(lines.free.len().checked_sub(1))?;
        Some(lines.free.remove(at).0)
    }

    fn put(self: &Arc<Idle>, line: Line, map: HeaderMap) {
        let mut lines = self.lines();
        lines.maps.push(map);
        lines.free.push((line, Instant::now()));
        if !std::mem::replace(&mut lines.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes what has been idle for too long, until there is nothing left to close.
async fn sweep(idle: Weak<Idle>) {
    loop {
        sleep(IDLE).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut lines = idle.lines();
        lines.free.retain(|(line, since)| since.elapsed() < IDLE && !line.is_closed());
        if lines.free.is_empty() {
            *lines = Lines::default();
            return;
        }
    }
}

/// The body of a request, all of it at once.
#[derive(Debug)]
pub(super) struct Whole(Option<Bytes>);

impl Whole {
    pub(super) fn new(bytes: Bytes) -> Whole {
        Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.0.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(length as u64)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;
    use crate::http::dial::speak;

    #[tokio::test]
    async fn a_new_connection_that_ends_is_down_only_if_nothing_was_written() {
        let (here, there) = duplex(1024);
        let line = speak(here).await.unwrap();
        drop(there);
        let request = || Request::new(Whole::new(Bytes::from_static(b"{}")));
        let unwritten = first(line, request()).await;
        assert!(matches!(unwritten, Err(Failure::Down(_))), "{unwritten:?}");

        let (here, mut there) = duplex(1024);
        let line = speak(here).await.unwrap();
        let read_and_cut = async move {
            assert_eq!(there.read_u8().await.unwrap(), b'G');
        };
        let (written, ()) = tokio::join!(first(line, request()), read_and_cut);
        assert!(matches!(written, Err(Failure::Broken(_))), "{written:?}");
    }
}
