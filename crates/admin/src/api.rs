//! The JSON API: reading. What changes something is in `requeue`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use event::{EventId, Payload};

use crate::app::{App, Found};
use crate::problem::{Problem, ProblemBody};
use crate::search::Typed;
use crate::view::{
    BeatView, EventView, EventsView, LaneJson, OutboxView, Outboxes, PulseView, RowsView, SinkJson,
};

/// Seconds of pulse that are shown at the most.
pub(crate) const SECONDS: usize = 900;

/// Lists the outboxes with their counts.
#[utoipa::path(get, path = "/api/v1/outboxes", tag = "outboxes",
    responses((status = 200, body = Outboxes), (status = 401, body = ProblemBody)))]
pub(crate) async fn outboxes(State(app): State<Arc<App>>) -> Json<Outboxes> {
    let tallies = app.tallies().await;
    Json(Outboxes { outboxes: tallies.iter().map(OutboxView::from).collect() })
}

/// Shows the relay's newest seconds, its lanes and its destinations.
#[utoipa::path(get, path = "/api/v1/pulse", tag = "relay",
    responses((status = 200, body = PulseView), (status = 401, body = ProblemBody)))]
pub(crate) async fn pulse(State(app): State<Arc<App>>) -> Json<PulseView> {
    Json(pulse_view(&app, SECONDS))
}

/// Takes the newest seconds of the pulse.
pub(crate) fn pulse_view(app: &App, seconds: usize) -> PulseView {
    PulseView {
        beats: app.pulse.beats(seconds).iter().map(BeatView::from).collect(),
        lanes: app.pulse.lanes().iter().map(LaneJson::from).collect(),
        sinks: app.pulse.sinks().iter().map(SinkJson::from).collect(),
    }
}

/// Lists events, newest first, without payloads. A page may hold fewer than asked for, or none,
/// and still have a `next`: `searched_to` says how far back it looked.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(
        ("outbox" = Option<String>, Query, description = "Needed when there are several"),
        ("id" = Option<String>, Query, description = "One identity"),
        ("key" = Option<String>, Query, description = "One business key, exactly"),
        ("type" = Option<String>, Query, description = "One event type, exactly"),
        ("topic" = Option<String>, Query, description = "One topic, exactly"),
        ("status" = Option<String>, Query, description = "NEW, DISPATCHING, RETRY, SENT or DEAD"),
        ("code" = Option<String>, Query, description = "Cause code of the newest trouble"),
        ("limit" = Option<usize>, Query, description = "1 to 500; 50 if absent"),
        ("after" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, body = EventsView), (status = 400, body = ProblemBody),
        (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<EventsView>, Problem> {
    let typed = Typed::read(query.as_deref().unwrap_or_default())?;
    let outbox = app.outbox(typed.outbox())?;
    let search = typed.search()?;
    let listing = outbox.find(&search.filter, &search.page(false)).await?;
    let view = |listed| EventView::new(&outbox.name, listed);
    Ok(Json(EventsView {
        events: listing.events.iter().map(view).collect(),
        next: listing.next.map(|cursor| cursor.0),
        searched_to: listing.searched_to.map(|to| to.to_string()),
    }))
}

/// Shows one event, without its payload: its newest row, and the others if its id was put twice.
#[utoipa::path(get, path = "/api/v1/events/{id}", tag = "events",
    params(
        ("id" = String, Path, description = "The event's identity"),
        ("outbox" = Option<String>, Query, description = "Where to look; everywhere if absent"),
    ),
    responses((status = 200, body = RowsView), (status = 404, body = ProblemBody),
        (status = 503, body = ProblemBody)))]
pub(crate) async fn event(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<RowsView>, Problem> {
    let typed = Typed::read(query.as_deref().unwrap_or_default())?;
    let found = app.event(typed.outbox(), identity(&id)?, false).await?;
    let view = |listed| EventView::new(&found.outbox.name, listed);
    Ok(Json(RowsView {
        event: view(&found.newest),
        others: found.others.iter().map(view).collect(),
    }))
}

/// Hands out one event's payload, as it is. Each time is logged.
#[utoipa::path(get, path = "/api/v1/events/{id}/payload", tag = "events",
    params(
        ("id" = String, Path, description = "The event's identity"),
        ("outbox" = Option<String>, Query, description = "Where to look; everywhere if absent"),
    ),
    responses(
        (status = 200, description = "Text", body = String, content_type = "text/plain"),
        (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub(crate) async fn payload(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let typed = Typed::read(query.as_deref().unwrap_or_default())?;
    let Found { outbox, newest, .. } = app.event(typed.outbox(), identity(&id)?, true).await?;
    let id = newest.event.id;
    tracing::info!(outbox = outbox.name, event = %id, "payload shown");
    let (kind, ending, body) = match newest.event.payload {
        Payload::Text(text) => ("text/plain; charset=utf-8", "txt", text.into_bytes()),
        Payload::Bytes(bytes) => ("application/octet-stream", "bin", bytes.to_vec()),
    };
    let disposition = format!("attachment; filename=\"{id}.{ending}\"");
    let headers =
        [(header::CONTENT_TYPE, kind.to_string()), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, body).into_response())
}

/// Reads an identity from a path.
pub(crate) fn identity(id: &str) -> Result<EventId, Problem> {
    id.parse().map_err(|_| Problem::missing("an event id is a UUID; this is none"))
}
