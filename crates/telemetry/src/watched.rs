//! A source and a sink that count what passes through them and change nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{
    Answer, Cause, Claim, Event, LaneState, Millis, Outcome, Refusal, Settled, Settlement, Sink,
    Source, StoreError, Want,
};
use metrics::{counter, histogram};

use crate::names;
use crate::telemetry::Facts;

struct Labels {
    facts: Arc<Facts>,
    outbox: String,
    sink: String,
}

impl Labels {
    fn lane(&self) -> [(&'static str, String); 2] {
        [("outbox", self.outbox.clone()), ("sink", self.sink.clone())]
    }

    fn with(&self, name: &'static str, value: &str) -> [(&'static str, String); 3] {
        let [outbox, sink] = self.lane();
        [outbox, sink, (name, value.to_owned())]
    }

    fn state(&self, state: LaneState, cause: Option<&Cause>) {
        self.facts.lanes.set(&self.outbox, &self.sink, state, cause.cloned());
    }

    fn failed(&self, error: &StoreError) {
        let code = error.cause().code.as_str();
        counter!(names::STORE_ERRORS, &self.with("code", code)).increment(1);
        let state = match error {
            StoreError::Down(_) => LaneState::Waiting,
            StoreError::Broken(_) => LaneState::Stopped,
        };
        self.state(state, Some(error.cause()));
    }
}

pub(crate) struct WatchedSource {
    labels: Labels,
    source: Arc<dyn Source>,
}

impl WatchedSource {
    pub(crate) fn new(
        facts: Arc<Facts>,
        outbox: &str,
        sink: &str,
        source: Arc<dyn Source>,
    ) -> WatchedSource {
        let labels = Labels { facts, outbox: outbox.to_owned(), sink: sink.to_owned() };
        WatchedSource { labels, source }
    }

    fn settled(&self, ends: &[Settlement], settled: &Settled) {
        let (mut sent, mut retried, mut dead) = (0, 0, 0);
        for end in ends.iter().filter(|end| !settled.stale.contains(&end.id)) {
            match &end.outcome {
                Outcome::Done(_) => sent += 1,
                Outcome::Retry { .. } => retried += 1,
                Outcome::Release { .. } => {}
                Outcome::Dead(cause) => {
                    dead += 1;
                    let labels = self.labels.with("code", cause.code.as_str());
                    counter!(names::DEAD, &labels).increment(1);
                    let (outbox, id) = (&self.labels.outbox, end.id);
                    tracing::warn!(outbox, %id, %cause, "event is dead");
                }
            }
        }
        counter!(names::STALE, &self.labels.lane()).increment(settled.stale.len() as u64);
        self.labels.facts.beats.add(Millis::now().0 / 1000, |beat| {
            beat.sent += sent;
            beat.retried += retried;
            beat.dead += dead;
        });
    }
}

#[async_trait]
impl Source for WatchedSource {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let started = Instant::now();
        let claims =
            self.source.claim(want).await.inspect_err(|error| self.labels.failed(error))?;
        if !claims.is_empty() {
            let labels = self.labels.lane();
            histogram!(names::CLAIM, &labels).record(started.elapsed());
            counter!(names::CLAIMED, &labels).increment(claims.len() as u64);
            let attempts = histogram!(names::ATTEMPTS, &labels);
            claims.iter().for_each(|claim| attempts.record(claim.attempt));
        }
        Ok(claims)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let started = Instant::now();
        let settled = self.source.settle(ends).await;
        let settled = settled.inspect_err(|error| self.labels.failed(error))?;
        histogram!(names::SETTLE, &self.labels.lane()).record(started.elapsed());
        self.settled(ends, &settled);
        Ok(settled)
    }

    async fn wait(&self, at_most: Duration) {
        self.source.wait(at_most).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.labels.state(LaneState::Stopped, None);
        self.source.release().await
    }
}

pub(crate) struct WatchedSink {
    labels: Labels,
    sink: Arc<dyn Sink>,
}

impl WatchedSink {
    pub(crate) fn new(
        facts: Arc<Facts>,
        outbox: &str,
        sink_name: &str,
        sink: Arc<dyn Sink>,
    ) -> WatchedSink {
        let labels = Labels { facts, outbox: outbox.to_owned(), sink: sink_name.to_owned() };
        WatchedSink { labels, sink }
    }

    fn refused(&self, refusal: &Refusal) {
        let (reaction, code) = match refusal {
            Refusal::Down(cause) => ("down", cause.code.as_str()),
            Refusal::Retry(cause, _) => ("retry", cause.code.as_str()),
            Refusal::Reject(cause) => ("reject", cause.code.as_str()),
            Refusal::Unknown(cause) => ("unknown", cause.code.as_str()),
            Refusal::Held => return,
        };
        let [outbox, sink] = self.labels.lane();
        let labels = [outbox, sink, ("reaction", reaction.to_owned()), ("code", code.to_owned())];
        counter!(names::REFUSED, &labels).increment(1);
    }
}

#[async_trait]
impl Sink for WatchedSink {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let started = Instant::now();
        let answers = self.sink.publish(events).await;
        let (labels, now) = (self.labels.lane(), Millis::now());
        histogram!(names::PUBLISH, &labels).record(started.elapsed());
        let latency = histogram!(names::LATENCY, &labels);
        let mut published = 0;
        let mut down = None;
        for (event, answer) in events.iter().zip(&answers) {
            match answer {
                Ok(_) => {
                    published += 1;
                    latency.record(now.since(event.created));
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
        match down {
            Some(cause) => self.labels.state(LaneState::Resting, Some(cause)),
            None => self.labels.state(LaneState::Running, None),
        }
        answers
    }

    async fn probe(&self) -> Result<(), Refusal> {
        let probed = self.sink.probe().await;
        if probed.is_ok() {
            self.labels.state(LaneState::Running, None);
        }
        probed
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}
