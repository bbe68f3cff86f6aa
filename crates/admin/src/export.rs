//! Events as lines of JSON, page after page, for whoever wants to look at them elsewhere.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::{Listed, Payload};
use futures_util::stream;
use serde::Serialize;

use crate::app::{App, Outbox};
use crate::problem::{Problem, ProblemBody};
use crate::search::{MOST, Search, Typed};
use crate::view::EventView;

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    event: EventView,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// Streams everything that a filter finds as NDJSON. Payloads only with `payloads=true`; each such
/// time is logged.
#[utoipa::path(get, path = "/api/v1/export", tag = "events",
    params(
        ("outbox" = Option<String>, Query, description = "Needed when there are several"),
        ("status" = Option<String>, Query, description = "And the other fields of a search"),
        ("payloads" = Option<bool>, Query, description = "Whether payloads are in it"),
    ),
    responses(
        (status = 200, description = "One event a line", body = String,
            content_type = "application/x-ndjson"),
        (status = 400, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (typed, others) = Typed::read_some(query.as_deref().unwrap_or_default());
    let payloads = match others.as_slice() {
        [] => false,
        [(name, value)] if name == "payloads" => value == "true" || value == "1",
        [(name, _), ..] => return Err(Problem::bad(format!("{name:?} is not a parameter here"))),
    };
    let outbox = app.outbox(typed.outbox())?.clone();
    let search = Search { limit: if payloads { PAGE } else { MOST }, ..typed.search()? };
    if payloads {
        tracing::info!(outbox = outbox.name, filter = ?search.filter, "payloads exported");
    }
    let name = format!("attachment; filename=\"{}-events.ndjson\"", plain(&outbox.name));
    // The first page is read before the answer begins, so that a store that is down is a 503.
    let first = lines(&outbox, &search, payloads).await?;
    let rest = stream::unfold(Some(first), move |step| {
        let (outbox, search) = (outbox.clone(), search.clone());
        async move {
            let (chunk, next) = step?;
            let then = match next {
                None => None,
                Some(after) => {
                    let search = Search { after: Some(after), ..search };
                    match lines(&outbox, &search, payloads).await {
                        Ok(step) => Some(step),
                        Err(problem) => return Some((Err(io::Error::other(problem.detail)), None)),
                    }
                }
            };
            Some((Ok(chunk), then))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson".to_string()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, Body::from_stream(rest)).into_response())
}

/// Events a page when each may carry a megabyte.
const PAGE: usize = 25;

async fn lines(
    outbox: &Outbox,
    search: &Search,
    payloads: bool,
) -> Result<(Bytes, Option<event::Cursor>), Problem> {
    let listing = outbox.find(&search.filter, &search.page(payloads)).await?;
    let mut text = Vec::new();
    for listed in &listing.events {
        let line = line(&outbox.name, listed, payloads);
        serde_json::to_writer(&mut text, &line).expect("a line of strings and numbers is JSON");
        text.push(b'\n');
    }
    Ok((Bytes::from(text), listing.next))
}

fn line(outbox: &str, listed: &Listed, payloads: bool) -> Line {
    let (payload, payload_base64) = match &listed.event.payload {
        _ if !payloads => (None, None),
        Payload::Text(text) => (Some(text.clone()), None),
        Payload::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    Line { event: EventView::new(outbox, listed), payload, payload_base64 }
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
