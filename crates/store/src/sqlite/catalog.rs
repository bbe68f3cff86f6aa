//! The rows as a person sees them.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use event::{
    Catalog, Counts, EventId, Filter, Listing, Millis, Page, Requeued, Status, StoreError,
};
use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row};

use super::base::Base;
use super::error::Fault;
use super::find::find;
use super::requeue::Requeuing;
use super::writer::Writer;

/// How many dead rows get a new life in one transaction, so that no producer waits for more.
const STEP: usize = 500;

/// Among how many newest numbers the share of new rows is looked at, where they are not counted.
const RECENT: i64 = 1_000;

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
            let listing = find(&self.base, &mut tx, filter, page).await?;
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
            counts(&query.fetch_one(&mut *conn).await?, many)
        };
        count.await.map_err(StoreError::from)
    }

    async fn requeue(
        &self,
        ids: &[EventId],
        filter: Option<&Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError> {
        let mut asked = HashSet::with_capacity(ids.len());
        let mut named: Vec<EventId> = ids.iter().copied().filter(|id| asked.insert(*id)).collect();
        if let Some(filter) = filter {
            let found = self.find_dead(filter, limit).await?;
            named.extend(found.into_iter().filter(|id| asked.insert(*id)));
        }
        // Found outside of the transaction: whoever is not dead any more by then is skipped.
        let ordered = self.in_order(&named).await.map_err(StoreError::from)?;
        let mut done = Requeued::default();
        for step in ordered.chunks(STEP) {
            self.revive(step.to_vec(), &mut done).await?;
        }
        let dead: HashSet<&EventId> = ordered.iter().collect();
        done.skipped.extend(named.iter().filter(|id| !dead.contains(id)));
        Ok(done)
    }
}

impl SqliteCatalog {
    /// Finds dead events, newest first.
    async fn find_dead(&self, filter: &Filter, limit: usize) -> Result<Vec<EventId>, StoreError> {
        let dead = Filter { status: Some(Status::Dead), ..filter.clone() };
        let (mut found, mut after) = (Vec::new(), None);
        while found.len() < limit {
            let page = Page { limit: STEP.min(limit - found.len()), after, payloads: false };
            let Listing { events, next, .. } = self.find(&dead, &page).await?;
            found.extend(events.into_iter().map(|listed| listed.event.id));
            after = next;
            if after.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Returns which of these are dead, oldest first: a key's events come back in their order.
    async fn in_order(&self, ids: &[EventId]) -> Result<Vec<EventId>, Fault> {
        let texts: Vec<String> = ids.iter().map(EventId::to_string).collect();
        let json = serde_json::to_string(&texts).expect("texts are always JSON");
        let mut conn = self.base.browse().await?;
        let mut ordered = Vec::with_capacity(ids.len());
        let mut rows = self.base.sql.requeue_order.query().bind(json).fetch(&mut *conn);
        while let Some(row) = rows.try_next().await? {
            ordered.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
        }
        ordered.dedup();
        Ok(ordered)
    }

    /// Gives one step of dead events a new life.
    async fn revive(&self, ids: Vec<EventId>, done: &mut Requeued) -> Result<(), StoreError> {
        let Requeued { requeued, skipped } = self.writer.run(Requeuing { ids }).await?;
        self.base.ring();
        done.requeued.extend(requeued);
        done.skipped.extend(skipped);
        Ok(())
    }
}

fn counts(row: &SqliteRow, many: i64) -> Result<Counts, Fault> {
    let number = |name: &str| -> Result<u64, Fault> {
        let number: Option<i64> = row.try_get(name)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
    let moment = |name: &str| -> Result<Option<Millis>, Fault> {
        Ok(row.try_get::<Option<i64>, _>(name)?.map(Millis))
    };
    let counted = |number: u64| number <= many.unsigned_abs();
    let of = |table: &str, span: &str| -> Result<u64, Fault> {
        let rows = number(table)?;
        if counted(rows) { Ok(rows) } else { number(span) }
    };
    let (hot, later, dead) =
        (of("hot", "hot_span")?, of("later", "later_span")?, of("dead", "dead_span")?);
    let mut later_new = number("later_new")?;
    if !counted(later_new) {
        later_new = later.saturating_mul(number("recent_new")?) / number("recent")?.max(1);
    }
    let now = Millis(row.try_get("now")?);
    let (hot_out, later_out) = (number("hot_out")?, number("later_out")?);
    // A fresh row waits in line, which has no time, whatever a clock that was set back says.
    let hot_due = moment("hot_due")?.map(|due| due.min(now));
    Ok(Counts {
        new: hot.saturating_sub(hot_out) + later_new,
        dispatching: hot_out + later_out,
        retry: later.saturating_sub(later_out + later_new),
        dead,
        sent: number("sent")?,
        exact: counted(number("hot")?) && counted(number("later")?) && counted(number("dead")?),
        oldest_due: [hot_due, moment("lapsed_due")?, moment("later_due")?]
            .into_iter()
            .flatten()
            .min(),
        now,
    })
}
