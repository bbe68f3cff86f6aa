//! The rows as a person sees them.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use event::{Catalog, Counts, EventId, Filter, Listing, Page, Requeued, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Terms, Work};
use crate::listing::{self, Revive};

/// The catalog of one handle.
pub(super) struct ServerCatalog<D: Dialect>(pub(super) Arc<Base<D>>);

#[async_trait]
impl<D: Dialect> Catalog for ServerCatalog<D> {
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
impl<D: Dialect> Revive for ServerCatalog<D> {
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
impl<D: Dialect> Work<D> for Finding {
    type Out = Listing;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Moment)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Listing, Fault> {
        base.shards(conn).await?;
        D::find(base, conn, &self.filter, &self.page).await
    }
}

struct Counting;

#[async_trait]
impl<D: Dialect> Work<D> for Counting {
    type Out = Counts;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Moment)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Counts, Fault> {
        base.shards(conn).await?;
        base.db.count(conn, base.now(), base.many).await
    }
}

/// Which of these are dead, oldest first.
struct Ordering {
    ids: Vec<EventId>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Ordering {
    type Out = Vec<EventId>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        base.shards(conn).await?;
        base.db.dead_in_order(conn, &self.ids).await
    }
}

/// A new life for dead events under the same identity, each named once.
struct Requeuing {
    ids: Vec<EventId>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Requeuing {
    type Out = Requeued;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Transaction)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Requeued, Fault> {
        base.shards(conn).await?;
        let revived = base.db.revive(conn, base.now(), &self.ids).await?;
        let there: HashSet<EventId> = revived.into_iter().collect();
        let (requeued, skipped) = self.ids.iter().partition(|id| there.contains(id));
        Ok(Requeued { requeued, skipped })
    }
}
