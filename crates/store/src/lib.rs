//! The only crate that knows SQL: outbox, inbox, catalog and chores on each database.
//!
//! Everything behind an [`Outbox`] is one database's dialect of the same rules. [`Memory`] is the
//! model: the rules themselves, without a database, that every other store is compared with.

mod memory;
mod outbox;
pub mod sqlite;

pub use memory::Memory;
pub use outbox::{Finding, Grade, Lane, Now, Outbox, Schema, Setup, file, open};
pub use sqlite::check_table;
