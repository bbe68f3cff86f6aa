//! One process's facts: installed once, shared by every lane.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event::{
    Beat, Catalog, Cause, Code, Counts, LaneState, LaneView, Millis, Pulse, Sink, SinkView, Source,
    Status, StoreError,
};
use metrics::gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use crate::beats::Beats;
use crate::lanes::Lanes;
use crate::names;
use crate::sinks::Sinks;
use crate::watched::{Lane, WatchedSink, WatchedSource};

/// The facts of this process.
#[derive(Clone)]
pub struct Telemetry {
    pub(crate) facts: Arc<Facts>,
}

pub(crate) struct Facts {
    pub(crate) beats: Beats,
    pub(crate) lanes: Lanes,
    pub(crate) sinks: Sinks,
    outboxes: Mutex<BTreeMap<String, Known>>,
    page: PrometheusHandle,
}

/// What is known of an outbox.
struct Known {
    /// How much was pending when it last answered.
    pending: u64,
    /// Why it did not answer when it was last asked.
    trouble: Option<Cause>,
}

const SECONDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Backlogs are waited for longer than calls take.
const WAITS: [f64; 13] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0];
const ATTEMPTS: [f64; 7] = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0];

/// How long a count may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much longer than a count the pause after it is, at least: counting takes 0.2 % of the time.
const PAUSE: u32 = 500;
/// How old a count may become for that.
const OLDEST: Duration = Duration::from_secs(15);

fn full(name: &str) -> Matcher {
    Matcher::Full(name.into())
}

impl Telemetry {
    /// Starts counting. Only the first in a process gets the metrics; a later one (in a test) keeps
    /// its own lanes and beats.
    pub fn install() -> Telemetry {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(full(names::ATTEMPTS), &ATTEMPTS))
            .and_then(|builder| builder.set_buckets_for_metric(full(names::LATENCY), &WAITS))
            .and_then(|builder| builder.set_buckets_for_metric(full(names::DUE), &WAITS))
            .and_then(|builder| builder.set_buckets_for_metric(full(names::INBOX_AGE), &WAITS))
            .expect("the buckets are not empty")
            .build_recorder();
        let page = recorder.handle();
        if metrics::set_global_recorder(recorder).is_ok() {
            names::describe();
        }
        let facts = Facts {
            beats: Beats::default(),
            lanes: Lanes::default(),
            sinks: Sinks::default(),
            outboxes: Mutex::default(),
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
        let lane = Arc::new(Lane::new(self.facts.clone(), outbox, sink_name));
        let source = WatchedSource { lane: lane.clone(), source };
        (Arc::new(source), Arc::new(WatchedSink { lane, sink }))
    }

    /// Learns why a lane has stopped, because its database is broken.
    pub fn broken(&self, outbox: &str, sink_name: &str, cause: &Cause) {
        self.facts.lanes.set(outbox, sink_name, LaneState::Broken, Some(cause.clone()));
    }

    /// Learns that a lane goes on whose database was broken.
    pub fn mended(&self, outbox: &str, sink_name: &str) {
        self.facts.lanes.mended(outbox, sink_name);
    }

    /// Says why an outbox's database is broken or did not answer when it was last counted, or that
    /// it was never asked.
    pub fn answers(&self, outbox: &str) -> Result<(), Cause> {
        if let Some(cause) = self.facts.lanes.broken(outbox) {
            return Err(cause);
        }
        let outboxes = self.facts.outboxes.lock().expect("no count panics");
        match outboxes.get(outbox) {
            Some(Known { trouble: None, .. }) => Ok(()),
            Some(Known { trouble: Some(cause), .. }) => Err(cause.clone()),
            None => Err(Cause::new(Code::StoreDown, "it was not asked yet")),
        }
    }

    /// Counts an outbox every so often, and less often if that takes long, until told to stop. A
    /// database that does not answer within a few seconds is down.
    pub async fn sample(
        &self,
        outbox: String,
        catalog: Arc<dyn Catalog>,
        every: Duration,
        stop: CancellationToken,
    ) {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut rest_until = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            self.facts.page.run_upkeep();
            self.facts.beats.add(Millis::now().0 / 1000, |_| {});
            let asked = Instant::now();
            if asked < rest_until {
                continue;
            }
            let counted = timeout(PATIENCE, catalog.count()).await.unwrap_or_else(|_| {
                let detail = format!("no answer within {} s", PATIENCE.as_secs());
                Err(StoreError::Down(Cause::new(Code::StoreBusy, detail)))
            });
            match counted {
                Ok(counts) => {
                    self.facts.counted(&outbox, &counts);
                    rest_until = Instant::now() + (PAUSE * asked.elapsed()).min(OLDEST);
                }
                Err(error) => {
                    self.facts.silent(&outbox, error.cause());
                    // Somebody must mend it first, and a login that fails often may be locked.
                    if matches!(error, StoreError::Broken(_)) {
                        rest_until = Instant::now() + OLDEST;
                    }
                }
            }
        }
    }
}

impl Facts {
    fn counted(&self, outbox: &str, counts: &Counts) {
        let age = counts.oldest_due.map_or(0.0, |due| counts.now.since(due).as_secs_f64());
        show(outbox, Some((counts, age)));
        let mut outboxes = self.outboxes.lock().expect("no count panics");
        let known = Known { pending: counts.pending(), trouble: None };
        outboxes.insert(outbox.to_owned(), known);
        let all = outboxes.values().map(|known| known.pending).sum();
        self.beats.add(Millis::now().0 / 1000, |beat| beat.pending = all);
    }

    fn silent(&self, outbox: &str, cause: &Cause) {
        show(outbox, None);
        let mut outboxes = self.outboxes.lock().expect("no count panics");
        let pending = outboxes.get(outbox).map_or(0, |known| known.pending);
        outboxes.insert(outbox.to_owned(), Known { pending, trouble: Some(cause.clone()) });
    }
}

/// Sets the gauges of an outbox. What is not known is not a number: the last one would be a lie.
fn show(outbox: &str, counted: Option<(&Counts, f64)>) {
    let outbox = || ("outbox", outbox.to_owned());
    for status in Status::ALL {
        let count = counted.map_or(f64::NAN, |(counts, _)| of(counts, status) as f64);
        gauge!(names::EVENTS, &[outbox(), ("status", status.to_string())]).set(count);
    }
    let estimated = counted.map_or(f64::NAN, |(counts, _)| f64::from(u8::from(!counts.exact)));
    gauge!(names::ESTIMATED, &[outbox()]).set(estimated);
    gauge!(names::OLDEST, &[outbox()]).set(counted.map_or(f64::NAN, |(_, age)| age));
    gauge!(names::OUTBOX_UP, &[outbox()]).set(f64::from(u8::from(counted.is_some())));
}

fn of(counts: &Counts, status: Status) -> u64 {
    match status {
        Status::New => counts.new,
        Status::Dispatching => counts.dispatching,
        Status::Retry => counts.retry,
        Status::Sent => counts.sent,
        Status::Dead => counts.dead,
    }
}

impl Pulse for Telemetry {
    fn beats(&self, most: usize) -> Vec<Beat> {
        self.facts.beats.last(most)
    }

    fn lanes(&self) -> Vec<LaneView> {
        self.facts.lanes.views()
    }

    fn sinks(&self) -> Vec<SinkView> {
        self.facts.sinks.views()
    }

    fn metrics(&self) -> String {
        self.facts.page.render()
    }
}
