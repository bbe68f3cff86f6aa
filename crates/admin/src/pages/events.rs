//! The list of events: the URL holds the filter, a cursor turns the page.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use event::{Counts, EXPLANATIONS, Listing, Millis, Status};

use super::rows::{Choice, Row};
use super::{Frame, Trouble, html};
use crate::app::App;
use crate::problem::Problem;
use crate::search::{Typed, Wrong};
use crate::session::Who;
use crate::show::number;

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    frame: Frame,
    typed: Typed,
    outboxes: Vec<Choice>,
    statuses: Vec<StatusLink>,
    codes: Vec<&'static str>,
    rows: Vec<Row>,
    wrong: Option<Wrong>,
    trouble: Option<Trouble>,
    next: Option<String>,
    first: Option<String>,
    clear: String,
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
    let mut typed = Typed::read(&query)?;
    if query.split('&').any(|pair| pair.ends_with('=')) {
        return Ok(Redirect::to(&typed.href("/events")).into_response());
    }
    let asked = typed.clone();
    let frame = Frame::new(&app, &who, "events", "Events").await;
    if let (true, Some(first)) = (typed.outbox.is_empty(), app.outboxes.first()) {
        typed.outbox = first.name.clone();
    }
    let mut status = StatusCode::OK;
    let (mut listing, mut wrong, mut trouble) = (Listing::default(), None, None);
    if !app.outboxes.is_empty() {
        let outbox = app.outbox(typed.outbox())?;
        match typed.search() {
            Err(error) => (status, wrong) = (StatusCode::BAD_REQUEST, Some(error)),
            Ok(search) => match outbox.find(&search.filter, &search.page(false)).await {
                Ok(found) => listing = found,
                Err(error) => {
                    let told = Trouble::new(&outbox.name, &error);
                    (status, trouble) = (told.status(), Some(told));
                }
            },
        }
    }
    let now = Millis::now();
    let to = |after: String| Typed { after, ..asked.clone() }.href("/events");
    let page = EventsPage {
        frame,
        outboxes: choices(&app, &typed.outbox),
        statuses: statuses(&app, &asked, &typed.outbox).await,
        codes: EXPLANATIONS.iter().map(|explanation| explanation.code.as_str()).collect(),
        rows: listing.events.iter().map(|listed| Row::new(&typed.outbox, listed, now)).collect(),
        wrong,
        trouble,
        next: listing.next.map(|cursor| to(cursor.0)),
        first: (!asked.after.is_empty()).then(|| to(String::new())),
        clear: Typed { outbox: asked.outbox.clone(), ..Typed::default() }.href("/events"),
        typed,
    };
    Ok((status, html(&page)?).into_response())
}

/// Lists the outboxes to choose from.
pub(super) fn choices(app: &App, chosen: &str) -> Vec<Choice> {
    let choice = |name: &String| Choice { name: name.clone(), chosen: name == chosen };
    app.outboxes.iter().map(|outbox| choice(&outbox.name)).collect()
}

/// Lists the statuses to choose from, with what the outbox counts while nothing else narrows.
async fn statuses(app: &App, asked: &Typed, outbox: &str) -> Vec<StatusLink> {
    let narrowed = Typed { status: String::new(), ..asked.clone() }.narrows();
    let tallies = if narrowed { Vec::new() } else { app.tallies().await };
    let counts = tallies.iter().find(|t| t.outbox == outbox).and_then(|t| t.counts.as_ref().ok());
    let link = |name: &'static str, label, count: Option<u64>| StatusLink {
        label,
        count: count.map(number),
        href: Typed { status: name.to_string(), after: String::new(), ..asked.clone() }
            .href("/events"),
        chosen: asked.status.eq_ignore_ascii_case(name),
    };
    let of = |status: Status| counts.map(|counts| counted(counts, status));
    let known = Status::ALL.into_iter().map(|s| link(s.as_str(), s.as_str(), of(s)));
    std::iter::once(link("", "All", None)).chain(known).collect()
}

fn counted(counts: &Counts, status: Status) -> u64 {
    match status {
        Status::New => counts.new,
        Status::Dispatching => counts.dispatching,
        Status::Retry => counts.retry,
        Status::Sent => counts.sent,
        Status::Dead => counts.dead,
    }
}
