//! The outbox in a PostgreSQL database, 13 or newer.

mod app;
mod begins;
mod claims;
mod connect;
mod error;
mod examine;
mod find;
mod inbox;
mod keeps;
mod leases;
mod moves;
mod plan;
mod put;
mod rows;
mod statements;

use event::{Millis, StoreError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, Row};

pub use self::app::{Tables, meaning};
pub(crate) use self::connect::home;
use self::connect::options;
use self::statements::Statements;
use crate::Setup;
use crate::given::check_table;
use crate::server::{Dialect, Fault, Server};

/// PostgreSQL's words for one outbox.
pub(crate) struct Postgres {
    table: String,
    sql: Statements,
    options: PgConnectOptions,
}

impl Dialect for Postgres {}

/// Opens a handle. No server is asked before the first question.
pub(crate) fn open(setup: &Setup) -> Result<Server<Postgres>, StoreError> {
    check_table(&setup.table)?;
    let (table, options) = (setup.table.clone(), options(&setup.url)?);
    Server::open(Postgres { sql: Statements::new(&table), table, options }, setup)
}

/// Reads the clock that rules.
async fn clock(
    sql: &Statements,
    conn: &mut PgConnection,
    now: Option<i64>,
) -> Result<Millis, Fault> {
    let row = sql.clock.query().bind(now).fetch_one(conn).await?;
    Ok(Millis(row.try_get(0)?))
}
