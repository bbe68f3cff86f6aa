//! The connection to a server. It lives once, and nothing is said twice: a new one is made by
//! whoever next has something to say.

use std::time::Duration;

use event::{Cause, Code, Refusal, Secret};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, cmd};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::refusal;

/// What is wrong where nobody is let in, and what to do.
const LET_IN: &str = "it does not let this user in with this password; correct both in `url`";
/// For how long a failed try stands for those that come right after it.
const FRESH: Duration = Duration::from_millis(250);
/// The largest value that a server takes, unless it says otherwise.
const LARGEST: usize = 512 << 20;

/// A server, and the connection while there is one.
pub(super) struct Link {
    client: Client,
    /// The server as a person may read it.
    pub(super) host: String,
    patience: Duration,
    state: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    line: Option<Line>,
    failed: Option<(Instant, Refusal)>,
    lines: u64,
}

/// One connection, for as many as want to say something at once.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) connection: MultiplexedConnection,
    /// The largest value that this server takes.
    pub(super) largest: usize,
    number: u64,
}

impl Link {
    /// Checks the address. Nothing is connected yet.
    pub(super) fn new(url: &Secret, patience: Duration) -> Result<Link, Cause> {
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, format_args!("url: {why}"));
        // The text of an error may hold the address, and that a password.
        let client = Client::open(url.reveal())
            .map_err(|_| invalid("it is no address of Redis: redis://HOST:PORT/DATABASE"))?;
        if patience.is_zero() {
            return Err(Cause::new(Code::ConfigInvalid, "timeout: it must be longer than 0"));
        }
        let host = client.get_connection_info().addr().to_string();
        Ok(Link { client, host, patience, state: Mutex::default() })
    }

    /// Returns the connection, or makes one.
    pub(super) async fn line(&self) -> Result<Line, Refusal> {
        let mut known = self.state.lock().await;
        if let Some(line) = &known.line {
            return Ok(line.clone());
        }
        if let Some((at, refusal)) = &known.failed
            && at.elapsed() < FRESH
        {
            return Err(refusal.clone());
        }
        match self.connect(known.lines + 1).await {
            Ok(line) => {
                *known = Known { line: Some(line.clone()), failed: None, lines: line.number };
                Ok(line)
            }
            Err(refusal) => {
                known.failed = Some((Instant::now(), refusal.clone()));
                Err(refusal)
            }
        }
    }

    /// Forgets a connection that broke or fell silent: what it has not written goes with it.
    pub(super) async fn forget(&self, line: &Line) {
        let mut known = self.state.lock().await;
        if known.line.as_ref().is_some_and(|other| other.number == line.number) {
            known.line = None;
        }
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        self.state.lock().await.line = None;
    }

    /// Makes a connection of its own, for somebody who waits on it.
    pub(super) async fn open(&self, answer: Duration) -> Result<MultiplexedConnection, Refusal> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience.min(Duration::from_secs(5))))
            .set_response_timeout(Some(answer));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let down = |code, why: &dyn std::fmt::Display| {
            Refusal::Down(Cause::new(code, format_args!("{}: {why}", self.host)))
        };
        match timeout(self.patience, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) if is_auth(&error) => Err(down(Code::AuthRefused, &LET_IN)),
            Ok(Err(error)) => Err(down(Code::SinkDown, &refusal::plain(&error))),
            Err(_) => Err(down(Code::SinkDown, &"nobody answers")),
        }
    }

    async fn connect(&self, number: u64) -> Result<Line, Refusal> {
        let mut connection = self.open(self.patience).await?;
        let mut asking = cmd("CONFIG");
        asking.arg("GET").arg("proto-max-bulk-len");
        // Who may not ask is told the usual.
        let told: Result<Vec<String>, _> = asking.query_async(&mut connection).await;
        let largest = told.ok().and_then(|told| told.get(1)?.parse().ok()).unwrap_or(LARGEST);
        Ok(Line { connection, largest, number })
    }
}

fn is_auth(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shown_without_its_password() {
        let second = Duration::from_secs(1);
        let link = Link::new(&Secret::new("redis://u:canary@a:6380/2"), second).unwrap();
        assert_eq!(link.host, "a:6380");
        for wrong in ["http://u:canary@a", "canary", "redis://u:canary@a/x", ""] {
            let cause = Link::new(&Secret::new(wrong), second).err().expect("it is wrong");
            assert!(!cause.to_string().contains("canary"), "{cause}");
            assert_eq!(cause.code, Code::ConfigInvalid);
        }
        assert!(Link::new(&Secret::new("redis://a"), Duration::ZERO).is_err());
    }
}
