//! One event: where it is, how it got there, and what it carries once that is asked for.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::response::Html;
use event::{Listed, Millis, Status};

use super::rows::Row;
use super::{Frame, html};
use crate::api::identity;
use crate::app::App;
use crate::problem::Problem;
use crate::search::Typed;
use crate::session::Who;
use crate::show::{Stamp, bytes, things, tone};
use crate::view::masked;

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    frame: Frame,
    outbox: String,
    id: String,
    kind: String,
    topic: String,
    key: String,
    key_href: String,
    topic_href: String,
    status: Status,
    tone: &'static str,
    attempts: u32,
    created: Stamp,
    updated: Stamp,
    next_attempt: Option<Stamp>,
    broker_id: Option<String>,
    behind: Option<String>,
    steps: Vec<Step>,
    headers: Vec<(String, String)>,
    size: String,
    payload: String,
    dead: bool,
    /// Every row of the id, if there are several.
    rows: Vec<Row>,
}

/// One step of the timeline.
struct Step {
    tone: &'static str,
    title: String,
    at: Option<Stamp>,
    code: Option<&'static str>,
    detail: String,
}

impl Step {
    fn new(tone: &'static str, title: impl Into<String>, at: Option<Stamp>) -> Step {
        Step { tone, title: title.into(), at, code: None, detail: String::new() }
    }

    fn detail(mut self, detail: impl Into<String>) -> Step {
        self.detail = detail.into();
        self
    }
}

/// Shows one event.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, Problem> {
    let typed = Typed::read(query.as_deref().unwrap_or_default())?;
    let found = app.event(typed.outbox(), identity(&id)?, true).await?;
    let (outbox, listed) = (found.outbox, &found.newest);
    let frame = Frame::new(&app, &who, "events", listed.event.kind.clone()).await;
    let now = Millis::now();
    let all: Vec<&Listed> = std::iter::once(listed).chain(&found.others).collect();
    let within = Typed { outbox: outbox.name.clone(), ..Typed::default() };
    let event = &listed.event;
    let key = event.key.clone().unwrap_or_default();
    html(&EventPage {
        frame,
        outbox: outbox.name.clone(),
        id: event.id.to_string(),
        kind: event.kind.clone(),
        topic: event.topic.clone(),
        key_href: Typed { key: key.clone(), ..within.clone() }.href("/events"),
        topic_href: Typed { topic: event.topic.clone(), ..within.clone() }.href("/events"),
        key,
        status: listed.status,
        tone: tone(listed.status),
        attempts: listed.attempts,
        created: Stamp::new(event.created, now),
        updated: Stamp::new(listed.updated, now),
        next_attempt: listed.next_attempt.map(|at| Stamp::new(at, now)),
        broker_id: listed.broker_id.clone(),
        behind: (listed.behind > 0).then(|| things(listed.behind, "event")),
        steps: steps(listed, now),
        headers: masked(&event.headers.0).into_iter().collect(),
        size: bytes(event.payload.len()),
        payload: within.href(&format!("/api/v1/events/{}/payload", event.id)),
        dead: all.iter().any(|listed| listed.status == Status::Dead),
        rows: match found.others.is_empty() {
            true => Vec::new(),
            false => all.iter().map(|listed| Row::new(&outbox.name, listed, now)).collect(),
        },
    })
}

fn steps(listed: &Listed, now: Millis) -> Vec<Step> {
    let stamp = |at| Some(Stamp::new(at, now));
    let written = Step::new("calm", "Committed", stamp(listed.event.created));
    let mut steps = vec![written.detail("Written in the business transaction.")];
    for moment in &listed.trail {
        let mut step = Step::new("warn", format!("Attempt {} failed", moment.attempt), None)
            .detail(moment.cause.detail.clone());
        step.at = stamp(moment.at);
        step.code = Some(moment.cause.code.as_str());
        steps.push(step);
    }
    let updated = stamp(listed.updated);
    steps.push(match listed.status {
        Status::Sent => {
            let id = listed.broker_id.as_ref().map(|id| format!("Receipt {id}"));
            let receipt = id.unwrap_or_else(|| "The sink gave its receipt.".to_string());
            Step::new("good", "Sent", updated).detail(receipt)
        }
        Status::Dead => Step::new("bad", "Dead", updated)
            .detail("Given up. It waits for a person: fix the cause, then requeue it."),
        Status::Dispatching => {
            Step::new("busy", "In a relay's hand", updated).detail("Claimed, not yet settled.")
        }
        Status::Retry => Step::new("next", "Due again", listed.next_attempt.and_then(stamp))
            .detail("It backs off until then."),
        Status::New => match listed.next_attempt.filter(|due| *due > now) {
            Some(due) => Step::new("next", "Due", stamp(due)).detail("Its time has not come."),
            None => Step::new("next", "Waits to be claimed", None)
                .detail("Due now; a relay takes it in its next turn."),
        },
    });
    steps
}
