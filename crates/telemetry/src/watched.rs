//! A source and a sink that count what passes through them and change nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{
    Answer, Aside, Cause, Claim, Event, EventId, Inspection, LaneState, Millis, Outcome, Refusal,
    Settled, Settlement, Sink, Source, StoreError, Want,
};
use metrics::{counter, histogram};

use crate::doubt::Doubt;
use crate::flight::Flight;
use crate::names;
use crate::telemetry::Facts;
use crate::troubles::Troubles;

/// One lane: what its source and its sink know in common.
pub(crate) struct Lane {
    facts: Arc<Facts>,
    outbox: String,
    sink: String,
    claims: Flight<EventId, Claimed>,
    troubles: Troubles,
    doubt: Doubt,
}

/// What a settlement does not say any more of its claim.
#[derive(Clone, Copy)]
struct Claimed {
    attempt: u32,
    due: Millis,
}

impl Lane {
    pub(crate) fn new(facts: Arc<Facts>, outbox: &str, sink: &str) -> Lane {
        let (outbox, sink) = (outbox.to_owned(), sink.to_owned());
        let (claims, troubles, doubt) = (Flight::new(), Troubles::default(), Doubt::default());
        Lane { facts, outbox, sink, claims, troubles, doubt }
    }

    fn labels(&self) -> [(&'static str, String); 2] {
        [("outbox", self.outbox.clone()), ("sink", self.sink.clone())]
    }

    fn with(&self, name: &'static str, value: &str) -> [(&'static str, String); 3] {
        let [outbox, sink] = self.labels();
        [outbox, sink, (name, value.to_owned())]
    }

    fn state(&self, state: LaneState, cause: Option<&Cause>) {
        self.facts.lanes.set(&self.outbox, &self.sink, state, cause.cloned());
    }

    /// Says that an event comes again: nobody else does before it is dead, days later.
    fn tried_again(&self, id: EventId, cause: &Cause) {
        if self.troubles.is_news(cause.code, Instant::now()) {
            let (outbox, sink) = (&self.outbox, &self.sink);
            tracing::warn!(outbox, sink, %id, %cause, "event was refused and is tried again");
        }
    }

    fn failed(&self, error: &StoreError) {
        let code = error.cause().code.as_str();
        counter!(names::STORE_ERRORS, &self.with("code", code)).increment(1);
        let state = match error {
            StoreError::Down(_) => LaneState::Waiting,
            StoreError::Broken(_) => LaneState::Broken,
        };
        self.state(state, Some(error.cause()));
    }
}

pub(crate) struct WatchedSource {
    pub(crate) lane: Arc<Lane>,
    pub(crate) source: Arc<dyn Source>,
}

impl WatchedSource {
    fn claimed(&self, claims: &[Claim], lease: Duration) {
        for claim in claims {
            let claimed = Claimed { attempt: claim.attempt, due: claim.due };
            // A settlement may be tried for a whole lease.
            self.lane.claims.put(claim.event.id, claimed, 2 * lease);
        }
    }

    /// Says how much of what a claim had chosen it did not get: that is usual where relays compete,
    /// and much of it is work for nothing.
    fn outrun(&self, rows: u64) {
        if rows > 0 {
            let (outbox, sink) = (&self.lane.outbox, &self.lane.sink);
            tracing::debug!(outbox, sink, rows, "another relay was quicker to claim rows");
            counter!(names::OUTRUN, &self.lane.labels()).increment(rows);
        }
    }

    fn settled(&self, ends: &[Settlement], settled: &Settled) {
        let attempts = histogram!(names::ATTEMPTS, &self.lane.labels());
        let (mut sent, mut retried, mut dead) = (0, 0, 0);
        for end in ends {
            let claimed = self.lane.claims.take(&end.id);
            if settled.stale.contains(&end.id) {
                continue;
            }
            match &end.outcome {
                Outcome::Done(_) => sent += 1,
                Outcome::Retry { cause, .. } => {
                    retried += 1;
                    self.lane.tried_again(end.id, cause);
                }
                // It spent no attempt.
                Outcome::Release { after } => {
                    self.lane.doubt.put_back(*after, Instant::now());
                    continue;
                }
                Outcome::Dead(cause) => {
                    dead += 1;
                    let labels = self.lane.with("code", cause.code.as_str());
                    counter!(names::DEAD, &labels).increment(1);
                    let (outbox, id) = (&self.lane.outbox, end.id);
                    tracing::warn!(outbox, %id, %cause, "event is dead");
                }
            }
            if let Some(Claimed { attempt, .. }) = claimed {
                attempts.record(attempt);
            }
        }
        counter!(names::STALE, &self.lane.labels()).increment(settled.stale.len() as u64);
        self.lane.facts.beats.add(Millis::now().0 / 1000, |beat| {
            beat.sent += sent;
            beat.retried += retried;
            beat.dead += dead;
        });
    }
}

#[async_trait]
impl Source for WatchedSource {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let (started, claiming) = (Instant::now(), self.lane.doubt.claiming());
        let claims = self.source.claim(want).await.inspect_err(|error| self.lane.failed(error))?;
        let is_idle = claims.is_empty() && claiming.is_alone() && !self.lane.claims.any();
        if is_idle && self.lane.doubt.ends(started) {
            self.lane.state(LaneState::Running, None);
        }
        let aside = self.source.aside();
        self.outrun(aside.outrun);
        let stands_by = claims.is_empty() && aside.stands_by;
        self.lane.facts.lanes.answered(&self.lane.outbox, &self.lane.sink, stands_by);
        if !claims.is_empty() {
            let labels = self.lane.labels();
            histogram!(names::CLAIM, &labels).record(started.elapsed());
            counter!(names::CLAIMED, &labels).increment(claims.len() as u64);
            self.claimed(&claims, want.lease);
        }
        Ok(claims)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let started = Instant::now();
        let settled = self.source.settle(ends).await;
        let settled = settled.inspect_err(|error| self.lane.failed(error))?;
        histogram!(names::SETTLE, &self.lane.labels()).record(started.elapsed());
        self.settled(ends, &settled);
        Ok(settled)
    }

    async fn wait(&self, at_most: Duration) {
        self.source.wait(at_most).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.lane.state(LaneState::Stopped, None);
        self.source.release().await
    }

    fn aside(&self) -> Aside {
        self.source.aside()
    }
}

pub(crate) struct WatchedSink {
    pub(crate) lane: Arc<Lane>,
    pub(crate) sink: Arc<dyn Sink>,
}

impl WatchedSink {
    fn refused(&self, refusal: &Refusal) {
        let (reaction, code) = match refusal {
            Refusal::Down(cause) => ("down", cause.code.as_str()),
            Refusal::Retry(cause, _) => ("retry", cause.code.as_str()),
            Refusal::Reject(cause) => ("reject", cause.code.as_str()),
            Refusal::Unknown(cause) => ("unknown", cause.code.as_str()),
            Refusal::Held => return,
        };
        let [outbox, sink] = self.lane.labels();
        let labels = [outbox, sink, ("reaction", reaction.to_owned()), ("code", code.to_owned())];
        counter!(names::REFUSED, &labels).increment(1);
    }
}

#[async_trait]
impl Sink for WatchedSink {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let started = Instant::now();
        let answers = self.sink.publish(events).await;
        let (labels, now) = (self.lane.labels(), Millis::now());
        histogram!(names::PUBLISH, &labels).record(started.elapsed());
        let latency = histogram!(names::LATENCY, &labels);
        let waited = histogram!(names::DUE, &labels);
        let mut published = 0;
        let mut down = None;
        for (event, answer) in events.iter().zip(&answers) {
            match answer {
                Ok(_) => {
                    published += 1;
                    latency.record(now.since(event.created));
                    let claimed = self.lane.claims.get(&event.id);
                    if let Some(Claimed { due, .. }) = claimed {
                        waited.record(now.since(due));
                    }
                }
                Err(refusal) => {
                    self.refused(refusal);
                    if let Refusal::Down(cause) = refusal {
                        down = Some(cause);
                    }
                }
            }
        }
        counter!(names::PUBLISHED, &labels).increment(published);
        self.lane.doubt.probed(false);
        match down {
            Some(cause) => self.lane.state(LaneState::Resting, Some(cause)),
            None => self.lane.state(LaneState::Running, None),
        }
        answers
    }

    async fn probe(&self) -> Result<(), Refusal> {
        let probed = self.sink.probe().await;
        self.lane.doubt.probed(probed.is_ok());
        probed
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        self.sink.inspect().await
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        self.sink.worth().await
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}
