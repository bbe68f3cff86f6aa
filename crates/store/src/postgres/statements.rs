//! The statements, one per file, under the names that an outbox has in this database.
//!
//! The table's name is the only thing ever put into a statement, and only from an allow-list.

use std::sync::Arc;

use sqlx::postgres::PgArguments;
use sqlx::{AssertSqlSafe, Postgres};

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    text: Arc<str>,
    /// The indexes that its header names.
    indexes: Vec<String>,
}

impl Sql {
    fn load(file: &str, table: &str) -> Sql {
        let code: Vec<&str> = file.lines().filter(|line| !line.starts_with("--")).collect();
        let text = code.join("\n").replace("{outbox}", table).into();
        Sql { text, indexes: indexes(file, table) }
    }

    /// Starts a query.
    pub(super) fn query<'q>(&self) -> sqlx::query::Query<'q, Postgres, PgArguments> {
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

    /// Returns how many parameters it takes.
    pub(super) fn parameters(&self) -> usize {
        let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        self.text.split('$').skip(1).filter_map(digits).max().unwrap_or(0)
    }
}

/// Reads which indexes a statement's header names.
fn indexes(file: &str, table: &str) -> Vec<String> {
    const KEYS: [(&str, &str); 5] = [
        ("hot table", "pkey"),
        ("later table", "later_pkey"),
        ("inbox", "inbox_pkey"),
        ("lease", "lease_pkey"),
        ("relays", "relay_pkey"),
    ];
    let head: Vec<&str> = file.lines().map_while(|line| line.strip_prefix("-- ")).collect();
    let head = head.join(" ");
    let named = head.split("Index: ").nth(1).and_then(|rest| rest.split("Lock").next());
    let named = named.unwrap_or_default();
    let word = |c: char| !c.is_ascii_alphanumeric() && !"_{}".contains(c);
    let own = named.split(word).filter(|word| word.starts_with("{outbox}_"));
    let own = own.map(|name| name.replace("{outbox}", table));
    let keys = KEYS
        .iter()
        .filter(|(of, _)| named.contains("primary key") && named.contains(&format!("the {of}")));
    own.chain(keys.map(|(_, key)| format!("{table}_{key}"))).collect()
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
                        include_str!(concat!("../../sql/postgres/", stringify!($name), ".sql")),
                        table,
                    ),)+
                }
            }

            /// Returns every statement with its name.
            pub(super) fn all(&self) -> Vec<(&'static str, &Sql)> {
                vec![$((stringify!($name), &self.$name),)+]
            }
        }

        #[cfg(test)]
        pub(super) const FILES: &[(&str, &str)] = &[
            $((
                stringify!($name),
                include_str!(concat!("../../sql/postgres/", stringify!($name), ".sql")),
            ),)+
        ];
    };
}

statements! {
    attend behind claim_hot claim_later clock count count_sent days dead_hot dead_later depart
    done_hot done_later drop_hot drop_later due_later find_dead find_dead_floor find_dead_id
    find_hot find_hot_floor find_hot_id find_hot_near find_later find_later_floor find_later_id
    find_sent find_sent_floor find_sent_id find_sent_key find_sent_key_floor free_leases glance
    hand_over has_versions holders inbox_begin inbox_finish inbox_look lapse lapse_later last_claims
    lock members move_free move_hot new_later others put put_later read_hot read_version
    release_later renew requeue requeue_order retry_hot retry_later return_later see settle
    settle_gone settle_sent shards still strategy take take_chores take_in trim_inbox trim_relays
    trim_sent win_free win_later write_strategy write_version
}

/// The migrations, oldest first; the first makes the version table and counts as none.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../sql/postgres/migrations/0000_versions.sql"),
    include_str!("../../sql/postgres/migrations/0001_outbox.sql"),
];

/// Puts the table's name and the number of shards into a migration.
pub(super) fn migration(file: &str, table: &str, shards: u16) -> String {
    file.replace("{outbox}", table).replace("{mask}", &(shards - 1).to_string())
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
            for banned in ["SELECT *", "INSERT IGNORE", ";"] {
                let code: Vec<&str> = body.lines().filter(|line| !line.starts_with("--")).collect();
                assert!(!code.join("\n").contains(banned), "{name}.sql: {banned}");
            }
        }
    }

    #[test]
    fn every_file_is_a_statement_and_every_statement_has_a_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = files
            .filter_map(|name| name.to_str().unwrap().strip_suffix(".sql").map(str::to_owned))
            .collect();
        files.sort();
        let named: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, named);
    }
}
