//! A new life for dead events, under the same identity.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{EventId, Filter, Page, Requeued, Status};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::find::find;
use super::writer::Work;

/// Which dead events to give a new life: those named, and what a filter finds.
pub(super) struct Requeuing {
    pub(super) ids: Vec<EventId>,
    pub(super) filter: Option<Filter>,
    pub(super) limit: usize,
}

#[async_trait]
impl Work for Requeuing {
    type Out = Requeued;
    const DURABLE: bool = true;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Requeued, Fault> {
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
        let json = serde_json::to_string(&texts).expect("texts are always JSON");
        let query = base.sql.requeue_copy.query().bind(base.now()).bind(&json);
        let mut there: HashSet<EventId> = HashSet::new();
        for row in query.fetch_all(&mut *conn).await? {
            there.extend(row.try_get::<&str, _>(0)?.parse::<EventId>());
        }
        base.sql.requeue_drop.query().bind(&json).execute(&mut *conn).await?;
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
