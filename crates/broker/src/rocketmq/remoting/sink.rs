//! Publishing to the brokers of RocketMQ themselves, whose places name servers tell. Only SEND_OK
//! is a receipt.
//!
//! Events of a queue share requests, one request of a queue after another, queues side by side: so
//! a key keeps its order and nobody waits for single events. A broker stores all of a request or
//! nothing of it. It never makes a topic.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Inspection, Receipt, Refusal, Sink};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::common::Common;
use super::super::{Options, Shape, address, inspect, part, refusal as shared};
use super::brokers::{Brokers, Down};
use super::link::{Broken, Link};
use super::parcel::{Parcel, Request};
use super::plan::{self, Run};
use super::route::{Queue, Route};
use super::routes::Routes;
use super::{Trust, refusal};
use crate::gate::Pass;
use crate::width::Signal;

/// Topics that a probe looks at, at the most.
const MOST: usize = 16;

/// How long it may take to find out whether another broker is there.
const LOOK: Duration = Duration::from_secs(2);

/// Publishes events without a proxy.
pub struct RocketMqRemoting {
    common: Common,
    routes: Routes,
    brokers: Brokers,
}

/// One publish: until when it may offer, and which brokers turned out to be down.
struct Batch {
    until: Instant,
    down: Down,
}

impl RocketMqRemoting {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<RocketMqRemoting, Cause> {
        let (names, tls) = address::read_names(&options.access.url)?;
        let trust = tls.then(Trust::machine).transpose()?;
        let destination = format!("rocketmq+remoting://{}", names.join(","));
        let common = Common::new(options, &destination, names, trust)?;
        let brokers = Brokers::new(&common);
        Ok(RocketMqRemoting { common, routes: Routes::default(), brokers })
    }

    /// Writes events down; one that cannot be is answered, and those of its key behind it wait.
    fn parcels(&self, events: &[Event], answers: &mut [Answer]) -> Vec<Parcel> {
        let ordered = self.common.letters.shape == Shape::Fifo;
        let (mut parcels, mut held) = (Vec::with_capacity(events.len()), HashSet::new());
        for (place, event) in events.iter().enumerate() {
            let key = event.key.as_ref().filter(|_| ordered);
            if key.is_some_and(|key| held.contains(key)) {
                continue;
            }
            let letter = self.common.letters.write(event);
            match letter.and_then(|letter| Parcel::new(place, key.cloned(), letter)) {
                Ok(parcel) => parcels.push(parcel),
                Err(cause) => {
                    answers[place] = Err(Refusal::Reject(cause));
                    held.extend(key);
                }
            }
        }
        parcels
    }

    /// Offers events of which each key has one topic.
    async fn offer_all(&self, parcels: Vec<Parcel>, batch: &Batch) -> Vec<(usize, Answer)> {
        let mut topics: BTreeMap<String, Vec<Parcel>> = BTreeMap::new();
        for parcel in parcels {
            topics.entry(parcel.topic.clone()).or_default().push(parcel);
        }
        let offered =
            topics.into_iter().map(|(topic, parcels)| self.of_topic(topic, parcels, batch));
        join_all(offered).await.into_iter().flatten().collect()
    }

    async fn of_topic(
        &self,
        topic: String,
        parcels: Vec<Parcel>,
        batch: &Batch,
    ) -> Vec<(usize, Answer)> {
        self.common.topics.offered(&topic);
        let route = match self.routes.of(&self.common, &topic).await {
            Ok(route) => route,
            Err(refusal) => return refused(&refusal, &parcels),
        };
        let runs = match self.common.letters.shape {
            Shape::Fifo => plan::by_queue(parcels, |parcel| route.of_group(&parcel.group)),
            Shape::Normal => plan::by_part(parcels, true),
            // In a request with others, a broker overlooks the moment of an event.
            Shape::Delay => plan::by_part(parcels, false),
        };
        let running = runs.into_iter().map(|run| self.run(run, &route, batch));
        let mut running: FuturesUnordered<_> = running.collect();
        let mut answers = Vec::new();
        while let Some(answered) = running.next().await {
            answers.extend(answered);
        }
        answers
    }

    /// Offers the parts of a run one after another. After a refusal, later events of its key wait.
    async fn run(&self, run: Run, route: &Route, batch: &Batch) -> Vec<(usize, Answer)> {
        let (mut answers, mut held) = (Vec::new(), HashSet::new());
        let mut parts = run.parts;
        parts.reverse();
        while let Some(mut part) = parts.pop() {
            part.retain(|parcel| parcel.key.as_ref().is_none_or(|key| !held.contains(key)));
            if part.is_empty() {
                continue;
            }
            let queue = run.queue.map(|queue| &route.queues[queue]);
            let answer = self.offer(&part, queue, route, batch).await;
            match answer {
                // Nothing of it was stored: one bad event is not the end of its neighbours.
                Err(Refusal::Reject(_)) if part.len() > 1 => {
                    parts.extend(part.into_iter().rev().map(|parcel| vec![parcel]));
                }
                Err(refusal) => {
                    if matches!(refusal, Refusal::Down(_) | Refusal::Unknown(_)) {
                        self.routes.doubt(&part[0].topic);
                    }
                    // Until all was offered, what is away counts as a part.
                    answers.extend(refused(&part::of_part(refusal), &part));
                    held.extend(part.into_iter().filter_map(|parcel| parcel.key));
                }
                Ok(()) => {
                    let receipt = |id| Ok(Receipt { broker_id: Some(id) });
                    answers.extend(part.into_iter().map(|it| (it.place, receipt(it.id))));
                }
            }
        }
        answers
    }

    /// Offers one request: to its queue, or to any.
    async fn offer(
        &self,
        parcels: &[Parcel],
        queue: Option<&Queue>,
        route: &Route,
        batch: &Batch,
    ) -> Result<(), Refusal> {
        let pass = self.enter(batch).await.ok_or(Refusal::Held)?;
        let (began, topic) = (Instant::now(), parcels[0].topic.as_str());
        // Half of the time is for the way; what goes out has at least the other half.
        let half = self.common.timeout / 2;
        let (there, until) = (began + half, began + self.common.timeout);
        let (queue, link) = match queue {
            Some(queue) => (queue, self.brokers.reach(&queue.address, half, &batch.down).await?),
            None => self.brokers.reach_any(route, there, &batch.down).await?,
        };
        if self.common.letters.shape == Shape::Delay {
            self.brokers.knows_time(&queue.address, &link, there).await?;
        }
        let request = Request::new(parcels, queue);
        let answer = self.ask(&link, &request, queue, topic, until).await;
        match &answer {
            Ok(()) => self.brokers.back(&queue.address),
            Err(refusal @ (Refusal::Down(_) | Refusal::Unknown(_))) => {
                self.brokers.leave(&queue.address, refusal, &batch.down);
            }
            Err(_) => {}
        }
        pass.leave(match &answer {
            Ok(()) => Signal::Good(began.elapsed()),
            Err(refusal) => shared::load(refusal),
        });
        answer
    }

    /// Waits for a place, as long as anything may be offered.
    async fn enter(&self, batch: &Batch) -> Option<Pass<'_>> {
        let Common { until, gate, .. } = &self.common;
        tokio::select! {
            biased;
            () = until.stop.cancelled() => None,
            () = sleep_until(batch.until) => None,
            pass = gate.enter() => Some(pass),
        }
    }

    async fn ask(
        &self,
        link: &Arc<Link>,
        request: &Request,
        queue: &Queue,
        topic: &str,
        until: Instant,
    ) -> Result<(), Refusal> {
        let (address, keys) = (&queue.address, self.common.keys.as_ref());
        let fields = request.fields();
        let asked = link.ask(request.code, &fields, &request.body, keys);
        let answer = match timeout_at(until, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Broken::Before)) => {
                return Err(refusal::down(format_args!("{address}: the connection is lost")));
            }
            Ok(Err(Broken::After)) => {
                let said = format!("{address}: the connection was lost before the answer");
                return Err(refusal::unknown(Code::SinkBroken, &said));
            }
            Err(_) => {
                self.brokers.renew(address, link);
                return Err(shared::silent(address, self.common.timeout));
            }
        };
        match answer.code {
            refusal::OK => {
                self.common.topics.worked(topic);
                return Ok(());
            }
            // What the broker says does not fit the route.
            1 | 16 | 501 | refusal::NO_TOPIC => self.routes.doubt(topic),
            _ => {}
        }
        if let Some(lack) = refusal::lack(&answer) {
            self.common.unkept.note(lack, topic, &refusal::said(&answer));
        }
        Err(refusal::of(&answer, topic, request.body.len()))
    }

    /// Returns the brokers that events go to: those of the topics that have worked, or all.
    async fn masters(&self) -> Result<BTreeSet<String>, Refusal> {
        let topics = self.common.topics.all();
        let asked = topics.iter().take(MOST).map(|topic| self.routes.of(&self.common, topic));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let until = Instant::now() + self.common.timeout;
        let (mut masters, mut lost) = (BTreeSet::new(), None);
        while let Ok(Some(told)) = timeout_at(until, asked.next()).await {
            match told {
                Ok(route) => masters.extend(route.queues.iter().map(|it| it.address.clone())),
                // One topic that is closed or gone says nothing of the others.
                Err(refusal) => {
                    if let down @ Refusal::Down(_) = part::of_whole(refusal) {
                        lost = Some(down);
                    }
                }
            }
        }
        match lost {
            _ if !masters.is_empty() => Ok(masters),
            Some(refusal) => Err(refusal),
            None => self.all_masters(until).await,
        }
    }

    /// Asks brokers side by side until one answers.
    async fn visit_any(&self, masters: impl Iterator<Item = &String>) -> Result<(), Refusal> {
        let mut lost = refusal::down("the name servers know no broker");
        let visits = masters.map(|address| self.brokers.visit(address));
        let mut visits: FuturesUnordered<_> = visits.collect();
        while let Some(visited) = visits.next().await {
            match visited {
                Ok(()) => return Ok(()),
                Err(refusal) => lost = refusal,
            }
        }
        Err(lost)
    }

    /// Tells whether a broker is there that did not turn out to be down in this publish.
    async fn lives(&self, batch: &Batch) -> bool {
        let until = (Instant::now() + LOOK).min(batch.until + self.common.timeout);
        let asked = async {
            let masters = self.masters().await.unwrap_or_default();
            let others = masters.iter().filter(|address| batch.down.get(address).is_none());
            self.visit_any(others).await.is_ok()
        };
        timeout_at(until, asked).await.unwrap_or(false)
    }

    async fn all_masters(&self, until: Instant) -> Result<BTreeSet<String>, Refusal> {
        match timeout_at(until, inspect::masters(&self.common)).await {
            Ok(Ok(masters)) => Ok(masters.into_iter().map(|master| master.address).collect()),
            Ok(Err(silence)) => {
                Err(refusal::down(format_args!("no name server answers: {silence}")))
            }
            Err(_) => Err(refusal::down("no name server answers in time")),
        }
    }
}

/// Gives a refusal to each: to the first of each key if nothing was taken, and to all otherwise.
fn refused(refusal: &Refusal, parcels: &[Parcel]) -> Vec<(usize, Answer)> {
    let mut keys = HashSet::new();
    let mut each = |parcel: &Parcel| {
        let follows = parcel.key.clone().is_some_and(|key| !keys.insert(key));
        match refusal {
            Refusal::Retry(..) if follows => Refusal::Held,
            refusal => refusal.clone(),
        }
    };
    parcels.iter().map(|parcel| (parcel.place, Err(each(parcel)))).collect()
}

impl fmt::Debug for RocketMqRemoting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocketMqRemoting")
            .field("names", &self.common.names)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for RocketMqRemoting {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let until = Instant::now() + self.common.until.patience;
        let batch = Batch { until, down: Down::default() };
        let mut answers = vec![Err(Refusal::Held); events.len()];
        let mut left = self.parcels(events, &mut answers);
        while !left.is_empty() && !self.common.until.stop.is_cancelled() {
            let (now, later) = plan::one_topic_per_key(left);
            let mut held = HashSet::new();
            for (place, answer) in self.offer_all(now, &batch).await {
                if answer.is_err() {
                    held.extend(events[place].key.as_deref());
                }
                answers[place] = answer;
            }
            let goes =
                |parcel: &Parcel| parcel.key.as_deref().is_none_or(|key| !held.contains(key));
            left = later.into_iter().filter(goes).collect();
        }
        match part::is_in_doubt(&answers) && !self.lives(&batch).await {
            true => part::all_of_whole(answers),
            false => answers,
        }
    }

    /// Asks name servers for the brokers, and these side by side until one answers.
    async fn probe(&self) -> Result<(), Refusal> {
        let masters = self.masters().await?;
        self.visit_any(masters.iter()).await
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        inspect::inspect(&self.common, self.probe().await).await
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        inspect::worth(&self.common, self.probe().await).await
    }

    async fn close(&self) {
        self.brokers.close();
    }
}
