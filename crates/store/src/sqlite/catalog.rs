//! The rows as a person sees them.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Catalog, Counts, EventId, Filter, Listing, Page, Requeued, StoreError};
use sqlx::{Connection, Row};

use super::base::Base;
use super::error::Fault;
use super::find::Shelves;
use super::requeue::Requeuing;
use super::writer::Writer;
use crate::listing::{self, RECENT, Revive, counts, find};

/// The catalog of one handle.
pub(super) struct SqliteCatalog {
    pub(super) base: Arc<Base>,
    pub(super) writer: Writer,
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        let list = async {
            let mut conn = self.base.browse().await?;
            // One transaction is one moment: a row that is moved meanwhile is seen exactly once.
            let mut tx = conn.begin().await?;
            let mut shelves = Shelves { base: &self.base, conn: &mut tx };
            let listing = find(&mut shelves, filter, page).await?;
            tx.rollback().await?;
            Ok::<_, Fault>(listing)
        };
        list.await.map_err(StoreError::from)
    }

    async fn count(&self) -> Result<Counts, StoreError> {
        let count = async {
            let many = self.base.many;
            let mut conn = self.base.browse().await?;
            let query = self.base.sql.count.query().bind(self.base.now());
            let query = query.bind(many.saturating_add(1)).bind(RECENT);
            let row = query.fetch_one(&mut *conn).await?;
            counts(many, |name| Ok::<_, Fault>(row.try_get(name)?))
        };
        count.await.map_err(StoreError::from)
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
impl Revive for SqliteCatalog {
    async fn in_order(&self, ids: &[EventId]) -> Result<Vec<EventId>, StoreError> {
        let texts: Vec<String> = ids.iter().map(EventId::to_string).collect();
        let json = serde_json::to_string(&texts).expect("texts are always JSON");
        let read = async {
            let mut conn = self.base.browse().await?;
            let mut ordered = Vec::with_capacity(ids.len());
            for row in self.base.sql.requeue_order.query().bind(json).fetch_all(&mut *conn).await? {
                ordered.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
            }
            Ok::<_, Fault>(ordered)
        };
        read.await.map_err(StoreError::from)
    }

    async fn revive(&self, ids: Vec<EventId>) -> Result<Requeued, StoreError> {
        let requeued = self.writer.run(Requeuing { ids }).await?;
        self.base.ring();
        Ok(requeued)
    }
}
