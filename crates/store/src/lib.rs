//! The only crate that knows SQL: outbox, inbox, catalog and chores on each database.
//!
//! Everything behind an [`Outbox`] is one database's dialect of the same rules. [`Memory`] is the
//! model: the rules themselves, without a database, that every other store is compared with.

mod app;
mod compete;
mod findings;
mod given;
mod listing;
mod memory;
pub mod mysql;
mod outbox;
mod own;
pub mod postgres;
mod server;
pub mod sqlite;
mod statements;
mod strategy;
mod whole;

pub use event::{Finding, Grade};
pub use given::check_table;
pub use memory::Memory;
pub use outbox::{
    Accounts, Home, Lane, Now, Outbox, Schema, Setup, check_listen, check_strategy, home, open,
};
pub use strategy::Strategy;
