//! The ground that a suite stands on: one store, as many relays as it wants, and a clock.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use event::Event;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection};
use store::{Memory, Outbox, Setup};
use tempfile::TempDir;

use crate::clock::HandClock;
use crate::world::need;

/// How stores honestly differ. A suite asks here instead of asking for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether it promises order per key.
    pub ordered: bool,
    /// In how many shards relays share it.
    pub shards: u16,
    /// Whether a business transaction can be rolled back around it.
    pub transactions: bool,
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
    /// Puts an event in a transaction and rolls that back.
    async fn put_and_roll_back(&self, event: &Event) -> Result<()>;
}

/// Makes the model.
pub async fn memory() -> impl Ground {
    let clock = HandClock::new();
    MemoryGround { memory: Memory::new(clock.hand()), clock }
}

struct MemoryGround {
    memory: Memory,
    clock: HandClock,
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
        Traits { ordered: true, shards: 1, transactions: false }
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
}

/// Makes grounds of new tables on servers.
macro_rules! servers {
    ($($name:ident $server:literal $shards:literal,)+) => {
        $(
            #[doc = concat!("Makes new tables on ", $server, ", in shards: ", $shards, ".")]
            pub async fn $name() -> impl Ground {
                ServerGround::new($server, $shards).await
            }
        )+
    };
}

servers! {
    postgres "postgres" 16,
    postgres_unshared "postgres" 1,
    mysql "mysql" 16,
    mysql_unshared "mysql" 1,
    mariadb "mariadb" 16,
    mariadb_unshared "mariadb" 1,
    mariadb_old "mariadb-10.5" 16,
    mariadb_old_unshared "mariadb-10.5" 1,
}

struct ServerGround {
    setup: Setup,
    clock: HandClock,
}

impl ServerGround {
    async fn new(server: &str, shards: u16) -> ServerGround {
        let clock = HandClock::new();
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup::new(need(server).detail("url"));
        let setup = Setup { table, shards, now: clock.hand(), ..setup };
        let ground = ServerGround { setup, clock };
        let first = ground.relay().await;
        first.migrate().await.expect("the server takes the schema");
        first.close().await;
        ground
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
        Traits { ordered: true, shards: self.setup.shards, transactions: true }
    }

    async fn put_and_roll_back(&self, event: &Event) -> Result<()> {
        let Setup { url, table, .. } = &self.setup;
        // Plain text that every server reads the same way.
        let insert = format!(
            "INSERT INTO {table} (event_id, topic, event_type, payload) \
             VALUES ('{}', '{}', '{}', '{{}}')",
            event.id, event.topic, event.kind
        );
        let insert = sqlx::raw_sql(AssertSqlSafe(insert));
        if url.starts_with("postgres") {
            let mut connection = PgConnection::connect(url).await?;
            let mut tx = connection.begin().await?;
            insert.execute(&mut *tx).await?;
            tx.rollback().await?;
            connection.close().await?;
        } else {
            let mut connection = MySqlConnection::connect(url).await?;
            let mut tx = connection.begin().await?;
            insert.execute(&mut *tx).await?;
            tx.rollback().await?;
            connection.close().await?;
        }
        Ok(())
    }
}
