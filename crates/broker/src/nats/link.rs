//! The connection to a cluster. It lives once: what was not written when it broke is never written.
//!
//! The client library would keep publishes of a broken connection and write them after the next
//! one is made, long after they were answered for. So once connected it is told of an address that
//! nobody can listen at: its own reconnecting ends there, and a new connection is made here, by
//! whoever next has something to say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Plain, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerError};
use event::{Cause, Code, Refusal};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout};

use super::Access;
use crate::percent;

/// Where nobody can listen.
const NOWHERE: &str = "nats://127.0.0.1:0";
/// Publishes under way at the most; far more than any sink has.
const AT_ONCE: usize = 1 << 14;
/// What to do where nobody is let in.
const LET_IN: &str = "correct the user and the password in `url`, `token` or `credentials`";
/// For how long a failed try stands for those that come right after it.
const FRESH: Duration = Duration::from_millis(250);

/// A cluster and how to be let in; the connection, while there is one.
pub(super) struct Link {
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    /// The cluster as a person may read it.
    pub(super) host: String,
    patience: Duration,
    denied: Arc<Denied>,
    state: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    context: Option<Context>,
    failed: Option<(Instant, Cause)>,
}

/// What the server said may not be done.
#[derive(Default)]
struct Denied {
    subjects: Plain<HashMap<String, Instant>>,
    bell: Notify,
}

impl Link {
    /// Checks the access. Nothing is connected yet.
    pub(super) fn new(access: &Access, patience: Duration) -> Result<Link, Cause> {
        let servers = servers(access)?;
        let host = servers.iter().map(|it| format!("{}:{}", it.host(), it.port()));
        let host = host.collect::<Vec<_>>().join(",");
        let denied = Arc::new(Denied::default());
        let options = options(access, &servers, patience, &denied)?;
        Ok(Link { servers, options, host, patience, denied, state: Mutex::default() })
    }

    /// Returns JetStream by a connection that lives, or makes one.
    pub(super) async fn context(&self) -> Result<Context, Refusal> {
        let mut known = self.state.lock().await;
        if let Some(context) = &known.context
            && context.client().connection_state() == State::Connected
        {
            return Ok(context.clone());
        }
        known.context = None;
        if let Some((at, cause)) = &known.failed
            && at.elapsed() < FRESH
        {
            return Err(Refusal::Down(cause.clone()));
        }
        match self.connect().await {
            Ok(client) => {
                let builder = ContextBuilder::new().timeout(self.patience);
                let context = builder.max_ack_inflight(AT_ONCE).build(client);
                *known = Known { context: Some(context.clone()), failed: None };
                Ok(context)
            }
            Err(cause) => {
                known.failed = Some((Instant::now(), cause.clone()));
                Err(Refusal::Down(cause))
            }
        }
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        let context = self.state.lock().await.context.take();
        if let Some(context) = context {
            // It is gone already when it cannot be asked.
            let _ = context.client().drain().await;
        }
    }

    /// Returns when the server says that this user may not publish to a subject.
    pub(super) async fn denied(&self, subject: &str, since: Instant) {
        loop {
            let rung = self.denied.bell.notified();
            if self.denied.heard(subject, since) {
                return;
            }
            rung.await;
        }
    }

    async fn connect(&self) -> Result<Client, Cause> {
        let host = &self.host;
        let options = self.options.clone();
        let connecting = options.connect(self.servers.clone());
        let connected = timeout(self.patience, connecting).await;
        let late = |_| Cause::new(Code::SinkDown, format_args!("{host}: nobody answers"));
        let client = connected.map_err(late)?.map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                Cause::new(Code::AuthRefused, format_args!("{host}: {error}: {LET_IN}"))
            }
            _ => Cause::new(Code::SinkDown, format_args!("{host}: {error}")),
        })?;
        let nowhere: ServerAddr = NOWHERE.parse().expect("an address is an address");
        let only_once = client.set_server_pool(vec![nowhere]).await;
        let lost = |error| Cause::new(Code::SinkDown, format_args!("{host}: {error}"));
        only_once.map_err(lost)?;
        Ok(client)
    }
}

fn servers(access: &Access) -> Result<Vec<ServerAddr>, Cause> {
    let invalid = |why: String| Cause::new(Code::ConfigInvalid, format_args!("url: {why}"));
    let url = access.url.reveal();
    // Those that name no scheme have that of the first.
    let scheme = url.split_once("://").map_or("nats", |(scheme, _)| scheme.trim());
    let parse = |one: &str| {
        let one = match one.trim() {
            named if named.contains("://") => named.to_owned(),
            host => format!("{scheme}://{host}"),
        };
        let server: ServerAddr = one.parse().map_err(|error: std::io::Error| {
            // The text of the error may hold the address, and that a password.
            invalid(format!("it is no address of NATS ({})", error.kind()))
        })?;
        match server.scheme() {
            _ if server.host().is_empty() => Err(invalid("it names no host".to_owned())),
            "nats" | "tls" => Ok(server),
            other => Err(invalid(format!("{other:?} is neither nats nor tls"))),
        }
    };
    url.split(',').map(parse).collect()
}

fn options(
    access: &Access,
    servers: &[ServerAddr],
    patience: Duration,
    denied: &Arc<Denied>,
) -> Result<ConnectOptions, Cause> {
    let denied = Arc::clone(denied);
    let mut options = ConnectOptions::new()
        .name("postbox")
        .connection_timeout(patience.min(Duration::from_secs(5)))
        .request_timeout(Some(patience))
        .ping_interval((patience / 2).clamp(Duration::from_secs(1), Duration::from_secs(30)))
        .ignore_discovered_servers()
        // Each server once: then the connection is given up.
        .max_reconnects(servers.len())
        .event_callback(move |event| {
            denied.hear(&event);
            async {}
        });
    if let Some(server) = servers.iter().find(|server| server.has_user_pass()) {
        let user = percent::decode(server.username().unwrap_or_default());
        match server.password() {
            Some(password) => {
                options = options.user_and_password(user, percent::decode(password));
            }
            // As every client of NATS reads it.
            None => options = options.token(user),
        }
    }
    if let Some(token) = &access.token {
        options = options.token(token.reveal().to_owned());
    }
    if let Some(credentials) = &access.credentials {
        let invalid = |_| {
            let detail = "credentials: this is not the text of a credentials file";
            Cause::new(Code::ConfigInvalid, detail)
        };
        options = options.credentials(credentials.reveal()).map_err(invalid)?;
    }
    Ok(options)
}

impl Denied {
    fn heard(&self, subject: &str, since: Instant) -> bool {
        let subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        subjects.get(subject).is_some_and(|at| *at >= since)
    }

    fn hear(&self, event: &Event) {
        const WORDS: &str = "permissions violation for publish to ";
        let Event::ServerError(ServerError::Other(said)) = event else { return };
        if !said.to_lowercase().starts_with(WORDS) {
            return;
        }
        let subject = said[WORDS.len()..].trim_matches('"').to_owned();
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        // Subjects of a request end with numbers of their own: they must not add up.
        subjects.retain(|_, at| at.elapsed() < Duration::from_secs(60));
        subjects.insert(subject, Instant::now());
        drop(subjects);
        self.bell.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use event::Secret;

    use super::*;

    fn link(url: &str) -> Result<Link, Cause> {
        let access = Access { url: Secret::new(url), token: None, credentials: None };
        Link::new(&access, Duration::from_secs(1))
    }

    #[test]
    fn a_cluster_is_shown_without_its_password() {
        let several = link("tls://u:canary@a:4222, b:4333,tls://[::1]").unwrap();
        assert_eq!(several.host, "a:4222,b:4333,::1:4222");
        assert!(several.servers.iter().all(ServerAddr::tls_required), "as the first");
        for wrong in ["http://u:canary@a", "nats://u:canary@", "ws://a", ""] {
            let cause = link(wrong).err().expect("it is wrong");
            assert!(!cause.to_string().contains("canary"), "{cause}");
        }
        let access =
            Access { url: Secret::new("a"), token: None, credentials: Some(Secret::new("canary")) };
        let cause = Link::new(&access, Duration::from_secs(1)).err().expect("it is wrong");
        assert_eq!(cause.code, Code::ConfigInvalid);
        assert!(!cause.to_string().contains("canary"), "{cause}");
    }

    #[tokio::test]
    async fn what_may_not_be_done_is_heard_by_those_it_concerns() {
        let (link, began) = (link("a").unwrap(), Instant::now());
        let said = "Permissions Violation for Publish to \"Order.paid\"".to_owned();
        let hear = async { link.denied.hear(&Event::ServerError(ServerError::Other(said))) };
        tokio::join!(link.denied("Order.paid", began), hear);
        let other = link.denied("order", began);
        assert!(timeout(Duration::from_millis(20), other).await.is_err());
        let late = link.denied("Order.paid", Instant::now() + Duration::from_secs(1));
        assert!(timeout(Duration::from_millis(20), late).await.is_err());
    }
}
