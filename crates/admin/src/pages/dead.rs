//! The dead board: what was given up, grouped by why and where, ready to be requeued.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use event::{EXPLANATIONS, Filter, Listing, Millis, Page, Status, StoreError};

use super::events::choices;
use super::rows::{Choice, Row};
use super::{Frame, Trouble, html};
use crate::app::{App, Outbox};
use crate::problem::Problem;
use crate::search::{Typed, Wrong};
use crate::session::Who;
use crate::show::{Stamp, number};

/// Dead events that the summary looks at.
const SUMMED: usize = 1000;

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadPage {
    frame: Frame,
    typed: Typed,
    outboxes: Vec<Choice>,
    codes: Vec<&'static str>,
    groups: Vec<Group>,
    partial: Option<String>,
    rows: Vec<Row>,
    wrong: Option<Wrong>,
    trouble: Option<Trouble>,
    next: Option<String>,
    first: Option<String>,
    clear: String,
    export: String,
    narrowed: bool,
}

/// Dead events with one cause and one topic.
struct Group {
    code: &'static str,
    topic: String,
    count: String,
    share: u64,
    newest: Stamp,
    href: String,
    chosen: bool,
}

/// What the stores told for the board.
#[derive(Default)]
struct Found {
    listing: Listing,
    groups: Vec<Group>,
    partial: Option<String>,
}

/// Shows the dead board.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let mut typed = Typed::read(&query)?;
    if query.split('&').any(|pair| pair.ends_with('=')) || !typed.status.is_empty() {
        let clean = Typed { status: String::new(), ..typed };
        return Ok(Redirect::to(&clean.href("/dead")).into_response());
    }
    let asked = typed.clone();
    let frame = Frame::new(&app, &who, "dead", "Dead").await;
    if let (true, Some(first)) = (typed.outbox.is_empty(), app.outboxes.first()) {
        typed.outbox = first.name.clone();
    }
    let mut status = StatusCode::OK;
    let (mut found, mut wrong, mut trouble) = (Found::default(), None, None);
    if !app.outboxes.is_empty() {
        let outbox = app.outbox(typed.outbox())?;
        match typed.search() {
            Err(error) => (status, wrong) = (StatusCode::BAD_REQUEST, Some(error)),
            Ok(search) => match look(outbox, &search.filter, &search.page(false), &asked).await {
                Ok(told) => found = told,
                Err(error) => {
                    let told = Trouble::new(&outbox.name, &error);
                    (status, trouble) = (told.status(), Some(told));
                }
            },
        }
    }
    let now = Millis::now();
    let to = |after: String| Typed { after, ..asked.clone() }.href("/dead");
    let board = Typed { after: String::new(), limit: String::new(), ..typed.clone() };
    let page = DeadPage {
        frame,
        outboxes: choices(&app, &typed.outbox),
        codes: EXPLANATIONS.iter().map(|explanation| explanation.code.as_str()).collect(),
        groups: found.groups,
        partial: found.partial,
        rows: found.listing.events.iter().map(|l| Row::new(&typed.outbox, l, now)).collect(),
        wrong,
        trouble,
        next: found.listing.next.map(|cursor| to(cursor.0)),
        first: (!asked.after.is_empty()).then(|| to(String::new())),
        clear: Typed { outbox: asked.outbox.clone(), ..Typed::default() }.href("/dead"),
        export: Typed { status: "DEAD".to_string(), ..board }.href("/api/v1/export"),
        narrowed: asked.narrows(),
        typed,
    };
    Ok((status, html(&page)?).into_response())
}

async fn look(
    outbox: &Outbox,
    filter: &Filter,
    page: &Page,
    asked: &Typed,
) -> Result<Found, StoreError> {
    let filter = Filter { status: Some(Status::Dead), ..filter.clone() };
    let listing = outbox.find(&filter, page).await?;
    let (groups, partial) = summary(outbox, asked).await?;
    Ok(Found { listing, groups, partial })
}

async fn summary(
    outbox: &Outbox,
    asked: &Typed,
) -> Result<(Vec<Group>, Option<String>), StoreError> {
    let filter = Filter { status: Some(Status::Dead), ..Filter::default() };
    let page = Page { limit: SUMMED, after: None, payloads: false };
    let listing = outbox.find(&filter, &page).await?;
    let mut counted: BTreeMap<(&'static str, &str), (u64, Millis)> = BTreeMap::new();
    for listed in &listing.events {
        let code = listed.last_error().map_or("", |cause| cause.code.as_str());
        let entry = counted.entry((code, &listed.event.topic)).or_default();
        *entry = (entry.0 + 1, entry.1.max(listed.updated));
    }
    let mut counted: Vec<_> = counted.into_iter().collect();
    counted.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let now = Millis::now();
    let most = counted.first().map_or(1, |(_, (count, _))| *count);
    let group = |((code, topic), (count, newest)): ((&'static str, &str), (u64, Millis))| Group {
        code,
        topic: topic.to_string(),
        count: number(count),
        share: count * 100 / most,
        newest: Stamp::new(newest, now),
        href: Typed {
            outbox: asked.outbox.clone(),
            topic: topic.to_string(),
            code: code.to_string(),
            ..Typed::default()
        }
        .href("/dead"),
        chosen: asked.code == code && asked.topic == topic,
    };
    let partial = listing.next.is_some().then(|| number(listing.events.len() as u64));
    Ok((counted.into_iter().map(group).collect(), partial))
}
