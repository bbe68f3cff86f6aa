//! The ground that a suite stands on: one store, as many relays as it wants, and a clock.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use event::Event;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use store::{Memory, Outbox, Setup, Strategy};
use tempfile::TempDir;

use crate::clock::HandClock;
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
}

/// Makes new tables on a PostgreSQL server, in 16 shards.
pub async fn postgres() -> impl Ground {
    PostgresGround::new("postgres", 16, Strategy::Own).await
}

/// Makes new tables on a PostgreSQL server, in one shard.
pub async fn postgres_unshared() -> impl Ground {
    PostgresGround::new("postgres", 1, Strategy::Own).await
}

/// Makes new tables on the newest PostgreSQL server, in 16 shards.
pub async fn postgres_18() -> impl Ground {
    PostgresGround::new("postgres-18", 16, Strategy::Own).await
}

/// Makes new tables on a PostgreSQL server whose relays skip what others have open.
pub async fn postgres_skip_locked() -> impl Ground {
    PostgresGround::new("postgres", 16, Strategy::SkipLocked).await
}

/// Makes the same in one shard.
pub async fn postgres_skip_locked_unshared() -> impl Ground {
    PostgresGround::new("postgres", 1, Strategy::SkipLocked).await
}

/// Makes new tables on a PostgreSQL server whose relays find nothing where another was quicker.
pub async fn postgres_cas() -> impl Ground {
    PostgresGround::new("postgres", 16, Strategy::Cas).await
}

/// Makes the same in one shard.
pub async fn postgres_cas_unshared() -> impl Ground {
    PostgresGround::new("postgres", 1, Strategy::Cas).await
}

struct PostgresGround {
    setup: Setup,
    clock: HandClock,
}

impl PostgresGround {
    async fn new(server: &str, shards: u16, strategy: Strategy) -> PostgresGround {
        let clock = HandClock::new();
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup::new(need(server).detail("url"));
        let setup = Setup { table, shards, strategy, now: clock.hand(), ..setup };
        let ground = PostgresGround { setup, clock };
        let first = ground.relay().await;
        first.migrate().await.expect("the server takes the schema");
        first.close().await;
        ground
    }
}

#[async_trait]
impl Ground for PostgresGround {
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
        let mut connection = PgConnection::connect(&self.setup.url).await?;
        let mut tx = connection.begin().await?;
        let insert = format!(
            "INSERT INTO {} (event_id, topic, event_type, payload) VALUES ($1, $2, $3, $4)",
            self.setup.table
        );
        sqlx::query(AssertSqlSafe(insert))
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
