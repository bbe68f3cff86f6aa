//! The few acts that every promise is told in.

use std::sync::Arc;
use std::time::Duration;

use event::{
    Catalog, Cause, Claim, Code, Counts, Event, EventId, Filter, Listed, Millis, Order, Outcome,
    Page, Receipt, Settled, Source, Topics, Want,
};
use store::{Lane, Outbox};

use crate::ground::Ground;

/// How long claims last.
pub(super) const LEASE: Duration = Duration::from_secs(10);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MILLI: Duration = Duration::from_millis(1);

/// One relay with one lane.
pub(super) struct Relay {
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) lane: Arc<dyn Source>,
    pub(super) catalog: Arc<dyn Catalog>,
}

/// Starts a relay whose lane takes every topic and holds followers.
pub(super) async fn relay(ground: &dyn Ground) -> Relay {
    relay_with(ground, Order::Hold).await
}

pub(super) async fn relay_with(ground: &dyn Ground, order: Order) -> Relay {
    let outbox = ground.relay().await;
    let lane = outbox.lane(Lane { topics: Topics::all(), order });
    let catalog = outbox.catalog();
    Relay { outbox, lane, catalog }
}

impl Relay {
    /// Puts events that are due at once.
    pub(super) async fn put(&self, events: &[Event]) {
        self.outbox.put(events, None).await.expect("the store takes events");
    }

    /// Puts one event that is due later.
    pub(super) async fn put_at(&self, event: &Event, due: Millis) {
        let event = std::slice::from_ref(event);
        self.outbox.put(event, Some(due)).await.expect("the store takes events");
    }

    pub(super) async fn claim(&self, limit: usize) -> Vec<Claim> {
        claim(&self.lane, limit).await
    }

    /// Claims one row, which must be there.
    pub(super) async fn claim_one(&self) -> Claim {
        let mut claims = self.claim(1).await;
        claims.pop().expect("a row is due")
    }

    pub(super) async fn settle(&self, claims: &[Claim], outcome: &Outcome) -> Settled {
        settle(&self.lane, claims, outcome).await
    }

    /// Settles claims, every one of which must be the newest.
    pub(super) async fn end(&self, claims: &[Claim], outcome: &Outcome) {
        let settled = self.settle(claims, outcome).await;
        let all = Settled { settled: claims.len(), stale: Vec::new() };
        assert_eq!(settled, all, "a claim that was live is stale");
    }

    pub(super) async fn count(&self) -> Counts {
        self.catalog.count().await.expect("the store counts")
    }

    /// Lists everything that a filter finds.
    pub(super) async fn find(&self, filter: &Filter) -> Vec<Listed> {
        let page = Page { limit: 10_000, after: None, payloads: true };
        self.catalog.find(filter, &page).await.expect("the store lists").events
    }

    /// Looks one event up.
    pub(super) async fn look(&self, id: EventId) -> Listed {
        let mut found = self.find(&Filter { id: Some(id), ..Filter::default() }).await;
        assert_eq!(found.len(), 1, "{id} stands in one place");
        found.remove(0)
    }

    /// Requeues the named events.
    pub(super) async fn requeue(&self, ids: &[EventId]) -> event::Requeued {
        self.catalog.requeue(ids, None, 0).await.expect("the store requeues")
    }
}

pub(super) async fn claim(lane: &Arc<dyn Source>, limit: usize) -> Vec<Claim> {
    let want = Want { limit, bytes: 16 << 20, lease: LEASE };
    lane.claim(&want).await.expect("the store hands out")
}

pub(super) async fn settle(lane: &Arc<dyn Source>, claims: &[Claim], outcome: &Outcome) -> Settled {
    let ends: Vec<_> = claims.iter().map(|claim| claim.end(outcome.clone())).collect();
    lane.settle(&ends).await.expect("the store settles")
}

/// Makes an event of a key.
pub(super) fn keyed(key: &str) -> Event {
    unkeyed().key(key)
}

/// Makes an event without a key.
pub(super) fn unkeyed() -> Event {
    Event::new("order.paid", "OrderPaid", "{}")
}

pub(super) fn done() -> Outcome {
    Outcome::Done(Receipt { broker_id: Some("b-1".into()) })
}

pub(super) fn dead() -> Outcome {
    Outcome::Dead(cause())
}

pub(super) fn retry(after: Duration) -> Outcome {
    Outcome::Retry { after, cause: cause() }
}

pub(super) fn release() -> Outcome {
    Outcome::Release { after: Duration::ZERO }
}

pub(super) fn cause() -> Cause {
    Cause::new(Code::SinkRefused, "so it goes")
}

/// Returns which events were claimed, in order.
pub(super) fn ids(claims: &[Claim]) -> Vec<EventId> {
    claims.iter().map(|claim| claim.event.id).collect()
}

/// Returns which events these are, in order.
pub(super) fn ids_of(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}
