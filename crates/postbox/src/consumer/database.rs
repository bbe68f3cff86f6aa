//! The databases that a consumer can take events in to.

use async_trait::async_trait;
use event::StoreError;
use sqlx::{MySql, Pool, Postgres, Sqlite, Transaction};
use store::{mysql, postgres, sqlite};

/// A database that an inbox can live in: sqlx's SQLite, PostgreSQL or MySQL.
#[async_trait]
pub trait Database: sqlx::Database {
    /// Begins a transaction that will write.
    #[doc(hidden)]
    async fn open(pool: &Pool<Self>) -> Result<Transaction<'static, Self>, sqlx::Error>;
    /// Says what an error means.
    #[doc(hidden)]
    fn meaning(error: &sqlx::Error) -> StoreError;
}

macro_rules! database {
    ($database:ident, $module:ident, $pool:ident => $begin:expr) => {
        #[async_trait]
        impl Database for $database {
            async fn open(
                $pool: &Pool<$database>,
            ) -> Result<Transaction<'static, $database>, sqlx::Error> {
                $begin.await
            }

            fn meaning(error: &sqlx::Error) -> StoreError {
                $module::meaning(error)
            }
        }
    };
}

// One that reads first and writes later is refused in SQLite when another wrote in between.
database!(Sqlite, sqlite, pool => pool.begin_with("BEGIN IMMEDIATE"));
database!(Postgres, postgres, pool => pool.begin());
database!(MySql, mysql, pool => pool.begin());
