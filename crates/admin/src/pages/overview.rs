//! The overview: how much, how late, which lanes, and how full their destinations are.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use event::{Beat, Counts, Durability, Finding, Gauge, Inspection, LaneView, Millis, SinkView};

use super::{Frame, Trouble, html};
use crate::app::{App, Tally};
use crate::problem::Problem;
use crate::search::Typed;
use crate::session::Who;
use crate::show::{is_estimate, number, rate, span};
use crate::view::state_name;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    totals: Totals,
    outboxes: Vec<OutboxRow>,
    troubles: Vec<Trouble>,
    lanes: Vec<LaneRow>,
    sinks: Vec<SinkRow>,
    /// How many findings of each are shown.
    shown: usize,
    beats: Vec<BeatRow>,
}

/// The cards.
struct Totals {
    rate: String,
    over: String,
    pending: Figure,
    new: Figure,
    dispatching: String,
    retry: Figure,
    sent: String,
    dead: Figure,
    any_dead: bool,
    oldest: String,
    committed: u64,
}

/// A count that may be an estimate.
struct Figure {
    about: bool,
    text: String,
}

impl Figure {
    fn new(exact: bool, count: u64) -> Figure {
        Figure { about: is_estimate(exact, count), text: number(count) }
    }
}

struct OutboxRow {
    name: String,
    events: String,
    board: String,
    counts: Option<CountsRow>,
}

struct CountsRow {
    new: Figure,
    dispatching: String,
    retry: Figure,
    sent: String,
    dead: Figure,
    any_dead: bool,
    oldest: String,
}

struct LaneRow {
    outbox: String,
    sink: String,
    state: &'static str,
    tone: &'static str,
    cause: Option<(&'static str, String)>,
}

struct SinkRow {
    name: String,
    durability: &'static str,
    levels: Vec<Reading>,
    cause: Option<(&'static str, String)>,
    findings: Vec<Found>,
    /// How many findings are left out.
    more: usize,
}

/// One thing that a look at a destination found.
struct Found {
    tone: &'static str,
    what: String,
    detail: String,
}

/// One figure of a destination: its label, and the value or a dash.
struct Reading {
    label: &'static str,
    text: String,
    bad: bool,
}

struct BeatRow {
    at: String,
    sent: String,
    retried: String,
    dead: String,
    pending: String,
}

/// Shows the overview.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let frame = Frame::new(&app, &who, "overview", "Overview").await;
    let tallies = app.tallies().await;
    let beats = app.pulse.beats(60);
    let troubles: Vec<Trouble> = tallies
        .iter()
        .filter_map(|t| t.counts.as_ref().err().map(|error| Trouble::new(&t.outbox, error)))
        .collect();
    let status = match troubles.first() {
        Some(trouble) if troubles.len() == tallies.len() => trouble.status(),
        _ => StatusCode::OK,
    };
    let page = OverviewPage {
        frame,
        totals: totals(&tallies, &beats),
        outboxes: tallies.iter().map(outbox_row).collect(),
        troubles,
        lanes: app.pulse.lanes().iter().map(lane_row).collect(),
        sinks: app.pulse.sinks().iter().map(sink_row).collect(),
        shown: SHOWN,
        beats: beats.rchunks(10).map(beat_row).collect(),
    };
    Ok((status, html(&page)?).into_response())
}

fn totals(tallies: &[Tally], beats: &[Beat]) -> Totals {
    let known: Vec<&Counts> = tallies.iter().filter_map(|t| t.counts.as_ref().ok()).collect();
    let sum = |of: fn(&Counts) -> u64| known.iter().map(|counts| of(counts)).sum::<u64>();
    let exact = known.iter().all(|counts| counts.exact);
    let figure = |of: fn(&Counts) -> u64| Figure::new(exact, sum(of));
    let oldest = known.iter().filter_map(|c| c.oldest_due.map(|due| c.now.since(due))).max();
    let recent = &beats[beats.len().saturating_sub(10)..];
    let sent: u64 = recent.iter().map(|beat| beat.sent).sum();
    Totals {
        rate: rate(sent, recent.len() as u64),
        over: over(recent.len()),
        pending: figure(Counts::pending),
        new: figure(|counts| counts.new),
        dispatching: number(sum(|counts| counts.dispatching)),
        retry: figure(|counts| counts.retry),
        sent: number(sum(|counts| counts.sent)),
        dead: figure(|counts| counts.dead),
        any_dead: sum(|counts| counts.dead) > 0,
        oldest: oldest.map_or_else(|| "–".to_string(), span),
        committed: sum(Counts::committed),
    }
}

/// Says over how long the throughput was measured.
fn over(seconds: usize) -> String {
    match seconds {
        0 => "sent, being measured".to_string(),
        seconds => format!("sent, mean of {seconds} s"),
    }
}

fn outbox_row(tally: &Tally) -> OutboxRow {
    let typed = Typed { outbox: tally.outbox.clone(), ..Typed::default() };
    let counts = tally.counts.as_ref().ok().map(|counts| CountsRow {
        new: Figure::new(counts.exact, counts.new),
        dispatching: number(counts.dispatching),
        retry: Figure::new(counts.exact, counts.retry),
        sent: number(counts.sent),
        dead: Figure::new(counts.exact, counts.dead),
        any_dead: counts.dead > 0,
        oldest: counts
            .oldest_due
            .map_or_else(|| "–".to_string(), |due| span(counts.now.since(due))),
    });
    OutboxRow {
        name: tally.outbox.clone(),
        events: typed.href("/events"),
        board: typed.href("/dead"),
        counts,
    }
}

fn lane_row(lane: &LaneView) -> LaneRow {
    let state = state_name(&lane.state);
    LaneRow {
        outbox: lane.outbox.clone(),
        sink: lane.sink.clone(),
        state,
        tone: match state {
            "running" => "good",
            "standby" | "stopped" => "calm",
            "broken" => "bad",
            _ => "warn",
        },
        cause: lane.cause.as_ref().map(|cause| (cause.code.as_str(), cause.detail.clone())),
    }
}

/// How full a disk may be before it is marked.
const FULL: f64 = 0.8;

/// How many findings of a destination are shown.
const SHOWN: usize = 3;

fn sink_row(view: &SinkView) -> SinkRow {
    let reading = |(gauge, label)| {
        let value = Inspection::total(&view.levels, gauge);
        let text = match (value, gauge) {
            (None, _) => "–".to_string(),
            (Some(value), Gauge::Disk) => format!("{:.0} %", value * 100.0),
            (Some(value), _) => number(value.max(0.0) as u64),
        };
        let bad = match gauge {
            Gauge::Disk => value > Some(FULL),
            Gauge::Dead => value > Some(0.0),
            Gauge::Lag | Gauge::Retry => false,
        };
        Reading { label, text, bad }
    };
    let labels = ["Lag", "Retry", "Dead there", "Disk"];
    let found = |it: &Finding| Found {
        tone: it.grade.as_str(),
        what: it.what.clone(),
        detail: it.detail.clone(),
    };
    SinkRow {
        name: view.sink.clone(),
        durability: view.durability.map_or("unknown", Durability::as_str),
        levels: Gauge::ALL.into_iter().zip(labels).map(reading).collect(),
        cause: view.cause.as_ref().map(|cause| (cause.code.as_str(), cause.detail.clone())),
        findings: view.findings.iter().take(SHOWN).map(found).collect(),
        more: view.findings.len().saturating_sub(SHOWN),
    }
}

fn beat_row(beats: &[Beat]) -> BeatRow {
    let sum = |of: fn(&Beat) -> u64| number(beats.iter().map(of).sum());
    let last = beats.last().copied().unwrap_or_default();
    let exact = Millis(last.second.saturating_mul(1000)).to_string();
    BeatRow {
        at: exact.get(11..19).unwrap_or(&exact).to_string(),
        sent: sum(|beat| beat.sent),
        retried: sum(|beat| beat.retried),
        dead: sum(|beat| beat.dead),
        pending: number(last.pending),
    }
}
