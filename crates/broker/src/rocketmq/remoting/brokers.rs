//! Which broker gets a request, and the way to it.
//!
//! Of one that failed, events that may go elsewhere keep away for a while; those that have their
//! queue there do not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Refusal, Secret};
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::common::Common;
use super::link::{Link, Links};
use super::parcel::PRODUCER;
use super::refusal;
use super::route::{Queue, Route};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long one may take to a broker that failed a moment ago.
const AGAIN: Duration = Duration::from_secs(1);

/// How long events that may go to any broker keep away from one that failed.
const AWAY: Duration = Duration::from_secs(10);

const HEARTBEAT: i32 = 34;

/// The number of RocketMQ 5.0.0: older brokers know no moment at which an event is handed out.
const FIVE: i64 = 413;

/// The brokers that turned out to be down in one publish.
#[derive(Default)]
pub(super) struct Down(Mutex<BTreeMap<String, Cause>>);

impl Down {
    /// Returns why a broker is, if it is.
    pub(super) fn get(&self, address: &str) -> Option<Cause> {
        self.known().get(address).cloned()
    }

    fn note(&self, address: &str, cause: &Cause) {
        self.known().entry(address.to_owned()).or_insert_with(|| cause.clone());
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Cause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The brokers of one sink.
pub(super) struct Brokers {
    keys: Option<(String, Secret)>,
    timeout: Duration,
    links: Links,
    /// Which queue comes next, where any may.
    turn: AtomicUsize,
    /// Until when a broker is left alone by events that may go to another.
    away: Mutex<HashMap<String, Instant>>,
}

impl Brokers {
    pub(super) fn new(common: &Common) -> Brokers {
        Brokers {
            keys: common.keys.clone(),
            timeout: common.timeout,
            links: Links::new(common.trust.clone()),
            turn: AtomicUsize::new(0),
            away: Mutex::default(),
        }
    }

    /// Connects to a broker, unless it turned out to be down in this publish.
    pub(super) async fn reach(
        &self,
        address: &str,
        patience: Duration,
        down: &Down,
    ) -> Result<Arc<Link>, Refusal> {
        if let Some(cause) = down.get(address) {
            return Err(Refusal::Down(cause));
        }
        let patience = if self.is_away(address) { patience.min(AGAIN) } else { patience };
        let reached = self.connect(address, patience).await;
        reached.inspect_err(|refusal| self.leave(address, refusal, down))
    }

    /// Connects to the broker whose turn it is. One that cannot be reached is passed over, because
    /// nothing went out to it; each but the last has half of the time that is left.
    pub(super) async fn reach_any<'a>(
        &self,
        route: &'a Route,
        until: Instant,
        down: &Down,
    ) -> Result<(&'a Queue, Arc<Link>), Refusal> {
        let ways = self.ways(route);
        let mut refused = refusal::down("there is no broker");
        for (at, queue) in ways.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let patience = if at + 1 < ways.len() { left / 2 } else { left };
            match self.reach(&queue.address, patience, down).await {
                Ok(link) => return Ok((queue, link)),
                Err(refusal) => refused = refusal,
            }
        }
        Err(refused)
    }

    /// Returns a queue of each broker, from the one whose turn it is; those that failed come last.
    fn ways<'a>(&self, route: &'a Route) -> Vec<&'a Queue> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = route.queues.len();
        let mut known = HashSet::new();
        let in_turn = (turn..turn + count).map(|turn| &route.queues[turn % count]);
        let first = in_turn.filter(|queue| known.insert(queue.address.as_str()));
        let (mut ways, away): (Vec<_>, Vec<_>) =
            first.partition(|queue| !self.is_away(&queue.address));
        ways.extend(away);
        ways
    }

    /// Connects to a broker and greets it.
    pub(super) async fn visit(&self, address: &str) -> Result<(), Refusal> {
        let until = Instant::now() + self.timeout;
        let link = self.connect(address, self.timeout / 2).await?;
        self.greet(address, &link, until).await
    }

    async fn connect(&self, address: &str, patience: Duration) -> Result<Arc<Link>, Refusal> {
        match timeout(patience.min(CONNECT), self.links.to(address)).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(refusal::down(format_args!("{address}: {error}"))),
            Err(_) => Err(refusal::down(format_args!("{address}: no connection in time"))),
        }
    }

    /// An answer, or its absence, speaks against a broker: another may be better.
    pub(super) fn leave(&self, address: &str, refusal: &Refusal, down: &Down) {
        if let Refusal::Down(cause) = refusal {
            down.note(address, cause);
        }
        // One that is away stays so no longer: then it gets its whole time to connect again.
        if !self.is_away(address) {
            self.away().insert(address.to_owned(), Instant::now() + AWAY);
        }
    }

    /// A broker took something.
    pub(super) fn back(&self, address: &str) {
        self.away().remove(address);
    }

    fn is_away(&self, address: &str) -> bool {
        self.away().get(address).is_some_and(|until| *until > Instant::now())
    }

    fn away(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to offer a delayed event to a broker that would hand it out at once.
    pub(super) async fn knows_time(
        &self,
        address: &str,
        link: &Link,
        until: Instant,
    ) -> Result<(), Refusal> {
        if link.version().is_none() {
            self.greet(address, link, until).await?;
        }
        match link.version() {
            Some(version) if version < FIVE => Err(Refusal::Down(Cause::new(
                Code::ConfigInvalid,
                format_args!(
                    "the broker {address} is older than RocketMQ 5 and would hand a delayed event \
                     out at once: set the sink's shape to normal, or route these topics elsewhere"
                ),
            ))),
            _ => Ok(()),
        }
    }

    /// Says who publishes, as every producer does; whoever answers is there.
    async fn greet(&self, address: &str, link: &Link, until: Instant) -> Result<(), Refusal> {
        let body = json!({
            "clientID": PRODUCER, "producerDataSet": [{ "groupName": PRODUCER }],
            "consumerDataSet": [],
        });
        let body = body.to_string();
        let asked = link.ask(HEARTBEAT, &[], body.as_bytes(), self.keys.as_ref());
        let answer = match timeout_at(until, asked).await {
            Ok(Ok(answer)) if answer.code == refusal::OK => return Ok(()),
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                return Err(refusal::down(format_args!("{address}: the connection was lost")));
            }
            Err(_) => return Err(refusal::down(format_args!("{address}: no answer in time"))),
        };
        match refusal::of(&answer, "", body.len()) {
            down @ Refusal::Down(_) => Err(down),
            _ => Ok(()),
        }
    }

    /// Whoever comes next gets a fresh connection.
    pub(super) fn renew(&self, address: &str, link: &Arc<Link>) {
        self.links.leave(address, link);
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        self.links.close();
    }
}
