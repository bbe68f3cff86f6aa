//! The list of events: the URL holds the filter, a cursor turns the page.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use event::{EXPLANATIONS, Listing, Millis, Status};

use super::rows::{Choice, Row};
use super::{Frame, Trouble, html};
use crate::app::App;
use crate::problem::Problem;
use crate::search::{Typed, Wrong};
use crate::session::Who;

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
    name: &'static str,
    label: &'static str,
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
        statuses: statuses(&asked),
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

fn statuses(asked: &Typed) -> Vec<StatusLink> {
    let link = |name: &'static str, label| StatusLink {
        name,
        label,
        href: Typed { status: name.to_string(), after: String::new(), ..asked.clone() }
            .href("/events"),
        chosen: asked.status.eq_ignore_ascii_case(name),
    };
    let all = std::iter::once(link("", "All"));
    all.chain(Status::ALL.into_iter().map(|status| link(status.as_str(), status.as_str())))
        .collect()
}
