//! The dead board: what was given up, grouped by why and where, ready to be requeued.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use event::{Filter, Millis, Page, Status, StoreError};

use super::list::{List, is_untidy};
use super::{Frame, Trouble, html};
use crate::app::{App, Outbox};
use crate::problem::Problem;
use crate::search::Typed;
use crate::session::Who;
use crate::show::{Stamp, number};

/// Dead events that the summary looks at.
const SUMMED: usize = 1000;

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadPage {
    frame: Frame,
    list: List,
    summary: Summary,
    export: String,
}

/// Why events are dead, as far as the newest ones tell.
#[derive(Default)]
struct Summary {
    groups: Vec<Group>,
    partial: Option<String>,
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

/// Shows the dead board.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let asked = Typed::read(&query)?;
    if is_untidy(&query) || !asked.status.is_empty() {
        let clean = Typed { status: String::new(), ..asked };
        return Ok(Redirect::to(&clean.href("/dead")).into_response());
    }
    let frame = Frame::new(&app, &who, "dead", "Dead").await;
    let mut list = List::look(&app, "/dead", &asked, Some(Status::Dead)).await?;
    let mut summary = Summary::default();
    if list.trouble.is_none() && !app.outboxes.is_empty() {
        let outbox = app.outbox(list.typed.outbox())?;
        match sum_up(outbox, &asked).await {
            Ok(told) => summary = told,
            Err(error) => list.trouble = Some(Trouble::new(&outbox.name, &error)),
        }
    }
    let (after, limit) = (String::new(), String::new());
    let all = Typed { after, limit, status: "DEAD".to_string(), ..list.typed.clone() };
    let status = list.status();
    let page = DeadPage { frame, list, summary, export: all.href("/api/v1/export") };
    Ok((status, html(&page)?).into_response())
}

async fn sum_up(outbox: &Outbox, asked: &Typed) -> Result<Summary, StoreError> {
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
    Ok(Summary { groups: counted.into_iter().map(group).collect(), partial })
}
