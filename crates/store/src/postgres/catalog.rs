//! The rows as a person sees them.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use event::{
    Catalog, Counts, EventId, Filter, Listing, Millis, Page, Requeued, Status, StoreError,
};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::find::find;
use super::work::{Scope, Work};
use crate::listing::MANY;

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
        let work = Requeuing { ids: ids.to_vec(), filter: filter.cloned(), limit };
        let requeued = self.0.carry(work).await?;
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
        find(base, conn, &self.filter, &self.page).await
    }
}

struct Counting;

#[async_trait]
impl Work for Counting {
    type Out = Counts;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Counts, Fault> {
        base.shards(conn).await?;
        let query = base.sql.count.query().bind(base.now()).bind(MANY + 1);
        counts(&query.fetch_one(conn).await?)
    }
}

fn counts(row: &PgRow) -> Result<Counts, Fault> {
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
    let hot_due = moment(8)?.filter(|due| *due <= now);
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

/// A new life for dead events, under the same identity: those named, and what a filter finds.
struct Requeuing {
    ids: Vec<EventId>,
    filter: Option<Filter>,
    limit: usize,
}

#[async_trait]
impl Work for Requeuing {
    type Out = Requeued;
    const COMMIT: Commit = Commit::Sure;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Requeued, Fault> {
        base.shards(conn).await?;
        let mut ids = self.ids.clone();
        if let Some(filter) = &self.filter {
            let dead = Filter { status: Some(Status::Dead), ..filter.clone() };
            let page = Page { limit: self.limit, ..Page::default() };
            let found = find(base, conn, &dead, &page).await?.events;
            ids.extend(found.into_iter().map(|listed| listed.event.id));
        }
        let mut once = HashSet::with_capacity(ids.len());
        let texts: Vec<String> =
            ids.iter().filter(|id| once.insert(**id)).map(EventId::to_string).collect();
        let query = base.sql.requeue.query().bind(base.now()).bind(texts);
        let mut there: HashSet<EventId> = HashSet::new();
        for row in query.fetch_all(&mut *conn).await? {
            there.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
        }
        let mut requeued = Requeued::default();
        for id in ids {
            if there.remove(&id) {
                requeued.requeued.push(id);
            } else {
                requeued.skipped.push(id);
            }
        }
        Ok(requeued)
    }
}
