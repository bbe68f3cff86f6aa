//! The outbox in a PostgreSQL database, 13 or newer.
//!
//! Every statement waits for the server's answer by itself, so a caller that gives up never leaves
//! a transaction half done. No lease is ever judged by this machine's clock.

mod app;
mod base;
mod bury;
mod catalog;
mod chores;
mod claim;
mod compete;
mod connect;
mod due;
mod error;
mod examine;
mod find;
mod glance;
mod grants;
mod hot;
mod inbox;
mod lane;
mod later;
mod lease;
mod lines;
mod moves;
mod pick;
mod plan;
mod put;
mod release;
mod rows;
mod schema;
mod settle;
mod sharing;
mod sift;
mod statements;
mod work;

use std::sync::Arc;

use async_trait::async_trait;
use event::{Catalog, Chores, Event, Inbox, Millis, Source, StoreError};

pub use self::app::{Tables, meaning};
use self::base::Base;
pub(crate) use self::base::strategy;
use self::catalog::PostgresCatalog;
use self::chores::PostgresChores;
use self::compete::CompetingLane;
pub(crate) use self::connect::home;
use self::inbox::PostgresInbox;
use self::lane::PostgresLane;
use self::put::Putting;
use crate::given::check_events;
use crate::own::Desk;
use crate::{Accounts, Finding, Lane, Outbox, Schema, Setup};

/// One relay's handle on an outbox in a PostgreSQL database.
pub struct Postgres {
    base: Arc<Base>,
}

impl Postgres {
    /// Opens a handle. No server is asked before the first question.
    pub async fn open(setup: &Setup) -> Result<Postgres, StoreError> {
        Ok(Postgres { base: Base::new(setup)? })
    }
}

#[async_trait]
impl Outbox for Postgres {
    fn lane(&self, lane: Lane) -> Arc<dyn Source> {
        let mut holding = self.base.holding();
        holding.desks.push(Desk::new(lane));
        let lane = holding.desks.len() - 1;
        match self.base.competes() {
            true => Arc::new(CompetingLane::new(self.base.clone(), lane)),
            false => Arc::new(PostgresLane { base: self.base.clone(), lane }),
        }
    }

    fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::new(PostgresCatalog(self.base.clone()))
    }

    fn chores(&self) -> Arc<dyn Chores> {
        Arc::new(PostgresChores(self.base.clone()))
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(PostgresInbox(self.base.clone()))
    }

    async fn put(&self, events: &[Event], due: Option<Millis>) -> Result<(), StoreError> {
        check_events(events)?;
        if !events.is_empty() {
            self.base.carry(Putting { events: events.to_vec(), due }).await?;
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        self.base.ring();
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        schema::read(&self.base).await
    }

    async fn migrate(&self) -> Result<Schema, StoreError> {
        schema::migrate(&self.base).await
    }

    fn migration(&self) -> String {
        schema::text(&self.base)
    }

    fn grants(&self, accounts: &Accounts) -> String {
        grants::grants(&self.base, accounts)
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        examine::examine(&self.base).await
    }

    async fn close(&self) {
        self.base.close().await;
    }
}
