//! The shapes of the JSON API. Times are RFC 3339 in UTC.

use std::collections::BTreeMap;

use event::{
    Beat, Cause, Counts, Durability, Finding, LaneState, LaneView, Level, Listed, Moment, SinkView,
    scrub,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::Tally;

/// Why something went wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct CauseView {
    /// The stable code; `/explain/{code}` tells what to do.
    code: String,
    /// The particulars, without secrets.
    detail: String,
}

impl From<&Cause> for CauseView {
    fn from(cause: &Cause) -> CauseView {
        CauseView { code: cause.code.to_string(), detail: cause.detail.clone() }
    }
}

/// How many events are where.
#[derive(Serialize, ToSchema)]
pub(crate) struct CountsView {
    /// They wait to be claimed for the first time, delayed ones included.
    new: u64,
    /// A relay has them in hand.
    dispatching: u64,
    /// They were tried before and wait for another attempt.
    retry: u64,
    /// They were published, trimmed history included.
    sent: u64,
    /// They were given up.
    dead: u64,
    /// Neither sent nor dead.
    pending: u64,
    /// Everything that was ever committed.
    committed: u64,
    /// Whether all of this is counted; if not, `new`, `retry` and `dead` may be estimates from
    /// above.
    exact: bool,
    /// The earliest due moment of what waits.
    oldest_due: Option<String>,
    /// How long that is ago, in milliseconds.
    oldest_due_ms: Option<u64>,
}

impl From<&Counts> for CountsView {
    fn from(counts: &Counts) -> CountsView {
        let age = |due| u64::try_from(counts.now.since(due).as_millis()).unwrap_or(u64::MAX);
        CountsView {
            new: counts.new,
            dispatching: counts.dispatching,
            retry: counts.retry,
            sent: counts.sent,
            dead: counts.dead,
            pending: counts.pending(),
            committed: counts.committed(),
            exact: counts.exact,
            oldest_due: counts.oldest_due.map(|due| due.to_string()),
            oldest_due_ms: counts.oldest_due.map(age),
        }
    }
}

/// One outbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct OutboxView {
    /// Its name.
    name: String,
    /// Its counts, if its store answered.
    counts: Option<CountsView>,
    /// Why there are no counts.
    problem: Option<CauseView>,
}

impl From<&Tally> for OutboxView {
    fn from(tally: &Tally) -> OutboxView {
        OutboxView {
            name: tally.outbox.clone(),
            counts: tally.counts.as_ref().ok().map(CountsView::from),
            problem: tally.counts.as_ref().err().map(|error| error.cause().into()),
        }
    }
}

/// Every outbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct Outboxes {
    /// The outboxes, as configured.
    pub(crate) outboxes: Vec<OutboxView>,
}

/// What happened in one second.
#[derive(Serialize, ToSchema)]
pub(crate) struct BeatView {
    /// The second, since 1970.
    second: i64,
    /// Events published.
    sent: u64,
    /// Events refused, to be tried again.
    retried: u64,
    /// Events given up.
    dead: u64,
    /// Events pending at the end of the second.
    pending: u64,
}

impl From<&Beat> for BeatView {
    fn from(beat: &Beat) -> BeatView {
        let Beat { second, sent, retried, dead, pending } = *beat;
        BeatView { second, sent, retried, dead, pending }
    }
}

/// One lane: an outbox on its way to a sink.
#[derive(Serialize, ToSchema)]
pub(crate) struct LaneJson {
    /// The outbox it reads.
    outbox: String,
    /// The sink it publishes to.
    sink: String,
    /// `running`, `standby`, `resting`, `waiting`, `broken` or `stopped`.
    state: &'static str,
    /// Why, if it does not run.
    cause: Option<CauseView>,
}

impl From<&LaneView> for LaneJson {
    fn from(lane: &LaneView) -> LaneJson {
        LaneJson {
            outbox: lane.outbox.clone(),
            sink: lane.sink.clone(),
            state: state_name(&lane.state),
            cause: lane.cause.as_ref().map(CauseView::from),
        }
    }
}

/// Returns a lane's state as people read it.
pub(crate) fn state_name(state: &LaneState) -> &'static str {
    match state {
        LaneState::Running => "running",
        LaneState::Standby => "standby",
        LaneState::Resting => "resting",
        LaneState::Waiting => "waiting",
        LaneState::Broken => "broken",
        LaneState::Stopped => "stopped",
    }
}

/// One destination as it was last looked at.
#[derive(Serialize, ToSchema)]
pub(crate) struct SinkJson {
    /// The sink.
    sink: String,
    /// What a receipt is worth: `best-effort`, `durable` or `replicated`.
    durability: Option<&'static str>,
    /// What it tells of its load.
    levels: Vec<LevelJson>,
    /// What is not as it should be, the worst first.
    findings: Vec<FindingJson>,
    /// Why nothing is known.
    cause: Option<CauseView>,
}

/// One measured value of a destination.
#[derive(Serialize, ToSchema)]
pub(crate) struct LevelJson {
    /// `lag`, `retry`, `dead` or `disk`.
    gauge: &'static str,
    /// The broker's name for the topic; empty for the broker as a whole.
    topic: String,
    /// The consumer group; empty if there is none.
    group: String,
    /// The value; a disk is from 0 to 1.
    value: f64,
}

/// One thing that a look at a destination found.
#[derive(Serialize, ToSchema)]
pub(crate) struct FindingJson {
    /// `bad`: it does not work; `warn`: it works, but look at it.
    grade: &'static str,
    /// What was looked at.
    what: String,
    /// What was found, and what to do about it.
    detail: String,
}

impl From<&Finding> for FindingJson {
    fn from(Finding { grade, what, detail }: &Finding) -> FindingJson {
        FindingJson { grade: grade.as_str(), what: what.clone(), detail: detail.clone() }
    }
}

impl From<&SinkView> for SinkJson {
    fn from(view: &SinkView) -> SinkJson {
        let level = |level: &Level| LevelJson {
            gauge: level.gauge.as_str(),
            topic: level.topic.clone(),
            group: level.group.clone(),
            value: level.value,
        };
        SinkJson {
            sink: view.sink.clone(),
            durability: view.durability.map(Durability::as_str),
            levels: view.levels.iter().map(level).collect(),
            findings: view.findings.iter().map(FindingJson::from).collect(),
            cause: view.cause.as_ref().map(CauseView::from),
        }
    }
}

/// The pulse of the relay in this process.
#[derive(Serialize, ToSchema)]
pub(crate) struct PulseView {
    /// The newest seconds, oldest first.
    pub(crate) beats: Vec<BeatView>,
    /// The lanes.
    pub(crate) lanes: Vec<LaneJson>,
    /// The destinations, as far as they were looked at.
    pub(crate) sinks: Vec<SinkJson>,
}

/// One thing that went wrong on an event's way.
#[derive(Serialize, ToSchema)]
pub(crate) struct MomentView {
    /// When.
    at: String,
    /// In which attempt.
    attempt: u32,
    /// What.
    cause: CauseView,
}

impl From<&Moment> for MomentView {
    fn from(moment: &Moment) -> MomentView {
        MomentView {
            at: moment.at.to_string(),
            attempt: moment.attempt,
            cause: (&moment.cause).into(),
        }
    }
}

/// One event and where it is, without its payload.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventView {
    /// The outbox it is in.
    outbox: String,
    /// Its identity.
    id: String,
    /// Its topic.
    topic: String,
    /// What happened.
    #[serde(rename = "type")]
    kind: String,
    /// Its business key.
    key: Option<String>,
    /// `NEW`, `DISPATCHING`, `RETRY`, `SENT` or `DEAD`.
    status: &'static str,
    /// How often it was claimed.
    attempts: u32,
    /// When it may be claimed again, while it waits.
    next_attempt: Option<String>,
    /// What went wrong, oldest first.
    trail: Vec<MomentView>,
    /// The broker's id for it, once sent.
    broker_id: Option<String>,
    /// Named values beside the payload; what looks like a secret is masked.
    headers: BTreeMap<String, String>,
    /// When its row was written.
    created: String,
    /// When it was last moved.
    updated: String,
    /// How many events of its key wait behind it.
    behind: u64,
}

impl EventView {
    /// Shows an event of an outbox.
    pub(crate) fn new(outbox: &str, listed: &Listed) -> EventView {
        let Listed { event, .. } = listed;
        EventView {
            outbox: outbox.to_string(),
            id: event.id.to_string(),
            topic: event.topic.clone(),
            kind: event.kind.clone(),
            key: event.key.clone(),
            status: listed.status.as_str(),
            attempts: listed.attempts,
            next_attempt: listed.next_attempt.map(|at| at.to_string()),
            trail: listed.trail.iter().map(MomentView::from).collect(),
            broker_id: listed.broker_id.clone(),
            headers: masked(&event.headers.0),
            created: event.created.to_string(),
            updated: listed.updated.to_string(),
            behind: listed.behind,
        }
    }
}

/// Masks the headers that look like secrets.
pub(crate) fn masked(headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mask = |(name, value): (&String, &String)| {
        let line = format!("{name}={value}");
        let value = if scrub(&line) == line { value.clone() } else { "***".to_string() };
        (name.clone(), value)
    };
    headers.iter().map(mask).collect()
}

/// One event: its newest row, and the others.
#[derive(Serialize, ToSchema)]
pub(crate) struct RowsView {
    /// The newest row.
    #[serde(flatten)]
    pub(crate) event: EventView,
    /// Further rows with this id, newest first: it was put more than once.
    pub(crate) others: Vec<EventView>,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventsView {
    /// The events, newest first.
    pub(crate) events: Vec<EventView>,
    /// Pass it as `after` for the next page; absent on the last.
    pub(crate) next: Option<String>,
    /// How far back the search came, if it stopped before it had looked at everything. What is
    /// older was not looked at yet; `next` goes on there.
    pub(crate) searched_to: Option<String>,
}
