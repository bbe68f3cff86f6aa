//! The routes of topics, as name servers tell them: kept for a while, and asked for anew after a
//! failure.
//!
//! A route that is known outlives its name servers: brokers may well be there without them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Refusal};
use tokio::time::{Instant, timeout};

use super::super::common::Common;
use super::super::inspect;
use super::link::Answer;
use super::route::Route;
use super::{Desk, Silence, refusal};

/// How long a route stands, as in clients of RocketMQ.
const FRESH: Duration = Duration::from_secs(30);

/// How long one stands that is in doubt. Many fail at once.
const DOUBTED: Duration = Duration::from_millis(500);

/// How long one name server may take.
const PATIENCE: Duration = Duration::from_secs(2);

const ROUTE: i32 = 105;

/// The routes of one sink.
#[derive(Default)]
pub(super) struct Routes {
    known: Mutex<HashMap<String, Known>>,
    /// Which name server is asked first: the last one that answered.
    turn: AtomicUsize,
}

struct Known {
    route: Arc<Route>,
    asked: Instant,
    doubted: bool,
}

impl Routes {
    /// Returns the route of a topic. It has at least one queue.
    pub(super) async fn of(&self, common: &Common, topic: &str) -> Result<Arc<Route>, Refusal> {
        let old = match self.find(topic) {
            Some((route, true)) => return Ok(route),
            Some((route, false)) => Some(route),
            None => None,
        };
        let told = self.ask(common, topic).await;
        let route = match (told, old) {
            (Ok(body), _) => Arc::new(usable(Route::read(&body), topic)?),
            (Err(_), Some(old)) => old,
            (Err(Silence::Unreached(why)), None) => {
                return Err(refusal::down(format_args!("no name server answers: {why}")));
            }
            (Err(Silence::Refused { code, remark }), None) => {
                let said = Answer { code, remark };
                return Err(match code {
                    refusal::NO_TOPIC => absent(common, topic, &said).await,
                    _ => refusal::of(&said, topic, 0),
                });
            }
        };
        let known = Known { route: Arc::clone(&route), asked: Instant::now(), doubted: false };
        self.known().insert(topic.to_owned(), known);
        Ok(route)
    }

    /// Something failed that another route may mend.
    pub(super) fn doubt(&self, topic: &str) {
        if let Some(known) = self.known().get_mut(topic) {
            known.doubted = true;
        }
    }

    /// Returns the known route, and whether it is fresh.
    fn find(&self, topic: &str) -> Option<(Arc<Route>, bool)> {
        let known = self.known();
        let Known { route, asked, doubted } = known.get(topic)?;
        let stands = if *doubted { DOUBTED } else { FRESH };
        Some((Arc::clone(route), asked.elapsed() < stands))
    }

    /// Asks one name server after another until one answers.
    async fn ask(&self, common: &Common, topic: &str) -> Result<Vec<u8>, Silence> {
        let (names, first) = (&common.names, self.turn.load(Ordering::Relaxed));
        let mut last = Silence::Unreached("none is named".to_owned());
        for turn in first..first + names.len() {
            let desk = inspect::desk(common, &names[turn % names.len()]);
            let desk = Desk { patience: PATIENCE.min(common.timeout / 4), ..desk };
            match desk.ask(ROUTE, &[("topic", topic)], b"").await {
                Err(silence @ Silence::Unreached(_)) => last = silence,
                told => {
                    self.turn.store(turn, Ordering::Relaxed);
                    return told;
                }
            }
        }
        Err(last)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn usable(route: Route, topic: &str) -> Result<Route, Refusal> {
    if !route.queues.is_empty() {
        return Ok(route);
    }
    Err(match route.closed {
        true => {
            let detail = format!("the topic {topic} has no queue that may be written");
            Refusal::Retry(Cause::new(Code::AuthRefused, detail), None)
        }
        false => refusal::down(format_args!("the topic {topic} has no master")),
    })
}

/// Says why a topic that was never seen has no route: it is missing only if brokers are there.
async fn absent(common: &Common, topic: &str, said: &Answer) -> Refusal {
    let masters = timeout(PATIENCE.min(common.timeout / 4), inspect::masters(common)).await;
    match masters {
        Ok(Ok(masters)) if !masters.is_empty() => {
            let said = format!("{}: {}", said.code, said.remark);
            Refusal::Retry(refusal::missing(topic, &said), None)
        }
        _ => refusal::down(format_args!(
            "the topic {topic} has no route, and nothing shows that a broker is there: look \
             whether one is, then make the topic"
        )),
    }
}
