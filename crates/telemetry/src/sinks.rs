//! What each destination says of itself when it is looked at now and then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event::{
    Cause, Code, Durability, Finding, Gauge, Grade, Inspection, Level, Refusal, Sink, SinkView,
};
use metrics::gauge;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::Telemetry;
use crate::names;
use crate::told::{News, Told};

/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer than a look the pause after it is, at least.
const PAUSE: u32 = 10;

/// What a level is of: the gauge, the topic and the group.
type Of = (Gauge, String, String);

#[derive(Default)]
pub(crate) struct Sinks(Mutex<BTreeMap<String, Seen>>);

struct Seen {
    view: SinkView,
    /// Which levels have a metric.
    shown: BTreeSet<Of>,
    /// Which findings have a metric.
    found: BTreeSet<String>,
    /// What the log was told of it already.
    told: Told,
}

impl Telemetry {
    /// Looks at a destination now and every so often, less often if that takes long, until told to
    /// stop. Each lane that leads there has a sink of its own, which knows its own topics.
    pub async fn look(
        &self,
        name: &str,
        sinks: Vec<Arc<dyn Sink>>,
        every: Duration,
        stop: CancellationToken,
    ) {
        loop {
            let began = Instant::now();
            let Some(asked) = stop.run_until_cancelled(ask(&sinks)).await else { return };
            self.facts.sinks.note(name, asked);
            let pause = sleep(every.max(PAUSE * began.elapsed()));
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }
}

async fn ask(sinks: &[Arc<dyn Sink>]) -> Result<Inspection, Refusal> {
    let mut whole: Option<Inspection> = None;
    for sink in sinks {
        let seen = inspect(&**sink).await?;
        match &mut whole {
            Some(whole) => whole.join(seen),
            None => whole = Some(seen),
        }
    }
    whole.ok_or(Refusal::Held)
}

/// Looks at a destination, and waits no longer than a person would: one that takes too long to tell
/// how full it is still says what it is worth.
pub async fn inspect(sink: &dyn Sink) -> Result<Inspection, Refusal> {
    if let Ok(seen) = timeout(PATIENCE, sink.inspect()).await {
        return seen;
    }
    let silent = || {
        let detail = format!("no answer within {} s when it was looked at", PATIENCE.as_secs());
        Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))
    };
    let mut seen = timeout(PATIENCE, sink.worth()).await.unwrap_or_else(|_| Err(silent()))?;
    let detail = format!("it does not tell how full it is within {} s", PATIENCE.as_secs());
    seen.findings.push(Finding::new(Grade::Warn, "load", detail));
    Ok(seen)
}

impl Sinks {
    /// Notes what a look brought. What is not known is not a number: the last one would be a lie.
    fn note(&self, name: &str, asked: Result<Inspection, Refusal>) {
        let mut all = self.0.lock().expect("no look panics");
        let before = all.remove(name);
        let (shown, found, mut told) =
            before.map(|seen| (seen.shown, seen.found, seen.told)).unwrap_or_default();
        let (durability, levels, findings, cause) = match asked {
            Ok(Inspection { durability, mut findings, levels }) => {
                findings.retain(|finding| finding.grade > Grade::Good);
                findings.sort_by_key(|finding| Reverse(finding.grade));
                tell(name, told.news(&findings));
                (Some(durability), levels, findings, None)
            }
            Err(refusal) => (None, Vec::new(), Vec::new(), refusal.cause().cloned()),
        };
        let label = || ("sink", name.to_owned());
        gauge!(names::SINK_DURABILITY, &[label()]).set(durability.map_or(f64::NAN, class));
        let shown = show_levels(name, &levels, shown);
        let found = show_findings(name, durability.map(|_| &*findings), found);
        let view = SinkView { sink: name.to_owned(), durability, levels, findings, cause };
        all.insert(name.to_owned(), Seen { view, shown, found, told });
    }

    pub(crate) fn views(&self) -> Vec<SinkView> {
        self.0.lock().expect("no look panics").values().map(|seen| seen.view.clone()).collect()
    }
}

/// Tells what is new since the last look.
fn tell(sink: &str, News { over, fresh }: News<'_>) {
    for what in over {
        tracing::info!(sink, "{what}: works again");
    }
    for Finding { what, detail, .. } in fresh {
        tracing::warn!(sink, "{what}: {detail}");
    }
}

/// Shows levels, and takes back those that are no longer told. Returns which have a metric.
fn show_levels(sink: &str, levels: &[Level], mut shown: BTreeSet<Of>) -> BTreeSet<Of> {
    let mut now = BTreeSet::new();
    for level in levels {
        let of = (level.gauge, level.topic.clone(), level.group.clone());
        show(sink, &of, level.value);
        now.insert(of);
    }
    shown.difference(&now).for_each(|gone| show(sink, gone, f64::NAN));
    shown.append(&mut now);
    shown
}

/// Shows findings, none if the destination was silent. What was found before is over, or not known.
fn show_findings(
    sink: &str,
    findings: Option<&[Finding]>,
    mut found: BTreeSet<String>,
) -> BTreeSet<String> {
    let show = |what: &String, value: f64| {
        let labels = [("sink", sink.to_owned()), ("what", what.clone())];
        gauge!(names::SINK_FINDING, &labels).set(value);
    };
    // Several brokers may have the same; the worst of them stands first and comes last here.
    let all = findings.unwrap_or_default().iter().rev();
    let grade = |finding: &Finding| if finding.grade == Grade::Bad { 2.0 } else { 1.0 };
    let now: BTreeMap<String, f64> = all.map(|it| (it.what.clone(), grade(it))).collect();
    let over = if findings.is_some() { 0.0 } else { f64::NAN };
    found.iter().filter(|what| !now.contains_key(*what)).for_each(|what| show(what, over));
    now.iter().for_each(|(what, grade)| show(what, *grade));
    found.extend(now.into_keys());
    found
}

fn show(sink: &str, (of, topic, group): &Of, value: f64) {
    let name = match of {
        Gauge::Lag => names::BROKER_LAG,
        Gauge::Retry => names::BROKER_RETRY,
        Gauge::Dead => names::BROKER_DEAD,
        Gauge::Disk => names::BROKER_DISK,
    };
    let labels = [("sink", sink.to_owned()), ("topic", topic.clone()), ("group", group.clone())];
    gauge!(name, &labels).set(value);
}

fn class(durability: Durability) -> f64 {
    match durability {
        Durability::BestEffort => 0.0,
        Durability::Durable => 1.0,
        Durability::Replicated => 2.0,
    }
}
