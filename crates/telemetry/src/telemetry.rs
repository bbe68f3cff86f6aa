//! One process's facts: installed once, shared by every lane.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event::{Beat, Catalog, Counts, LaneState, LaneView, Millis, Pulse, Sink, Source, Status};
use metrics::gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::beats::Beats;
use crate::lanes::Lanes;
use crate::names;
use crate::watched::{WatchedSink, WatchedSource};

/// The facts of this process.
#[derive(Clone)]
pub struct Telemetry {
    pub(crate) facts: Arc<Facts>,
}

pub(crate) struct Facts {
    pub(crate) beats: Beats,
    pub(crate) lanes: Lanes,
    pending: Mutex<HashMap<String, u64>>,
    page: PrometheusHandle,
}

const SECONDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
const ATTEMPTS: [f64; 7] = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0];

impl Telemetry {
    /// Starts counting. Only the first in a process gets the metrics; a later one (in a test) keeps
    /// its own lanes and beats.
    pub fn install() -> Telemetry {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Full(names::ATTEMPTS.into()), &ATTEMPTS)
            })
            .expect("the buckets are not empty")
            .build_recorder();
        let page = recorder.handle();
        if metrics::set_global_recorder(recorder).is_ok() {
            names::describe();
        }
        let facts = Facts {
            beats: Beats::default(),
            lanes: Lanes::default(),
            pending: Mutex::default(),
            page,
        };
        Telemetry { facts: Arc::new(facts) }
    }

    /// Wraps a lane's source and sink, so that what passes is counted.
    pub fn watch(
        &self,
        outbox: &str,
        sink_name: &str,
        source: Arc<dyn Source>,
        sink: Arc<dyn Sink>,
    ) -> (Arc<dyn Source>, Arc<dyn Sink>) {
        self.facts.lanes.set(outbox, sink_name, LaneState::Running, None);
        let source = WatchedSource::new(self.facts.clone(), outbox, sink_name, source);
        let sink = WatchedSink::new(self.facts.clone(), outbox, sink_name, sink);
        (Arc::new(source), Arc::new(sink))
    }

    /// Counts an outbox every so often, until told to stop.
    pub async fn sample(
        &self,
        outbox: String,
        catalog: Arc<dyn Catalog>,
        every: Duration,
        stop: CancellationToken,
    ) {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            if let Ok(counts) = catalog.count().await {
                self.facts.counted(&outbox, &counts);
            }
            self.facts.page.run_upkeep();
        }
    }
}

impl Facts {
    fn counted(&self, outbox: &str, counts: &Counts) {
        let per_status = [
            (Status::New, counts.new),
            (Status::Dispatching, counts.dispatching),
            (Status::Retry, counts.retry),
            (Status::Sent, counts.sent),
            (Status::Dead, counts.dead),
        ];
        for (status, count) in per_status {
            let labels = [("outbox", outbox.to_owned()), ("status", status.to_string())];
            gauge!(names::EVENTS, &labels).set(count as f64);
        }
        let age = counts.oldest_due.map_or(0.0, |due| counts.now.since(due).as_secs_f64());
        gauge!(names::OLDEST, "outbox" => outbox.to_owned()).set(age);

        let mut pending = self.pending.lock().expect("no count panics");
        pending.insert(outbox.to_owned(), counts.pending());
        let all = pending.values().sum();
        self.beats.add(Millis::now().0 / 1000, |beat| beat.pending = all);
    }
}

impl Pulse for Telemetry {
    fn beats(&self, most: usize) -> Vec<Beat> {
        self.facts.beats.last(most)
    }

    fn lanes(&self) -> Vec<LaneView> {
        self.facts.lanes.views()
    }

    fn metrics(&self) -> String {
        self.facts.page.render()
    }
}
