//! The rows as a person sees them.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use event::{Catalog, Counts, EventId, Filter, Listing, Page, Requeued, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::find::Shelves;
use super::work::{Scope, Work};
use crate::listing::{self, RECENT, Revive, counts, find};

/// The catalog of one handle.
pub(super) struct PostgresCatalog(pub(super) Arc<Base>);

#[async_trait]
impl Catalog for PostgresCatalog {
    async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        self.0.carry(Finding { filter: filter.clone(), page: page.clone() }).await
    }

    async fn count(&self) -> Result<Counts, StoreError> {
        self.0.carry(Counting).await
    }

    async fn requeue(
        &self,
        ids: &[EventId],
        filter: Option<&Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError> {
        listing::requeue(self, ids, filter, limit).await
    }
}

#[async_trait]
impl Revive for PostgresCatalog {
    async fn in_order(&self, ids: &[EventId]) -> Result<Vec<EventId>, StoreError> {
        self.0.carry(Ordering { ids: ids.to_vec() }).await
    }

    async fn revive(&self, ids: Vec<EventId>) -> Result<Requeued, StoreError> {
        let requeued = self.0.carry(Requeuing { ids }).await?;
        self.0.ring();
        Ok(requeued)
    }
}

struct Finding {
    filter: Filter,
    page: Page,
}

#[async_trait]
impl Work for Finding {
    type Out = Listing;
    const COMMIT: Commit = Commit::Sure;

    fn scope(&self) -> Scope {
        Scope::Moment
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Listing, Fault> {
        base.shards(conn).await?;
        find(&mut Shelves { base, conn }, &self.filter, &self.page).await
    }
}

struct Counting;

#[async_trait]
impl Work for Counting {
    type Out = Counts;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Counts, Fault> {
        base.shards(conn).await?;
        let query = base.sql.count.query().bind(base.now());
        let row = query.bind(base.many.saturating_add(1)).bind(RECENT).fetch_one(conn).await?;
        counts(base.many, |name| Ok::<_, Fault>(row.try_get(name)?))
    }
}

/// Which of these are dead, oldest first.
struct Ordering {
    ids: Vec<EventId>,
}

#[async_trait]
impl Work for Ordering {
    type Out = Vec<EventId>;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        base.shards(conn).await?;
        let texts: Vec<String> = self.ids.iter().map(EventId::to_string).collect();
        let mut ordered = Vec::with_capacity(texts.len());
        for row in base.sql.requeue_order.query().bind(texts).fetch_all(conn).await? {
            ordered.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
        }
        Ok(ordered)
    }
}

/// A new life for dead events under the same identity, each named once.
struct Requeuing {
    ids: Vec<EventId>,
}

#[async_trait]
impl Work for Requeuing {
    type Out = Requeued;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Requeued, Fault> {
        base.shards(conn).await?;
        let texts: Vec<String> = self.ids.iter().map(EventId::to_string).collect();
        let query = base.sql.requeue.query().bind(base.now()).bind(texts);
        let mut there: HashSet<EventId> = HashSet::new();
        for row in query.fetch_all(&mut *conn).await? {
            there.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
        }
        let (requeued, skipped) = self.ids.iter().partition(|id| there.contains(id));
        Ok(Requeued { requeued, skipped })
    }
}
