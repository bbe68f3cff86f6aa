//! The list of events: the URL holds the filter, a cursor turns the page.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use event::{Counts, Status};

use super::list::{List, is_untidy};
use super::{Frame, html};
use crate::app::App;
use crate::problem::Problem;
use crate::search::Typed;
use crate::session::Who;
use crate::show::{about, number};

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    frame: Frame,
    list: List,
    statuses: Vec<StatusLink>,
}

/// A status to choose, as a link that keeps the rest of the filter.
struct StatusLink {
    label: &'static str,
    count: Option<String>,
    href: String,
    chosen: bool,
}

/// Shows the events that the URL asks for.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let asked = Typed::read(&query)?;
    if is_untidy(&query) {
        return Ok(Redirect::to(&asked.href("/events")).into_response());
    }
    let frame = Frame::new(&app, &who, "events", "Events").await;
    let list = List::look(&app, "/events", &asked, None).await?;
    let statuses = statuses(&app, &asked, &list.typed.outbox).await;
    let status = list.status();
    Ok((status, html(&EventsPage { frame, list, statuses })?).into_response())
}

/// Lists the statuses to choose from, with what the outbox counts while nothing else narrows.
async fn statuses(app: &App, asked: &Typed, outbox: &str) -> Vec<StatusLink> {
    let narrowed = Typed { status: String::new(), ..asked.clone() }.narrows();
    let tallies = if narrowed { Vec::new() } else { app.tallies().await };
    let counts = tallies.iter().find(|t| t.outbox == outbox).and_then(|t| t.counts.as_ref().ok());
    let link = |name: &'static str, label, count: Option<String>| StatusLink {
        label,
        count,
        href: Typed { status: name.to_string(), after: String::new(), ..asked.clone() }
            .href("/events"),
        chosen: asked.status.eq_ignore_ascii_case(name),
    };
    let of = |status: Status| counts.map(|counts| counted(counts, status));
    let known = Status::ALL.into_iter().map(|s| link(s.as_str(), s.as_str(), of(s)));
    std::iter::once(link("", "All", None)).chain(known).collect()
}

fn counted(counts: &Counts, status: Status) -> String {
    match status {
        Status::New => about(counts.exact, counts.new),
        Status::Dispatching => number(counts.dispatching),
        Status::Retry => about(counts.exact, counts.retry),
        Status::Sent => number(counts.sent),
        Status::Dead => about(counts.exact, counts.dead),
    }
}
