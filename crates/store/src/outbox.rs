//! An outbox, whichever database it lives in.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use event::{
    Catalog, Cause, Chores, Code, Event, Inbox, Millis, Order, Source, StoreError, Topics,
};

use crate::sqlite;

/// Which clock rules.
#[derive(Clone, Debug, Default)]
pub enum Now {
    /// The database's own.
    #[default]
    Database,
    /// One that a test moves by hand.
    Hand(Arc<std::sync::atomic::AtomicI64>),
}

/// How to reach an outbox.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `sqlite:PATH`; later also `postgres:`, `mysql:`, `mariadb:`.
    pub url: String,
    /// The hot table's name; the others are named after it (`outbox_later`, …).
    pub table: String,
    /// Whether published rows are kept as history.
    pub history: bool,
    /// Which clock rules.
    pub now: Now,
}

impl Setup {
    /// Reaches the outbox of a URL under its usual names.
    pub fn new(url: impl Into<String>) -> Setup {
        let (url, table) = (url.into(), "outbox".to_owned());
        Setup { url, table, history: true, now: Now::Database }
    }
}

/// What one lane takes from an outbox.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Which topics.
    pub topics: Topics,
    /// What followers of a failing event do.
    pub order: Order,
}

/// Which schema a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The version found; 0 when there is none.
    pub found: u32,
    /// The version that this program works with.
    pub wanted: u32,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, but look at it.
    Warn,
    /// It does not work.
    Bad,
}

/// One thing that an examination found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What was looked at.
    pub what: String,
    /// What was found, and what to do about it.
    pub detail: String,
}

/// One relay's handle on an outbox. Two handles are two relays, even in one process.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns one lane's view. Lanes of one handle share what the handle leases.
    fn lane(&self, lane: Lane) -> Arc<dyn Source>;
    /// Returns the rows as a person sees them.
    fn catalog(&self) -> Arc<dyn Catalog>;
    /// Returns the upkeep.
    fn chores(&self) -> Arc<dyn Chores>;
    /// Returns the consumers' memory.
    fn inbox(&self) -> Arc<dyn Inbox>;
    /// Puts events down in one transaction of their own, due at `due` or at once.
    async fn put(&self, events: &[Event], due: Option<Millis>) -> Result<(), StoreError>;
    /// Wakes the lanes of this process: something was committed.
    fn ring(&self);
    /// Says which schema the database has.
    async fn schema(&self) -> Result<Schema, StoreError>;
    /// Brings the schema up to date; a newer one than this program knows is refused.
    async fn migrate(&self) -> Result<Schema, StoreError>;
    /// Returns the statements that `migrate` would run on an empty database.
    fn migration(&self) -> String;
    /// Looks at versions, settings, plans and clock.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;
    /// Ends every connection.
    async fn close(&self);
}

/// Returns the file that an outbox's URL names. Nothing is touched: the file need not be there.
pub fn file(url: &str) -> Result<PathBuf, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => sqlite::path(url),
        _ => {
            let detail = "an outbox url starts with sqlite:, for example sqlite:orders.sqlite3";
            Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
        }
    }
}

/// Opens a handle. It does not migrate, and makes no file that is not there except on `migrate`.
pub async fn open(setup: &Setup) -> Result<Arc<dyn Outbox>, StoreError> {
    file(&setup.url)?;
    Ok(Arc::new(sqlite::Sqlite::open(setup).await?))
}
