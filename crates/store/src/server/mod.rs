//! An outbox on a database server, whichever kind that is.
//!
//! Here is who may ask a server what, and what its answers mean; each kind of server says it in its
//! own words, a [`dialect::Dialect`]. Every piece of work waits for the server's answer by itself,
//! so a caller that gives up never leaves a transaction half done. No lease is ever judged by this
//! machine's clock.

mod base;
mod bury;
mod catalog;
mod chores;
mod claim;
mod claiming;
mod compete;
mod dialect;
mod due;
mod examine;
mod fault;
mod glance;
mod history;
mod hot;
mod identity;
mod inbox;
mod informing;
mod lane;
mod lapsing;
mod later;
mod lease;
mod lines;
mod moves;
mod pick;
mod portion;
mod put;
mod release;
pub(crate) mod rows;
mod schema;
mod settle;
mod sharing;
mod shut;
mod sift;
mod stage;
mod taking;
mod together;
mod work;

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use event::{Catalog, Chores, Event, Inbox, Millis, Source, StoreError};

pub(crate) use self::base::Base;
use self::catalog::ServerCatalog;
use self::chores::ServerChores;
use self::compete::CompetingLane;
pub(crate) use self::compete::{Seen, Waits};
pub(crate) use self::dialect::{
    Claimed, Claims, Competes, Connects, Dialect, Holder, Keeps, Leases, Moves,
};
pub(crate) use self::due::DueRow;
pub(crate) use self::examine::outline;
pub(crate) use self::fault::{Fault, broken, down};
pub(crate) use self::glance::Glance;
pub(crate) use self::history::Seen as SeenDay;
pub(crate) use self::hot::{Shown, Sighted};
pub(crate) use self::identity::Identity;
use self::inbox::ServerInbox;
use self::lane::ServerLane;
pub(crate) use self::lease::{Grant, LeaseRow, Renewal};
pub(crate) use self::moves::{Again, End, Published};
use self::put::Putting;
use self::schema::{Examining, Migrating, Reading};
pub(crate) use self::settle::{Kept, Owned};
pub(crate) use self::work::{Commit, Scope};
use crate::given::check_events;
use crate::own::Desk;
use crate::{Accounts, Finding, Lane, Outbox, Schema, Setup};

/// One relay's handle on an outbox on a server.
pub(crate) struct Server<D: Dialect> {
    base: Arc<Base<D>>,
}

impl<D: Dialect> Server<D> {
    /// Opens a handle. No server is asked before the first question.
    pub(crate) fn open(db: D, setup: &Setup) -> Result<Server<D>, StoreError> {
        Ok(Server { base: Base::new(db, setup)? })
    }

    /// Returns what ends with the handle.
    pub(crate) fn weak(&self) -> Weak<Base<D>> {
        Arc::downgrade(&self.base)
    }
}

#[async_trait]
impl<D: Dialect> Outbox for Server<D> {
    fn lane(&self, lane: Lane) -> Arc<dyn Source> {
        let mut holding = self.base.holding();
        holding.desks.push(Desk::new(lane));
        let lane = holding.desks.len() - 1;
        match self.base.competes() {
            true => Arc::new(CompetingLane::new(self.base.clone(), lane)),
            false => Arc::new(ServerLane::new(self.base.clone(), lane)),
        }
    }

    fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::new(ServerCatalog(self.base.clone()))
    }

    fn chores(&self) -> Arc<dyn Chores> {
        Arc::new(ServerChores::new(self.base.clone()))
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(ServerInbox(self.base.clone()))
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
        self.base.carry(Reading).await
    }

    async fn migrate(&self) -> Result<Schema, StoreError> {
        self.base.carry(Migrating).await
    }

    fn migration(&self) -> String {
        self.base.db.migration(self.base.wanted)
    }

    fn grants(&self, accounts: &Accounts) -> String {
        self.base.db.grants(accounts)
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.base.carry(Examining).await
    }

    async fn close(&self) {
        self.base.close().await;
    }
}
