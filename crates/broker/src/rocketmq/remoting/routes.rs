//! The routes of topics, as name servers tell them: kept for a while, and asked for anew after a
//! failure.
//!
//! A route that is known outlives its name servers: brokers may well be there without them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Code, Refusal};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};

use super::super::common::Common;
use super::super::{inspect, part};
use super::link::Answer;
use super::route::Route;
use super::{Desk, Silence, refusal};

/// How long a route stands, as in clients of RocketMQ.
const FRESH: Duration = Duration::from_secs(30);

/// How long one stands that had more queues: a broker that was away is soon used again.
const SHRUNK: Duration = Duration::from_secs(5);

/// How long one stands that is in doubt. Many fail at once.
const DOUBTED: Duration = Duration::from_millis(500);

/// How long name servers that were all silent are left alone where a route is known.
const SILENT: Duration = Duration::from_secs(5);

/// How long one name server may take.
const PATIENCE: Duration = Duration::from_secs(2);

const ROUTE: i32 = 105;

/// The routes of one sink.
#[derive(Default)]
pub(super) struct Routes {
    known: Mutex<HashMap<String, Known>>,
    /// Which name server is asked first: the last one that answered.
    turn: AtomicUsize,
    /// When none of them answered, unless one has since.
    silent: Mutex<Option<Instant>>,
}

struct Known {
    route: Arc<Route>,
    asked: Instant,
    doubted: bool,
    /// The most queues that it ever had.
    most: usize,
    /// Who has it asks anew; the others go by what is known.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Routes {
    /// Returns the route of a topic. It has at least one queue.
    pub(super) async fn of(&self, common: &Common, topic: &str) -> Result<Arc<Route>, Refusal> {
        let (old, _asking) = match self.find(topic) {
            Some((route, None)) => return Ok(route),
            Some((route, asking)) => (Some(route), asking),
            None => (None, None),
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
        self.keep(topic, &route);
        Ok(route)
    }

    /// Something failed that another route may mend.
    pub(super) fn doubt(&self, topic: &str) {
        if let Some(known) = self.known().get_mut(topic) {
            known.doubted = true;
        }
    }

    /// Returns the known route, and to one of those who find it old, that it is to ask anew.
    fn find(&self, topic: &str) -> Option<(Arc<Route>, Option<OwnedMutexGuard<()>>)> {
        let known = self.known();
        let Known { route, asked, doubted, most, asking } = known.get(topic)?;
        let stands = match route.queues.len() < *most {
            _ if *doubted => DOUBTED,
            true => SHRUNK,
            false => FRESH,
        };
        let stands = asked.elapsed() < stands || self.are_silent();
        let asking = (!stands).then(|| Arc::clone(asking).try_lock_owned().ok()).flatten();
        Some((Arc::clone(route), asking))
    }

    fn keep(&self, topic: &str, route: &Arc<Route>) {
        let (route, asked, queues) = (Arc::clone(route), Instant::now(), route.queues.len());
        let mut known = self.known();
        match known.get_mut(topic) {
            Some(known) => {
                known.most = known.most.max(queues);
                (known.route, known.asked, known.doubted) = (route, asked, false);
            }
            None => {
                let asking = Arc::default();
                let new = Known { route, asked, doubted: false, most: queues, asking };
                known.insert(topic.to_owned(), new);
            }
        }
    }

    fn are_silent(&self) -> bool {
        self.silent().is_some_and(|since| since.elapsed() < SILENT)
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
                    *self.silent() = None;
                    return told;
                }
            }
        }
        *self.silent() = Some(Instant::now());
        Err(last)
    }

    fn silent(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
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
        false => part::of_part(refusal::down(format_args!("the topic {topic} has no master"))),
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

#[cfg(test)]
mod tests {
    use super::super::route::Queue;
    use super::*;

    fn asks(routes: &Routes) -> Option<OwnedMutexGuard<()>> {
        routes.find("t").expect("the route is known").1
    }

    #[tokio::test(start_paused = true)]
    async fn one_asks_for_a_route_that_is_old_and_the_others_go_by_it() {
        let routes = Routes::default();
        assert!(routes.find("t").is_none(), "everyone asks for one that nobody knows");
        let route = Arc::new(Route { queues: Vec::new(), closed: false });
        routes.keep("t", &route);
        assert!(asks(&routes).is_none(), "it is fresh");
        routes.doubt("t");
        tokio::time::advance(DOUBTED).await;
        let asking = asks(&routes);
        assert!(asking.is_some() && asks(&routes).is_none());
        drop(asking);
        let asking = asks(&routes);
        assert!(asking.is_some(), "whoever asked was cut");
        routes.keep("t", &route);
        drop(asking);
        assert!(asks(&routes).is_none(), "it is fresh again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_route_that_had_more_queues_is_asked_for_sooner() {
        let queue = || Queue { broker: String::new(), number: 0, address: String::new() };
        let route = |queues| Arc::new(Route { queues: vec![queue(); queues], closed: false });
        let routes = Routes::default();
        for (queues, stands) in [(2, FRESH), (1, SHRUNK), (1, SHRUNK), (2, FRESH), (3, FRESH)] {
            routes.keep("t", &route(queues));
            tokio::time::advance(stands - Duration::from_millis(1)).await;
            assert!(asks(&routes).is_none(), "{queues}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(asks(&routes).is_some(), "{queues}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn name_servers_that_are_silent_are_left_alone_for_a_while() {
        let routes = Routes::default();
        routes.keep("t", &Arc::new(Route { queues: Vec::new(), closed: false }));
        tokio::time::advance(FRESH).await;
        *routes.silent() = Some(Instant::now());
        assert!(asks(&routes).is_none());
        tokio::time::advance(SILENT).await;
        assert!(asks(&routes).is_some());
    }
}
