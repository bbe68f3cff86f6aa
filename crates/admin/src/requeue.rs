//! Giving dead events a new life: named ones, or what a filter finds; on trial first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use event::{EventId, Filter, Page, Requeued, Status, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::{App, Outbox};
use crate::gate::Body;
use crate::problem::{Problem, ProblemBody};
use crate::search::Typed;

/// Events that one call requeues at the most.
pub(crate) const MOST: usize = 10_000;
/// Events that one call may name.
pub(crate) const NAMED: usize = 1_000;

/// Dead events that a trial counts at the most; it does not say how many there are beyond.
pub(crate) const TRIED: usize = 1_000;
/// Searches that a trial makes at the most, each over as many rows as a store looks at at once.
const SEARCHES: usize = 20;

/// Which dead events a filter means. Every field narrows; an empty filter means all.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FilterBody {
    /// One identity.
    id: Option<String>,
    /// One business key, exactly.
    key: Option<String>,
    /// One event type, exactly.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// One topic, exactly.
    topic: Option<String>,
    /// One cause code of the newest trouble.
    code: Option<String>,
}

/// What to requeue.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequeueBody {
    /// The outbox; needed when there are several.
    outbox: Option<String>,
    /// Events by identity.
    #[serde(default)]
    ids: Vec<String>,
    /// And what this finds.
    filter: Option<FilterBody>,
    /// How many the filter may requeue, 1 to 10,000; 100 if absent.
    limit: Option<usize>,
    /// Only tell what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// What happened, or on a dry run what would.
#[derive(Serialize, ToSchema)]
pub(crate) struct RequeuedView {
    /// Whether nothing was changed.
    dry_run: bool,
    /// These are due again.
    pub(crate) requeued: Vec<String>,
    /// These were not dead (any more); nothing was changed for them.
    pub(crate) skipped: Vec<String>,
    /// Whether the filter finds more than the limit allows.
    pub(crate) more: bool,
    /// Whether a dry run stopped counting: at least these, and at the most the limit.
    pub(crate) at_least: bool,
}

/// An order to requeue, understood.
pub(crate) struct Order {
    /// Events by identity.
    pub(crate) ids: Vec<EventId>,
    /// And what this finds.
    pub(crate) filter: Option<Filter>,
    /// How many the filter may requeue.
    pub(crate) limit: usize,
}

impl Order {
    /// Understands identities, a filter and a limit.
    pub(crate) fn new(
        ids: &[String],
        filter: Option<Filter>,
        limit: Option<usize>,
    ) -> Result<Order, Problem> {
        if ids.is_empty() && filter.is_none() {
            return Err(Problem::bad("name events in ids, or give a filter ({} means all dead)"));
        }
        if ids.len() > NAMED {
            return Err(Problem::bad(format!("at most {NAMED} ids fit into one call")));
        }
        let limit = limit.unwrap_or(100);
        if !(1..=MOST).contains(&limit) {
            return Err(Problem::bad(format!("limit: take a number from 1 to {MOST}")));
        }
        let id = |id: &String| {
            id.parse().map_err(|_| Problem::bad(format!("{id:?} is no event id: it is no UUID")))
        };
        let mut ids = ids.iter().map(id).collect::<Result<Vec<EventId>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        let filter = filter.map(|filter| Filter { status: Some(Status::Dead), ..filter });
        Ok(Order { ids, filter, limit })
    }

    /// Does it, and tells whether the filter still finds more.
    pub(crate) async fn run(&self, app: &App, outbox: &Outbox) -> Result<RequeuedView, Problem> {
        let done = outbox.requeue(self.ids.clone(), self.filter.clone(), self.limit).await;
        app.recount().await;
        let done = done?;
        tracing::info!(
            outbox = outbox.name,
            requeued = done.requeued.len(),
            skipped = done.skipped.len(),
            named = self.ids.len(),
            filter = ?self.filter,
            "requeued from the console"
        );
        let mut view = view(false, &done);
        if let Some(filter) = &self.filter {
            let left = dead(outbox, filter, 1).await?;
            view.more = left.more || !left.ids.is_empty();
        }
        Ok(view)
    }

    /// Tells what it would do, and changes nothing.
    pub(crate) async fn try_out(&self, outbox: &Outbox) -> Result<RequeuedView, Problem> {
        let mut would = Requeued::default();
        for id in &self.ids {
            match outbox.is_dead(*id).await? {
                true => would.requeued.push(*id),
                false => would.skipped.push(*id),
            }
        }
        let Some(filter) = &self.filter else { return Ok(view(true, &would)) };
        let mut found = dead(outbox, filter, self.limit.min(TRIED)).await?;
        let all = found.ids.len() == self.limit;
        found.ids.retain(|id| !would.requeued.contains(id));
        would.requeued.append(&mut found.ids);
        let (more, at_least) = (found.more && all, found.more && !all);
        Ok(RequeuedView { more, at_least, ..view(true, &would) })
    }
}

/// Dead events, and whether there may be more.
#[derive(Default)]
struct Dead {
    ids: Vec<EventId>,
    more: bool,
}

async fn dead(outbox: &Outbox, filter: &Filter, most: usize) -> Result<Dead, StoreError> {
    let mut found = Dead::default();
    let mut after = None;
    for _ in 0..SEARCHES {
        let page = Page { limit: (most - found.ids.len()).min(500), after, payloads: false };
        let listing = outbox.find(filter, &page).await?;
        found.ids.extend(listing.events.iter().map(|listed| listed.event.id));
        found.more = listing.next.is_some();
        after = listing.next;
        if !found.more || found.ids.len() == most {
            break;
        }
    }
    Ok(found)
}

fn view(dry_run: bool, done: &Requeued) -> RequeuedView {
    let text = |ids: &[EventId]| ids.iter().map(EventId::to_string).collect();
    let (requeued, skipped) = (text(&done.requeued), text(&done.skipped));
    RequeuedView { dry_run, requeued, skipped, more: false, at_least: false }
}

/// Requeues dead events, or tells on a dry run what would be requeued.
///
/// A browser must come from the same origin and carry the header `x-postbox: 1`; a caller with
/// `Authorization: Bearer` needs neither.
#[utoipa::path(post, path = "/api/v1/requeue", tag = "events", request_body = RequeueBody,
    params(("x-postbox" = Option<String>, Header, description = "Any value; no form can set it")),
    responses((status = 200, body = RequeuedView), (status = 400, body = ProblemBody),
        (status = 403, body = ProblemBody), (status = 413, body = ProblemBody),
        (status = 503, body = ProblemBody)))]
pub(crate) async fn requeue(
    State(app): State<Arc<App>>,
    Body(body): Body,
) -> Result<Json<RequeuedView>, Problem> {
    let body: RequeueBody = serde_json::from_slice(&body)
        .map_err(|error| Problem::bad(format!("the body is no requeue: {error}")))?;
    let outbox = app.outbox(body.outbox.as_deref())?;
    let filter = body.filter.map(FilterBody::understand).transpose()?;
    let order = Order::new(&body.ids, filter, body.limit)?;
    let view = match body.dry_run {
        true => order.try_out(outbox).await?,
        false => order.run(&app, outbox).await?,
    };
    Ok(Json(view))
}

impl FilterBody {
    fn understand(self) -> Result<Filter, Problem> {
        let text = Option::unwrap_or_default;
        let typed = Typed {
            id: text(self.id),
            key: text(self.key),
            kind: text(self.kind),
            topic: text(self.topic),
            code: text(self.code),
            ..Typed::default()
        };
        Ok(typed.search()?.filter)
    }
}
