//! The databases' transactions, as one.

use async_trait::async_trait;
use event::{Begun, Event, EventId, Millis};
use sqlx::{
    Connection, MySql, MySqlConnection, PgConnection, Postgres, Sqlite, SqliteConnection,
    Transaction,
};
use store::{mysql, postgres, sqlite};

use crate::Error;

/// The tables of an outbox in each database.
#[derive(Debug)]
pub struct Tables {
    sqlite: sqlite::Tables,
    postgres: postgres::Tables,
    mysql: mysql::Tables,
}

impl Tables {
    pub(crate) fn named(table: &str) -> Result<Tables, Error> {
        Ok(Tables {
            sqlite: sqlite::Tables::named(table)?,
            postgres: postgres::Tables::named(table)?,
            mysql: mysql::Tables::named(table)?,
        })
    }
}

/// A transaction that the application began and will end: sqlx's [`Transaction`] of a database
/// that an outbox can live in, or the connection that it was begun on.
#[async_trait]
pub trait Tx: Send {
    /// Refuses a connection that commits each statement by itself.
    #[doc(hidden)]
    async fn check(&mut self) -> Result<(), Error>;
    /// Writes an event.
    #[doc(hidden)]
    async fn put(
        &mut self,
        tables: &Tables,
        event: &Event,
        due: Option<Millis>,
    ) -> Result<(), Error>;
    /// Takes an event in.
    #[doc(hidden)]
    async fn take_in(&mut self, tables: &Tables, group: &str, id: EventId) -> Result<Begun, Error>;
    /// Tells whether what was taken in is still part of it.
    #[doc(hidden)]
    async fn remembers(&mut self, tables: &Tables, group: &str, id: EventId)
    -> Result<bool, Error>;
}

macro_rules! tx {
    ($database:ident, $connection:ident, $module:ident, $check:ident) => {
        #[async_trait]
        impl Tx for $connection {
            async fn check(&mut self) -> Result<(), Error> {
                $check(self).await
            }

            async fn put(
                &mut self,
                tables: &Tables,
                event: &Event,
                due: Option<Millis>,
            ) -> Result<(), Error> {
                let put = tables.$module.put(self, event, due).await;
                put.map_err(|error| Error::Store($module::meaning(&error)))
            }

            async fn take_in(
                &mut self,
                tables: &Tables,
                group: &str,
                id: EventId,
            ) -> Result<Begun, Error> {
                let taken = tables.$module.take_in(self, group, id).await;
                taken.map_err(|error| Error::Store($module::meaning(&error)))
            }

            async fn remembers(
                &mut self,
                tables: &Tables,
                group: &str,
                id: EventId,
            ) -> Result<bool, Error> {
                let remembers = tables.$module.remembers(self, group, id).await;
                remembers.map_err(|error| Error::Store($module::meaning(&error)))
            }
        }

        #[async_trait]
        impl Tx for Transaction<'_, $database> {
            async fn check(&mut self) -> Result<(), Error> {
                Tx::check(&mut **self).await
            }

            async fn put(
                &mut self,
                tables: &Tables,
                event: &Event,
                due: Option<Millis>,
            ) -> Result<(), Error> {
                Tx::put(&mut **self, tables, event, due).await
            }

            async fn take_in(
                &mut self,
                tables: &Tables,
                group: &str,
                id: EventId,
            ) -> Result<Begun, Error> {
                Tx::take_in(&mut **self, tables, group, id).await
            }

            async fn remembers(
                &mut self,
                tables: &Tables,
                group: &str,
                id: EventId,
            ) -> Result<bool, Error> {
                Tx::remembers(&mut **self, tables, group, id).await
            }
        }
    };
}

tx!(Sqlite, SqliteConnection, sqlite, begun_in_sqlite);
tx!(Postgres, PgConnection, postgres, begun_in_postgres);
tx!(MySql, MySqlConnection, mysql, begun_in_mysql);

/// Finds the open transaction: SQLite refuses to begin another one inside it. The driver is not
/// asked: it knows of none that was begun by hand, and takes one that an error has ended as open.
async fn begun_in_sqlite(conn: &mut SqliteConnection) -> Result<(), Error> {
    match sqlx::raw_sql("BEGIN").execute(&mut *conn).await {
        Err(_) => Ok(()),
        Ok(_) => {
            let ended = sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await;
            ended.map_err(|error| Error::Store(sqlite::meaning(&error)))?;
            Err(Error::NoTransaction)
        }
    }
}

/// Finds the open transaction: PostgreSQL makes no savepoint outside of one. It ends none unasked,
/// so only of one that was begun by hand the driver does not know.
async fn begun_in_postgres(conn: &mut PgConnection) -> Result<(), Error> {
    const OUTSIDE: &str = "25P01";
    if conn.is_in_transaction() {
        return Ok(());
    }
    match sqlx::raw_sql("SAVEPOINT postbox").execute(&mut *conn).await {
        Ok(_) => {
            let released = sqlx::raw_sql("RELEASE postbox").execute(&mut *conn).await;
            released.map(drop).map_err(|error| Error::Store(postgres::meaning(&error)))
        }
        Err(error) => {
            let code = error.as_database_error().and_then(|error| error.code());
            match code.as_deref() {
                Some(OUTSIDE) => Err(Error::NoTransaction),
                _ => Err(Error::Store(postgres::meaning(&error))),
            }
        }
    }
}

/// Finds the open transaction: outside of one, a savepoint is gone at once. The driver is not
/// asked: it takes one that a deadlock has ended as open.
async fn begun_in_mysql(conn: &mut MySqlConnection) -> Result<(), Error> {
    const GONE: u16 = 1305;
    let ask = "SAVEPOINT postbox; RELEASE SAVEPOINT postbox";
    let Err(error) = sqlx::raw_sql(ask).execute(&mut *conn).await else { return Ok(()) };
    let said = error.as_database_error();
    let said = said.and_then(|said| said.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
    match said.map(|said| said.number()) {
        Some(GONE) => Err(Error::NoTransaction),
        _ => Err(Error::Store(mysql::meaning(&error))),
    }
}
