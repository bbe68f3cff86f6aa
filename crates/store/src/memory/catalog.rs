//! The rows as a person sees them, modelled.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use event::{
    Catalog, Counts, Cursor, EventId, Filter, Listed, Listing, Millis, Page, Place, Requeued,
    Shelf, Status, StoreError,
};

use super::{Entry, State, Table};

pub(super) struct MemoryCatalog(pub(super) Arc<Table>);

#[async_trait]
impl Catalog for MemoryCatalog {
    async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        let now = self.0.now();
        let state = self.0.state();
        let mut events: Vec<Listed> =
            state.entries.iter().map(|entry| listed(&state, entry, now)).collect();
        if state.competes {
            events.iter_mut().for_each(|listed| listed.behind = 0);
        }
        events.retain(|listed| fits(filter, listed));
        events.sort_by_key(|listed| std::cmp::Reverse((listed.event.created, listed.event.id)));
        if let Some(Cursor(after)) = &page.after {
            let last = events.iter().position(|listed| listed.event.id.to_string() == *after);
            events.drain(..last.map_or(0, |at| at + 1));
        }
        let more = events.len() > page.limit;
        events.truncate(page.limit);
        let last = events.last().map(|listed| Cursor(listed.event.id.to_string()));
        Ok(Listing { next: last.filter(|_| more), events, searched_to: None })
    }

    async fn count(&self) -> Result<Counts, StoreError> {
        let now = self.0.now();
        let state = self.0.state();
        let mut counts = Counts { exact: true, now, sent: state.trimmed, ..Counts::default() };
        for entry in &state.entries {
            let status = status(&state, entry, now);
            *match status {
                Status::New => &mut counts.new,
                Status::Dispatching => &mut counts.dispatching,
                Status::Retry => &mut counts.retry,
                Status::Sent => &mut counts.sent,
                Status::Dead => &mut counts.dead,
            } += 1;
            let due = matches!(status, Status::New | Status::Retry) && entry.row.due <= now;
            if due
                && !is_fresh(entry)
                && counts.oldest_due.is_none_or(|oldest| entry.row.due < oldest)
            {
                counts.oldest_due = Some(entry.row.due);
            }
        }
        // A fresh row waits in line, which has no time: the first has waited since it was put, or
        // since now if the clock was set back meanwhile.
        let fresh = state.entries.iter().filter(|entry| is_fresh(entry));
        if let Some(first) = fresh.min_by_key(|entry| entry.number) {
            let since = first.row.event.created.min(now);
            counts.oldest_due = Some(counts.oldest_due.map_or(since, |oldest| oldest.min(since)));
        }
        Ok(counts)
    }

    async fn requeue(
        &self,
        ids: &[EventId],
        filter: Option<&Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError> {
        let mut asked = HashSet::new();
        let mut named: Vec<EventId> = ids.iter().copied().filter(|id| asked.insert(*id)).collect();
        if let Some(filter) = filter {
            let dead = Filter { status: Some(Status::Dead), ..filter.clone() };
            let page = Page { limit, ..Page::default() };
            let found = self.find(&dead, &page).await?.events;
            let found = found.into_iter().map(|listed| listed.event.id);
            named.extend(found.filter(|id| asked.insert(*id)));
        }
        let done = self.revive(&named);
        self.0.bell.notify_waiters();
        Ok(done)
    }
}

impl MemoryCatalog {
    /// Gives dead events a new life, oldest first.
    fn revive(&self, ids: &[EventId]) -> Requeued {
        let now = self.0.now();
        let mut state = self.0.state();
        let mut numbers = state.later;
        let dead =
            |entry: &&mut Entry| entry.row.place == Place::Dead && ids.contains(&entry.row.id());
        let mut dead: Vec<&mut Entry> = state.entries.iter_mut().filter(dead).collect();
        dead.sort_by_key(|entry| (entry.row.event.created, entry.birth, entry.row.id()));
        let mut requeued: Vec<EventId> = Vec::new();
        for entry in dead {
            numbers += 1;
            let _ = entry.row.requeue(now);
            (entry.number, entry.updated) = (numbers, now);
            requeued.push(entry.row.id());
        }
        state.later = numbers;
        requeued.dedup();
        let skipped = ids.iter().copied().filter(|id| !requeued.contains(id)).collect();
        Requeued { requeued, skipped }
    }
}

fn is_fresh(entry: &Entry) -> bool {
    entry.row.place == Place::Waiting(Shelf::Hot) && entry.row.unexplained == 0
}

fn status(state: &State, entry: &Entry, now: Millis) -> Status {
    let in_flight = entry.row.unexplained > 0;
    let until = if state.competes { entry.row.due } else { state.lease.until };
    match entry.row.place {
        Place::Waiting(Shelf::Hot) if in_flight && until > now => Status::Dispatching,
        Place::Waiting(Shelf::Hot) => Status::New,
        Place::Waiting(Shelf::Later) if in_flight && entry.row.due > now => Status::Dispatching,
        Place::Waiting(Shelf::Later) if entry.row.attempt == 0 => Status::New,
        Place::Waiting(Shelf::Later) => Status::Retry,
        Place::Sent(_) => Status::Sent,
        Place::Dead => Status::Dead,
    }
}

fn listed(state: &State, entry: &Entry, now: Millis) -> Listed {
    let row = &entry.row;
    let waiting = matches!(row.place, Place::Waiting(_));
    let broker_id = match &row.place {
        Place::Sent(receipt) => receipt.broker_id.clone(),
        _ => None,
    };
    let follows = |other: &&Entry| {
        other.row.place == Place::Waiting(Shelf::Hot)
            && other.row.event.key.is_some()
            && other.row.event.key == row.event.key
    };
    let behind = if row.holds_key() { state.entries.iter().filter(follows).count() } else { 0 };
    Listed {
        event: row.event.clone(),
        status: status(state, entry, now),
        attempts: row.attempt,
        next_attempt: waiting.then_some(row.due),
        trail: row.trail.clone(),
        broker_id,
        updated: entry.updated,
        behind: behind as u64,
    }
}

fn fits(filter: &Filter, listed: &Listed) -> bool {
    let event = &listed.event;
    let code = || listed.last_error().map(|cause| cause.code.as_str());
    filter.id.is_none_or(|id| id == event.id)
        && filter.key.as_ref().is_none_or(|key| event.key.as_ref() == Some(key))
        && filter.kind.as_ref().is_none_or(|kind| *kind == event.kind)
        && filter.topic.as_ref().is_none_or(|topic| *topic == event.topic)
        && filter.status.is_none_or(|status| status == listed.status)
        && filter.code.as_ref().is_none_or(|wanted| code() == Some(wanted.as_str()))
}
