//! The statements, one per file, under the names that an outbox has in this database.
//!
//! The table's name is the only thing ever put into a statement, and only from an allow-list.

use std::sync::Arc;

use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Sqlite};

/// A statement's text.
#[derive(Clone, Debug)]
pub(super) struct Sql(Arc<str>);

impl Sql {
    fn load(file: &str, table: &str) -> Sql {
        let code: Vec<&str> = file.lines().filter(|line| !line.starts_with("--")).collect();
        Sql(code.join("\n").replace("{outbox}", table).into())
    }

    /// Starts a query.
    pub(super) fn query<'q>(&self) -> sqlx::query::Query<'q, Sqlite, SqliteArguments> {
        sqlx::query(AssertSqlSafe(self.0.clone()))
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &Arc<str> {
        &self.0
    }
}

macro_rules! statements {
    ($($name:ident)+) => {
        /// Every statement.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Sql,)+
        }

        impl Statements {
            /// Names the outbox's tables.
            pub(super) fn new(table: &str) -> Statements {
                Statements {
                    $($name: Sql::load(
                        include_str!(concat!("../../sql/sqlite/", stringify!($name), ".sql")),
                        table,
                    ),)+
                }
            }
        }

        impl Statements {
            /// Returns the texts, in the order of `FILES`.
            pub(super) fn texts(&self) -> Vec<&str> {
                vec![$(self.$name.text(),)+]
            }
        }

        /// The statements' names and files.
        pub(super) const FILES: &[(&str, &str)] = &[
            $((
                stringify!($name),
                include_str!(concat!("../../sql/sqlite/", stringify!($name), ".sql")),
            ),)+
        ];
    };
}

statements! {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_says_which_index_serves_it_and_what_it_locks() {
        for (name, file) in FILES {
            let head: String = file.lines().take_while(|line| line.starts_with("--")).collect();
            assert!(head.contains("Index: ") && head.contains("Lock"), "{name}.sql");
            let body = file.to_ascii_uppercase();
            for banned in ["SELECT *", "INSERT OR IGNORE", ";"] {
                let code: Vec<&str> = body.lines().filter(|line| !line.starts_with("--")).collect();
                assert!(!code.join("\n").contains(banned), "{name}.sql: {banned}");
            }
        }
    }

    #[test]
    fn every_file_is_a_statement_and_every_statement_has_a_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/sqlite");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = files
            .filter_map(|name| name.to_str().unwrap().strip_suffix(".sql").map(str::to_owned))
            .collect();
        files.sort();
        let named: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, named);
    }
}
