//! A new life for dead events in small steps, so that nobody waits for more than one of them.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{Catalog, EventId, Filter, Listing, Page, Requeued, Status, StoreError};

/// How many dead rows get a new life in one transaction.
const STEP: usize = 500;

/// A catalog that gives dead events a new life.
#[async_trait]
pub(crate) trait Revive: Catalog {
    /// Gives one step of dead events a new life, each named once.
    async fn revive(&self, ids: Vec<EventId>) -> Result<Requeued, StoreError>;
}

/// Requeues those named, and at most `limit` that a filter finds.
pub(crate) async fn requeue(
    catalog: &impl Revive,
    ids: &[EventId],
    filter: Option<&Filter>,
    limit: usize,
) -> Result<Requeued, StoreError> {
    let mut done = Requeued::default();
    let mut add = |step: Requeued| {
        done.requeued.extend(step.requeued);
        done.skipped.extend(step.skipped);
    };
    let mut asked = HashSet::with_capacity(ids.len());
    let named: Vec<EventId> = ids.iter().copied().filter(|id| asked.insert(*id)).collect();
    for step in named.chunks(STEP) {
        add(catalog.revive(step.to_vec()).await?);
    }
    let (mut left, mut after) = (limit, None);
    let dead = filter.map(|filter| Filter { status: Some(Status::Dead), ..filter.clone() });
    while let (Some(dead), true) = (&dead, left > 0) {
        // Found outside of the transaction: whoever is not dead any more by then is skipped.
        let page = Page { limit: left.min(STEP), after, payloads: false };
        let Listing { events, next, .. } = catalog.find(dead, &page).await?;
        left -= events.len();
        let found = events.into_iter().map(|listed| listed.event.id);
        let found: Vec<EventId> = found.filter(|id| asked.insert(*id)).collect();
        if !found.is_empty() {
            add(catalog.revive(found).await?);
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(done)
}
