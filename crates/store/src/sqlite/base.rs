//! What every part of one handle shares: statements, clock, readers, and what the relay holds.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use event::{Cause, Code, StoreError};
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection};
use tokio::sync::watch;

use super::connect::{self, Readers};
use super::error::Fault;
use super::schema;
use super::statements::Statements;
use crate::given::check_table;
use crate::listing::MANY;
use crate::own::Holding;
use crate::{Now, Setup, Strategy};

/// Chooses a strategy that a file can do.
pub(crate) fn strategy(asked: Strategy) -> Result<Strategy, StoreError> {
    let why = "a file has one writer at a time, so relays cannot compete for its rows";
    asked.on(&[Strategy::Own], why)
}

pub(super) struct Base {
    pub(super) path: PathBuf,
    /// The write-ahead log: every commit writes to it.
    log: PathBuf,
    pub(super) table: String,
    pub(super) sql: Statements,
    pub(super) history: bool,
    /// This relay, for the lease table.
    pub(super) owner: String,
    pub(super) readers: Readers,
    /// How many rows are searched or counted one by one where no index helps.
    pub(super) many: i64,
    /// Counts rings.
    pub(super) bell: watch::Sender<u64>,
    holding: Mutex<Holding>,
    now: Now,
    /// Whether the schema was found to be the one that this program works with.
    known: AtomicBool,
}

impl Base {
    pub(super) fn new(setup: &Setup) -> Result<Arc<Base>, StoreError> {
        check_table(&setup.table)?;
        strategy(setup.strategy)?;
        let path = connect::path(&setup.url)?;
        connect::refuse_remote(&path)?;
        let owner = uuid::Uuid::now_v7().to_string();
        Ok(Arc::new(Base {
            log: log_of(&path),
            readers: Readers::new(&path),
            many: MANY,
            table: setup.table.clone(),
            sql: Statements::new(&setup.table),
            history: setup.history,
            bell: watch::Sender::new(0),
            holding: Mutex::new(Holding::new(owner.clone())),
            now: setup.now.clone(),
            known: AtomicBool::new(false),
            owner,
            path,
        }))
    }

    /// Returns what a statement takes as its clock: NULL is the database's own.
    pub(super) fn now(&self) -> Option<i64> {
        match &self.now {
            Now::Database => None,
            Now::Hand(at) => Some(at.load(Ordering::SeqCst)),
        }
    }

    /// Opens what the relay holds. It is memory only, and never kept open over a wait.
    pub(super) fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().expect("no rule panics while the holding is open")
    }

    /// Refuses to go on with a schema that this program does not work with.
    pub(super) async fn check(&self, conn: &mut SqliteConnection) -> Result<(), Fault> {
        if self.known.load(Ordering::Relaxed) {
            return Ok(());
        }
        let found = schema::found(self, conn).await?;
        if found < schema::WANTED {
            let detail = format!(
                "{} has schema {found} of {:?} and this program works with {}; run postbox migrate",
                self.path.display(),
                self.table,
                schema::WANTED
            );
            return Err(StoreError::Broken(Cause::new(Code::SchemaMissing, detail)).into());
        }
        schema::refuse_newer(self, found)?;
        self.known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Borrows the lanes' connection for one short look. It only reads.
    pub(super) async fn reader(&self) -> Result<PoolConnection<Sqlite>, Fault> {
        let mut conn = self.readers.lane().await?;
        self.check(&mut conn).await?;
        Ok(conn)
    }

    /// Borrows a connection for a person's question. It only reads.
    pub(super) async fn browse(&self) -> Result<PoolConnection<Sqlite>, Fault> {
        let mut conn = self.readers.acquire().await?;
        self.check(&mut conn).await?;
        Ok(conn)
    }

    /// Tells one commit from the next by the log file alone, which costs next to nothing to ask.
    pub(super) fn newest_commit(&self) -> Option<(SystemTime, u64)> {
        let file = std::fs::metadata(&self.log).ok()?;
        Some((file.modified().ok()?, file.len()))
    }

    pub(super) fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}
