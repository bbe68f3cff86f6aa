//! The outbox in a MySQL (8.0.16 or newer) or MariaDB (10.5 or newer) database.
//!
//! One text of every statement serves the family, with `SKIP LOCKED` or without. No statement
//! returns the rows that it changes, and none takes an array.

mod app;
mod claims;
mod competes;
mod connect;
mod count;
mod error;
mod examine;
mod find;
mod flight;
mod grants;
mod history;
mod inbox;
mod keeps;
mod leases;
mod looks;
mod moves;
mod parcel;
mod plan;
mod put;
mod rows;
mod statements;
mod template;

use std::sync::Arc;

use event::StoreError;
use sqlx::mysql::MySqlConnectOptions;

pub use self::app::{Tables, meaning};
pub(crate) use self::connect::home;
use self::connect::options;
use self::statements::Statements;
use crate::given::check_table;
use crate::server::{Dialect, Server};
use crate::statements::Shared;
use crate::{Setup, Strategy};

/// The family's words for one outbox.
pub(crate) struct MySql {
    table: String,
    sql: Arc<Statements>,
    options: MySqlConnectOptions,
    /// Whether it needs a server that passes over rows which another has open.
    skips: bool,
}

impl Dialect for MySql {}

/// Opens a handle. No server is asked before the first question.
pub(crate) fn open(setup: &Setup) -> Result<Server<MySql>, StoreError> {
    check_table(&setup.table)?;
    static OPEN: Shared<Statements> = Shared::new();
    let (table, options) = (setup.table.clone(), options(&setup.url)?);
    let sql = OPEN.of(&table, Statements::new);
    let skips = setup.strategy == Strategy::SkipLocked;
    Server::open(MySql { sql, table, options, skips }, setup)
}
