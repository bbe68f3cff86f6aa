//! A new life for dead events in small steps, so that nobody waits for more than one of them.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{Catalog, EventId, Filter, Listing, Page, Requeued, Status, StoreError};

/// How many dead rows get a new life in one transaction.
const STEP: usize = 500;

/// A catalog that gives dead events a new life.
#[async_trait]
pub(crate) trait Revive: Catalog {
    /// Returns which of these are dead, oldest first.
    async fn in_order(&self, ids: &[EventId]) -> Result<Vec<EventId>, StoreError>;
    /// Gives one step of dead events a new life, each named once, in this order.
    async fn revive(&self, ids: Vec<EventId>) -> Result<Requeued, StoreError>;
}

/// Requeues those named, and at most `limit` that a filter finds: oldest first, so that a key's
/// events come back in their order.
pub(crate) async fn requeue(
    catalog: &impl Revive,
    ids: &[EventId],
    filter: Option<&Filter>,
    limit: usize,
) -> Result<Requeued, StoreError> {
    let mut asked = HashSet::with_capacity(ids.len());
    let mut named: Vec<EventId> = ids.iter().copied().filter(|id| asked.insert(*id)).collect();
    if let Some(filter) = filter {
        let found = find_dead(catalog, filter, limit).await?;
        named.extend(found.into_iter().filter(|id| asked.insert(*id)));
    }
    // Found outside of the transaction: whoever is not dead any more by then is skipped.
    let mut ordered = catalog.in_order(&named).await?;
    ordered.dedup();
    let mut done = Requeued::default();
    for step in ordered.chunks(STEP) {
        let Requeued { requeued, skipped } = catalog.revive(step.to_vec()).await?;
        done.requeued.extend(requeued);
        done.skipped.extend(skipped);
    }
    let dead: HashSet<&EventId> = ordered.iter().collect();
    done.skipped.extend(named.iter().filter(|id| !dead.contains(id)));
    Ok(done)
}

/// Finds dead events, newest first.
async fn find_dead(
    catalog: &impl Revive,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<EventId>, StoreError> {
    let dead = Filter { status: Some(Status::Dead), ..filter.clone() };
    let (mut found, mut after) = (Vec::new(), None);
    while found.len() < limit {
        let page = Page { limit: STEP.min(limit - found.len()), after, payloads: false };
        let Listing { events, next, .. } = catalog.find(&dead, &page).await?;
        found.extend(events.into_iter().map(|listed| listed.event.id));
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}
