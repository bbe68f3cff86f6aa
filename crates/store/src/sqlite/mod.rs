//! The outbox in an SQLite file. One file has one shard, because SQLite has one writer.
//!
//! Everything that writes goes through one writer; everything else reads beside it. No lease is
//! ever judged by this machine's clock.

mod app;
mod base;
mod catalog;
mod chores;
mod claim;
mod connect;
mod error;
mod examine;
mod find;
mod glance;
mod hot;
mod inbox;
mod lane;
mod pick;
mod put;
mod requeue;
mod rows;
mod schema;
mod settle;
mod sift;
mod statements;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use event::{Catalog, Chores, Event, Inbox, Millis, Source, StoreError};

pub use self::app::{Tables, meaning};
use self::base::Base;
pub(crate) use self::base::strategy;
use self::catalog::SqliteCatalog;
use self::chores::SqliteChores;
pub use self::connect::path;
use self::error::closed;
use self::inbox::SqliteInbox;
use self::lane::SqliteLane;
use self::put::Putting;
use self::writer::Writer;
use crate::given::check_events;
use crate::own::Desk;
use crate::{Accounts, Finding, Lane, Outbox, Schema, Setup};

/// One relay's handle on an outbox in an SQLite file.
pub struct Sqlite {
    base: Arc<Base>,
    writer: Writer,
}

impl Sqlite {
    /// Opens a handle. No file is touched before the first question.
    pub async fn open(setup: &Setup) -> Result<Sqlite, StoreError> {
        let base = Base::new(setup)?;
        let writer = Writer::start(base.clone());
        Ok(Sqlite { base, writer })
    }
}

#[async_trait]
impl Outbox for Sqlite {
    fn lane(&self, lane: Lane) -> Arc<dyn Source> {
        let mut holding = self.base.holding();
        holding.desks.push(Desk::new(lane));
        let lane = holding.desks.len() - 1;
        Arc::new(SqliteLane { base: self.base.clone(), writer: self.writer.clone(), lane })
    }

    fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::new(SqliteCatalog { base: self.base.clone(), writer: self.writer.clone() })
    }

    fn chores(&self) -> Arc<dyn Chores> {
        Arc::new(SqliteChores { base: self.base.clone(), writer: self.writer.clone() })
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(SqliteInbox(self.writer.clone()))
    }

    async fn put(&self, events: &[Event], due: Option<Millis>) -> Result<(), StoreError> {
        check_events(events)?;
        self.writer.run(Putting { events: events.to_vec(), due }).await?;
        self.ring();
        Ok(())
    }

    fn ring(&self) {
        self.base.ring();
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        Ok(schema::read(&self.base).await?)
    }

    async fn migrate(&self) -> Result<Schema, StoreError> {
        if self.base.readers.is_closed() {
            return Err(closed());
        }
        Ok(schema::migrate(&self.base).await?)
    }

    fn migration(&self) -> String {
        schema::text(&self.base)
    }

    fn grants(&self, _: &Accounts) -> String {
        "-- A file knows no accounts: whoever may write in its folder may do everything.\n"
            .to_owned()
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(examine::examine(&self.base).await?)
    }

    async fn close(&self) {
        self.writer.close().await;
        self.base.readers.close().await;
    }
}
