//! The rows as a person sees them.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Catalog, Counts, EventId, Filter, Listing, Millis, Page, Requeued, StoreError};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row};

use super::base::Base;
use super::error::Fault;
use super::find::{MANY, find};
use super::requeue::Requeuing;
use super::writer::Writer;

/// The catalog of one handle.
pub(super) struct SqliteCatalog {
    pub(super) base: Arc<Base>,
    pub(super) writer: Writer,
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        let list = async {
            let mut conn = self.base.reader().await?;
            // One transaction is one moment: a row that is moved meanwhile is seen exactly once.
            let mut tx = conn.begin().await?;
            let listing = find(&self.base, &mut tx, filter, page).await?;
            tx.rollback().await?;
            Ok::<_, Fault>(listing)
        };
        list.await.map_err(StoreError::from)
    }

    async fn count(&self) -> Result<Counts, StoreError> {
        let count = async {
            let mut conn = self.base.reader().await?;
            let query = self.base.sql.count.query().bind(self.base.now()).bind(MANY + 1);
            counts(&query.fetch_one(&mut *conn).await?)
        };
        count.await.map_err(StoreError::from)
    }

    async fn requeue(
        &self,
        ids: &[EventId],
        filter: Option<&Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError> {
        let work = Requeuing { ids: ids.to_vec(), filter: filter.cloned(), limit };
        let requeued = self.writer.run(work).await?;
        self.base.ring();
        Ok(requeued)
    }
}

fn counts(row: &SqliteRow) -> Result<Counts, Fault> {
    let number = |index: usize| -> Result<u64, Fault> {
        let number: Option<i64> = row.try_get(index)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
    let moment = |index: usize| -> Result<Option<Millis>, Fault> {
        Ok(row.try_get::<Option<i64>, _>(index)?.map(Millis))
    };
    let now = Millis(row.try_get(0)?);
    let exact = number(1)? <= MANY as u64;
    let hot = if exact { number(1)? } else { number(2)? };
    let (hot_out, later_out) = (number(3)?, number(5)?);
    // A fresh row waits in line, which has no time, whatever a clock that was set back says.
    let hot_due = moment(8)?.map(|due| due.min(now));
    Ok(Counts {
        new: hot.saturating_sub(hot_out),
        dispatching: hot_out + later_out,
        retry: number(4)?.saturating_sub(later_out),
        dead: number(6)?,
        sent: number(7)?,
        exact,
        oldest_due: [hot_due, moment(9)?, moment(10)?].into_iter().flatten().min(),
        now,
    })
}
