//! What every part of one handle shares: dialect, clock, connections, and what the relay holds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use event::{Cause, Code, StoreError, Teller};
use tokio::sync::{Semaphore, watch};

use super::dialect::Dialect;
use super::fault::{Fault, broken};
use super::identity::Identity;
use super::lines::Lines;
use super::schema;
use super::settle::{Ending, Kept, Settling};
use super::sharing::Sharing;
use super::work::Commit;
use crate::given::check_table;
use crate::listing::MANY;
use crate::own::Holding;
use crate::{Now, Setup, Strategy};

/// One handle on one outbox.
pub(crate) struct Base<D: Dialect> {
    /// The server, in its own words.
    pub(crate) db: D,
    pub(crate) table: String,
    /// How many shards a migration makes.
    pub(super) wanted: u16,
    pub(crate) history: bool,
    pub(crate) strategy: Strategy,
    /// Whether the outbox is known to be claimed with that strategy.
    pub(super) adopted: AtomicBool,
    /// By which shard's tally a competing relay counts what it published: one of its own, so
    /// that relays seldom wait for each other there.
    pub(super) counter: u16,
    /// This relay, for the lease table.
    pub(crate) owner: String,
    /// Counts rings.
    pub(super) bell: watch::Sender<u64>,
    /// Whose turn it is to change what the relay holds: one claim at a time, and no outcome is
    /// taken in while a claim offers rows that it read before.
    pub(super) turn: Semaphore,
    /// Who settles now. Whoever puts back what is in flight waits for them, and they for him.
    pub(super) settling: tokio::sync::RwLock<()>,
    /// Who sets down what has outlived its lease. Outcomes that came too late for it wait for him.
    pub(super) setting_down: tokio::sync::Mutex<()>,
    /// How many rows are searched or counted one by one where no index helps.
    pub(crate) many: i64,
    /// Tells this process how many relays work here.
    pub(super) teller: Teller,
    pub(super) sharing: Mutex<Sharing>,
    holding: Mutex<Holding>,
    ending: Mutex<Ending>,
    /// Outcomes that were written down and not taken in.
    outcomes: Mutex<Vec<(Settling, Kept)>>,
    now: Now,
    /// The server that answered last.
    met: Mutex<Option<Identity>>,
    quick: Arc<Lines<D>>,
    sure: Arc<Lines<D>>,
    /// How many shards there are; 0 before the schema was looked at.
    shards: AtomicU16,
}

impl<D: Dialect> Base<D> {
    pub(super) fn new(db: D, setup: &Setup) -> Result<Arc<Base<D>>, StoreError> {
        check_table(&setup.table)?;
        let refuse = |detail: String| StoreError::Broken(Cause::new(Code::ConfigInvalid, detail));
        if !setup.shards.is_power_of_two() || setup.shards > 1024 {
            let detail = format!("{} shards: take 1, 2, 4, … up to 1024", setup.shards);
            return Err(refuse(detail));
        }
        // One of them listens.
        let most = usize::from(setup.connections.saturating_sub(setup.listen.into()));
        if most < 2 {
            let (name, least) = (D::NAME, 2 + u8::from(setup.listen));
            return Err(refuse(format!("an outbox in {name} needs at least {least} connections")));
        }
        let strategy = setup.strategy.chosen();
        let owner = uuid::Uuid::now_v7().to_string();
        Ok(Arc::new(Base {
            db,
            table: setup.table.clone(),
            wanted: setup.shards,
            history: setup.history,
            strategy,
            adopted: AtomicBool::new(false),
            counter: fastrand::u16(..),
            bell: watch::Sender::new(0),
            turn: Semaphore::new(1),
            settling: tokio::sync::RwLock::new(()),
            setting_down: tokio::sync::Mutex::new(()),
            many: MANY,
            teller: setup.crowd.teller(),
            sharing: Mutex::default(),
            holding: Mutex::new(Holding::new(owner.clone())),
            ending: Mutex::default(),
            outcomes: Mutex::default(),
            now: setup.now.clone(),
            met: Mutex::default(),
            quick: Lines::new(Commit::Quick, most.div_ceil(2)),
            sure: Lines::new(Commit::Sure, most / 2),
            shards: AtomicU16::new(0),
            owner,
        }))
    }

    /// Returns what a statement takes as its clock: NULL is the database's own.
    pub(crate) fn now(&self) -> Option<i64> {
        match &self.now {
            Now::Database => None,
            Now::Hand(at) => Some(at.load(Ordering::SeqCst)),
        }
    }

    /// Tells whether relays compete for rows, and lease no shards.
    pub(crate) fn competes(&self) -> bool {
        self.strategy.competes()
    }

    /// Opens what the relay holds. It is memory only, and never kept open over a wait.
    pub(crate) fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().expect("no rule panics while the holding is open")
    }

    /// Opens the lists of rows that are being moved.
    pub(super) fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().expect("no rule panics while the lists are open")
    }

    /// Opens the outcomes that were written down and not taken in.
    pub(super) fn outcomes(&self) -> MutexGuard<'_, Vec<(Settling, Kept)>> {
        self.outcomes.lock().expect("nothing panics while the outcomes are open")
    }

    /// Opens what the relay knows of others.
    pub(super) fn sharing(&self) -> MutexGuard<'_, Sharing> {
        self.sharing.lock().expect("no rule panics while the shares are open")
    }

    /// Tells whether a settlement may have two connections.
    pub(super) fn may_part(&self) -> bool {
        self.quick.spare() > 1
    }

    pub(super) fn lines(&self, commit: Commit) -> &Arc<Lines<D>> {
        match commit {
            Commit::Quick => &self.quick,
            Commit::Sure => &self.sure,
        }
    }

    pub(super) fn forget_lines(&self) {
        self.quick.forget();
        self.sure.forget();
    }

    /// Learns which server answers. After a failover or a crash it is another one, which may have
    /// lost the newest commits and draw their numbers again: nothing that is remembered holds
    /// there. Returns the count of the servers that were met.
    pub(super) fn meet(&self, server: Identity) -> Result<u64, StoreError> {
        let mut met = self.met.lock().expect("nothing panics while the name is open");
        let same = met.as_ref().is_none_or(|met| met.is(&server));
        *met = Some(server);
        if same {
            return Ok(self.holding().era);
        }
        self.let_go();
        Err(another_server())
    }

    /// Lets go of all that is remembered: it is of rows that are not there any more.
    pub(super) fn let_go(&self) {
        self.forget_lines();
        self.adopted.store(false, Ordering::Relaxed);
        self.shards.store(0, Ordering::Relaxed);
        self.sharing().forget();
        {
            let mut holding = self.holding();
            holding.forget();
            holding.era += 1;
        }
        self.ring();
    }

    pub(super) async fn close(&self) {
        self.quick.close().await;
        self.sure.close().await;
        // Whoever waits for a ring learns of it.
        self.ring();
    }

    /// Tells whether the handle was not closed.
    pub(crate) fn is_open(&self) -> bool {
        self.quick.is_open()
    }

    /// Returns what changes at every ring.
    pub(crate) fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Returns how many shards there are. A schema that this program does not work with is refused.
    pub(crate) async fn shards(&self, conn: &mut D::Conn) -> Result<u16, Fault> {
        let known = self.shards.load(Ordering::Relaxed);
        if known > 0 {
            return Ok(known);
        }
        let found = self.db.version(conn).await?;
        if found < D::WANTED {
            let detail = format!(
                "the database has schema {found} of {:?} and this program works with {}; run \
                 postbox migrate",
                self.table,
                D::WANTED
            );
            return Err(StoreError::Broken(Cause::new(Code::SchemaMissing, detail)).into());
        }
        schema::refuse_newer(self, found)?;
        let count = u16::try_from(self.db.shards(conn).await?).unwrap_or(0);
        if count == 0 {
            let table = &self.table;
            return Err(broken(format!("{table}_lease or {table}_tally has lost its shards")));
        }
        self.shards.store(count, Ordering::Relaxed);
        Ok(count)
    }

    pub(crate) fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }
}

/// Makes the answer to work that is about another server than the one that answers.
pub(super) fn another_server() -> StoreError {
    let detail = "the address leads to another server than before, or to one that was restarted or \
                  has crashed; what was in hand is let go";
    StoreError::Down(Cause::new(Code::StoreDown, detail))
}

/// Makes the answer to work that is about tables that were made anew since.
pub(super) fn other_tables(table: &str) -> StoreError {
    let detail = format!("the tables of {table:?} were made anew; what was in hand is let go");
    StoreError::Down(Cause::new(Code::StoreDown, detail))
}

/// Which of the relay's shards go to whom.
pub(super) type Heirs = HashMap<u16, String>;
