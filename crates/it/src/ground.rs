//! The ground that a suite stands on: one store, as many relays as it wants, and a clock.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use async_trait::async_trait;
use event::{Event, EventId};
use futures_util::future::LocalBoxFuture;
use sqlx::{Connection, SqliteConnection};
use store::{Memory, Outbox, Setup, Strategy};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::OnceCell;

use crate::clock::HandClock;
use crate::door;
use crate::session::Session;
use crate::world::need;

/// How stores honestly differ. A suite asks here instead of asking for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether it promises order per key.
    pub ordered: bool,
    /// In how many shards relays share it; 0 where they compete for every row, and lease none.
    pub shards: u16,
    /// Whether a business transaction can be rolled back around it.
    pub transactions: bool,
}

impl Traits {
    /// Tells whether relays compete for rows: what waits is nobody's, and what is in hand is its
    /// holder's.
    pub fn competing(&self) -> bool {
        self.shards == 0
    }
}

/// One empty store for one test.
#[async_trait]
pub trait Ground: Send + Sync {
    /// Starts another relay on the same rows.
    async fn relay(&self) -> Arc<dyn Outbox>;
    /// Returns the clock that rules the store.
    fn clock(&self) -> &HandClock;
    /// Says how the store differs.
    fn traits(&self) -> Traits;
    /// Makes the model that it is compared with.
    async fn model(&self) -> Box<dyn Ground> {
        Box::new(memory().await)
    }
    /// Puts an event in a transaction and rolls that back.
    async fn put_and_roll_back(&self, event: &Event) -> Result<()>;
    /// Opens a transaction that is none of the outbox's, where relays see who is open.
    async fn elsewhere(&self) -> Option<Session> {
        None
    }
    /// Reads status, attempts and last error of a group's memory, where that is a table.
    async fn remembered(&self, _group: &str, _id: EventId) -> Option<String> {
        None
    }
    /// Leaves the ground to another test, once nothing is at work on it.
    async fn leave(&self) {}
}

/// Keeps a promise on a ground of its own, and leaves that once everything that was at work there
/// has gone with its runtime.
pub fn stand<F, G>(make: fn() -> F, promise: for<'a> fn(&'a dyn Ground) -> LocalBoxFuture<'a, ()>)
where
    F: Future<Output = G>,
    G: Ground,
{
    let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ground = runtime().block_on(async {
        let ground = make().await;
        promise(&ground).await;
        ground
    });
    runtime().block_on(ground.leave());
}

/// Makes the model.
pub async fn memory() -> impl Ground {
    let clock = HandClock::new();
    let traits = Traits { ordered: true, shards: 1, transactions: false };
    MemoryGround { memory: Memory::new(clock.hand()), clock, traits }
}

/// Makes the model of relays that compete.
pub async fn memory_competing() -> impl Ground {
    let clock = HandClock::new();
    let traits = Traits { ordered: false, shards: 0, transactions: false };
    MemoryGround { memory: Memory::competing(clock.hand()), clock, traits }
}

struct MemoryGround {
    memory: Memory,
    clock: HandClock,
    traits: Traits,
}

#[async_trait]
impl Ground for MemoryGround {
    async fn relay(&self) -> Arc<dyn Outbox> {
        self.memory.relay()
    }

    fn clock(&self) -> &HandClock {
        &self.clock
    }

    fn traits(&self) -> Traits {
        self.traits
    }

    async fn put_and_roll_back(&self, _: &Event) -> Result<()> {
        anyhow::bail!("the model has no transactions")
    }
}

/// Makes a new SQLite file.
pub async fn sqlite() -> impl Ground {
    let folder = folder().expect("a temporary folder can be made");
    let clock = HandClock::new();
    let url = format!("sqlite:{}", folder.path().join("outbox.sqlite3").display());
    let ground = SqliteGround { url, clock, _folder: folder };
    let first = ground.relay().await;
    first.migrate().await.expect("an empty file takes the schema");
    first.close().await;
    ground
}

/// Makes a folder in memory where there is one: no promise here is about the disk.
fn folder() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

struct SqliteGround {
    url: String,
    clock: HandClock,
    _folder: TempDir,
}

#[async_trait]
impl Ground for SqliteGround {
    async fn relay(&self) -> Arc<dyn Outbox> {
        let setup = Setup { now: self.clock.hand(), ..Setup::new(self.url.clone()) };
        store::open(&setup).await.expect("the file opens")
    }

    fn clock(&self) -> &HandClock {
        &self.clock
    }

    fn traits(&self) -> Traits {
        Traits { ordered: true, shards: 1, transactions: true }
    }

    async fn put_and_roll_back(&self, event: &Event) -> Result<()> {
        let mut connection = SqliteConnection::connect(&self.url).await?;
        let mut tx = connection.begin().await?;
        sqlx::query(
            "INSERT INTO outbox (event_id, topic, event_type, payload) VALUES (?, ?, ?, ?)",
        )
        .bind(event.id.to_string())
        .bind(&event.topic)
        .bind(&event.kind)
        .bind("{}")
        .execute(&mut *tx)
        .await?;
        tx.rollback().await?;
        connection.close().await?;
        Ok(())
    }

    async fn remembered(&self, group: &str, id: EventId) -> Option<String> {
        let mut connection = SqliteConnection::connect(&self.url).await.expect("the file opens");
        let read = "SELECT status || ' ' || attempts || ' ' || COALESCE(last_error, '-') \
                    FROM outbox_inbox WHERE group_name = ? AND event_id = ?";
        let read = sqlx::query_scalar(read).bind(group).bind(id.to_string());
        Some(read.fetch_one(&mut connection).await.expect("it is remembered"))
    }
}

/// Makes grounds on servers. The oldest PostgreSQL keeps the contract whole with `own` only.
macro_rules! servers {
    ($($name:ident $server:literal $shards:literal $strategy:ident,)+) => {
        $(
            #[doc = concat!("Makes new tables on ", $server, ", in shards: ", $shards, ", for \
                relays of the strategy ", stringify!($strategy), ".")]
            pub async fn $name() -> impl Ground {
                ServerGround::new($server, $shards, Strategy::$strategy).await
            }
        )+
    };
}

servers! {
    postgres "postgres" 16 Own,
    postgres_13 "postgres-13" 16 Own,
    postgres_13_unshared "postgres-13" 1 Own,
    postgres_13_skip_locked "postgres-13" 16 SkipLocked,
    postgres_13_skip_locked_unshared "postgres-13" 1 SkipLocked,
    postgres_13_cas "postgres-13" 16 Cas,
    postgres_13_cas_unshared "postgres-13" 1 Cas,
    postgres_unshared "postgres" 1 Own,
    postgres_18 "postgres-18" 16 Own,
    postgres_18_unshared "postgres-18" 1 Own,
    postgres_18_skip_locked "postgres-18" 16 SkipLocked,
    postgres_18_skip_locked_unshared "postgres-18" 1 SkipLocked,
    postgres_18_cas "postgres-18" 16 Cas,
    postgres_18_cas_unshared "postgres-18" 1 Cas,
    postgres_skip_locked "postgres" 16 SkipLocked,
    postgres_skip_locked_unshared "postgres" 1 SkipLocked,
    postgres_cas "postgres" 16 Cas,
    postgres_cas_unshared "postgres" 1 Cas,
    mysql "mysql" 16 Own,
    mysql_unshared "mysql" 1 Own,
    mariadb "mariadb" 16 Own,
    mariadb_unshared "mariadb" 1 Own,
    mariadb_old "mariadb-10.5" 16 Own,
    mariadb_old_unshared "mariadb-10.5" 1 Own,
    mysql_skip_locked "mysql" 16 SkipLocked,
    mysql_skip_locked_unshared "mysql" 1 SkipLocked,
    mysql_cas "mysql" 16 Cas,
    mysql_cas_unshared "mysql" 1 Cas,
    mysql_preempt "mysql" 16 Preempt,
    mysql_preempt_unshared "mysql" 1 Preempt,
    mariadb_skip_locked "mariadb" 16 SkipLocked,
    mariadb_skip_locked_unshared "mariadb" 1 SkipLocked,
    mariadb_cas "mariadb" 16 Cas,
    mariadb_cas_unshared "mariadb" 1 Cas,
    mariadb_old_cas "mariadb-10.5" 16 Cas,
    mariadb_old_cas_unshared "mariadb-10.5" 1 Cas,
    mariadb_preempt "mariadb" 16 Preempt,
    mariadb_preempt_unshared "mariadb" 1 Preempt,
    mariadb_old_preempt "mariadb-10.5" 16 Preempt,
    mariadb_old_preempt_unshared "mariadb-10.5" 1 Preempt,
}

/// Makes new tables on a server, in so many shards, for relays of a strategy.
pub async fn on(server: &'static str, shards: u16, strategy: Strategy) -> impl Ground {
    ServerGround::new(server, shards, strategy).await
}

/// Tables that were left, by server and shards: to empty some is quicker than to make others.
static LEFT: Mutex<Vec<(String, u16, String)>> = Mutex::new(Vec::new());

/// Returns the address of a server, for many connections that are soon closed. On PostgreSQL each
/// would be a process of its own. MySQL alone offers TLS, and to agree on it takes as long as all
/// that is asked over such a connection.
async fn address(server: &str) -> String {
    static KNOWN: OnceCell<()> = OnceCell::const_new();
    let named = need(server);
    let url = named.detail("url").to_owned();
    if url.starts_with("postgres") {
        let door = door::open(named.socket).to_string();
        return url.replace(&named.socket.to_string(), &door);
    }
    if server != "mysql" {
        return url;
    }
    // In the clear it takes only a password that it has seen under TLS.
    KNOWN
        .get_or_init(async || {
            let first = Session::open(&url).await.expect("the server answers");
            first.close().await.expect("the session ends");
        })
        .await;
    format!("{url}?ssl-mode=disabled")
}

struct ServerGround {
    server: &'static str,
    setup: Setup,
    clock: HandClock,
}

impl ServerGround {
    async fn new(server: &'static str, shards: u16, strategy: Strategy) -> ServerGround {
        let clock = HandClock::new();
        let left = ServerGround::left(server, shards);
        let made = || format!("t{:016x}", fastrand::u64(..));
        let (table, is_new) = (left.clone().unwrap_or_else(made), left.is_none());
        let setup = Setup::new(address(server).await);
        let setup = Setup { table, shards, strategy, now: clock.hand(), ..setup };
        let ground = ServerGround { server, setup, clock };
        if !is_new {
            return ground;
        }
        let first = ground.relay().await;
        first.migrate().await.expect("the server takes the schema");
        first.close().await;
        ground
    }

    /// Takes tables that were left.
    fn left(server: &str, shards: u16) -> Option<String> {
        let mut left = LEFT.lock().expect("nothing panics while the list is open");
        let at = left.iter().position(|(of, by, _)| of == server && *by == shards)?;
        Some(left.swap_remove(at).2)
    }
}

#[async_trait]
impl Ground for ServerGround {
    async fn relay(&self) -> Arc<dyn Outbox> {
        store::open(&self.setup).await.expect("the address is one")
    }

    fn clock(&self) -> &HandClock {
        &self.clock
    }

    fn traits(&self) -> Traits {
        match self.setup.strategy.competes() {
            true => Traits { ordered: false, shards: 0, transactions: true },
            false => Traits { ordered: true, shards: self.setup.shards, transactions: true },
        }
    }

    async fn model(&self) -> Box<dyn Ground> {
        match self.setup.strategy.competes() {
            true => Box::new(memory_competing().await),
            false => Box::new(memory().await),
        }
    }

    async fn put_and_roll_back(&self, event: &Event) -> Result<()> {
        let table = &self.setup.table;
        // Plain text that every server reads the same way.
        let insert = format!(
            "INSERT INTO {table} (event_id, topic, event_type, payload) \
             VALUES ('{}', '{}', '{}', '{{}}')",
            event.id, event.topic, event.kind
        );
        let mut session = Session::open(&self.setup.url).await?;
        session.run("BEGIN").await?;
        session.run(insert).await?;
        session.run("ROLLBACK").await?;
        session.close().await?;
        Ok(())
    }

    async fn remembered(&self, group: &str, id: EventId) -> Option<String> {
        let Setup { url, table, .. } = &self.setup;
        let mut session = Session::open(url).await.expect("the server answers");
        let read = format!(
            "SELECT CONCAT(status, ' ', attempts, ' ', COALESCE(last_error, '-')) \
             FROM {table}_inbox WHERE group_name = '{group}' AND event_id = '{id}'"
        );
        let told = session.texts(read, 0).await.expect("the server answers").pop();
        session.close().await.expect("the session ends");
        Some(told.expect("it is remembered"))
    }

    async fn elsewhere(&self) -> Option<Session> {
        if !self.setup.url.starts_with("postgres") {
            return None;
        }
        let mut session = Session::open(&self.setup.url).await.expect("the server answers");
        let begin = "BEGIN; SELECT pg_current_xact_id()";
        session.run(begin).await.expect("the transaction begins");
        Some(session)
    }

    async fn leave(&self) {
        let Setup { url, table, shards, .. } = &self.setup;
        let mut session = Session::open(url).await.expect("the server answers");
        let ends = ["", "_later", "_dead", "_sent", "_relay", "_inbox"];
        let empty: String = ends.map(|end| format!("DELETE FROM {table}{end}; ")).concat();
        let out = match session.is_postgres() {
            true => "out_seq = '{}', out_until = '{}', out_fence = '{}'",
            false => "out_rows = ''",
        };
        let empty = format!(
            "{empty}UPDATE {table}_lease SET owner = '', fence = 0, since = 0, lease_until = 0, \
             {out}; UPDATE {table}_tally SET owner = '', since = 0, sent = 0"
        );
        let alone = alone(session.is_postgres(), table, &empty);
        session.run(alone).await.expect("nobody holds a row");
        session.close().await.expect("the session ends");
        let mut left = LEFT.lock().expect("nothing panics while the list is open");
        left.push((self.server.to_owned(), *shards, table.clone()));
    }
}

/// Returns statements about an outbox as ones that nothing goes on beside: a server ends what it
/// was asked for also after whoever asked is gone.
fn alone(is_postgres: bool, table: &str, statements: &str) -> String {
    let all = ["", "_later", "_dead", "_sent", "_relay", "_inbox", "_lease", "_tally"];
    if is_postgres {
        let all = all.map(|end| format!("{table}{end}")).join(", ");
        return format!(
            "BEGIN; SET LOCAL lock_timeout = '60s'; LOCK TABLE {all}; {statements}; COMMIT"
        );
    }
    let all = all.map(|end| format!("{table}{end} WRITE")).join(", ");
    format!("LOCK TABLES {all}; {statements}; UNLOCK TABLES")
}
