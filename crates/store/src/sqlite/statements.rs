//! The statements, one per file, under the names that an outbox has in this database.
//!
//! The table's name is the only thing ever put into a statement, and only from an allow-list.

use std::sync::Arc;

use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Sqlite};

use crate::statements::{Header, code, statements};

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    text: Arc<str>,
    /// The indexes that its header names.
    indexes: Vec<String>,
}

impl Sql {
    fn load(file: &str, table: &str) -> Sql {
        let header = Header::of(file);
        let indexes = header.indexes().map(|name| name.replace("{outbox}", table)).collect();
        Sql { text: code(file, table).into(), indexes }
    }

    /// Starts a query.
    pub(super) fn query<'q>(&self) -> sqlx::query::Query<'q, Sqlite, SqliteArguments> {
        sqlx::query(AssertSqlSafe(self.text.clone()))
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the indexes that serve it.
    pub(super) fn indexes(&self) -> &[String] {
        &self.indexes
    }
}

statements! {
    "sqlite":
    behind claim_hot claim_later count dead_hot dead_later done_hot done_later drop_hot drop_later
    due_later find_dead find_dead_floor find_dead_id find_hot find_hot_floor find_hot_id
    find_hot_near find_later find_later_floor find_later_id find_sent find_sent_floor find_sent_id
    find_sent_key find_sent_key_floor forget_sizes glance hand_over has_versions holders inbox_begin
    inbox_finish inbox_look lapse_copy lapse_drop lapse_later load_sizes look_hot new_later out put
    put_later read_hot read_version release_later renew requeue_copy requeue_drop requeue_order
    retry_hot retry_later say_sizes settle take take_chores take_in trim_inbox trim_sent
    write_version
}

/// The migrations, oldest first; the first makes the version table and counts as none.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../sql/sqlite/migrations/0000_versions.sql"),
    include_str!("../../sql/sqlite/migrations/0001_outbox.sql"),
];

/// Puts the table's name into a migration.
pub(super) fn migration(file: &str, table: &str) -> String {
    file.replace("{outbox}", table)
}
