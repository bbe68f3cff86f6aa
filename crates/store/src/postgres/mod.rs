//! The outbox in a PostgreSQL database, 13 or newer.

mod app;
mod begins;
mod claims;
mod competes;
mod connect;
mod error;
mod examine;
mod find;
mod grants;
mod history;
mod inbox;
mod keeps;
mod leases;
mod listen;
mod moves;
mod plan;
mod put;
mod rows;
mod statements;

use std::sync::Arc;

use event::StoreError;
use sqlx::postgres::PgConnectOptions;

pub use self::app::{Tables, meaning};
pub(crate) use self::connect::home;
use self::connect::options;
pub use self::listen::Chime;
use self::statements::Statements;
use crate::given::check_table;
use crate::server::{Dialect, Server};
use crate::statements::Shared;
use crate::{Setup, Strategy};

/// PostgreSQL's words for one outbox.
pub(crate) struct Postgres {
    table: String,
    sql: Arc<Statements>,
    options: PgConnectOptions,
}

impl Dialect for Postgres {}

/// Chooses a strategy that PostgreSQL has a use for.
pub(crate) fn strategy(asked: Strategy) -> Result<Strategy, StoreError> {
    let why =
        "PostgreSQL passes over what another has open, so no relay writes its name beforehand";
    asked.on(&[Strategy::Own, Strategy::SkipLocked, Strategy::Cas], why)
}

/// Opens a handle. No server is asked before the first question.
pub(crate) fn open(setup: &Setup) -> Result<Server<Postgres>, StoreError> {
    check_table(&setup.table)?;
    strategy(setup.strategy)?;
    static OPEN: Shared<Statements> = Shared::new();
    let (table, options) = (setup.table.clone(), options(&setup.url)?);
    let sql = OPEN.of(&table, Statements::new);
    let ears = setup.listen.then(|| options.clone());
    let server = Server::open(Postgres { sql, table, options }, setup)?;
    if let Some(options) = ears {
        tokio::spawn(listen::listen(options, server.weak()));
    }
    Ok(server)
}
