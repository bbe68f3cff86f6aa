//! The statements, one per file, under the names that an outbox has in this database.
//!
//! The table's name is the only thing ever put into a statement, and only from an allow-list.

use std::sync::Arc;

use sqlx::postgres::PgArguments;
use sqlx::{AssertSqlSafe, Postgres};

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
        Sql { text: code(file, table).into(), indexes: indexes(file, table) }
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
    const KEYS: [(&str, &str); 6] = [
        ("hot table", "pkey"),
        ("later table", "later_pkey"),
        ("inbox", "inbox_pkey"),
        ("lease", "lease_pkey"),
        ("relays", "relay_pkey"),
        ("tally", "tally_pkey"),
    ];
    let header = Header::of(file);
    let own = header.indexes().map(|name| name.replace("{outbox}", table));
    let keys = KEYS.iter().filter(|(of, _)| header.names_key_of(of));
    own.chain(keys.map(|(_, key)| format!("{table}_{key}"))).collect()
}

statements! {
    "postgres":
    attend behind claim_later clock count count_sent days dead_hot dead_later depart done_hot
    done_later drop_hot drop_later due_later find_dead find_dead_floor find_dead_id find_hot
    find_hot_floor find_hot_id find_hot_near find_later find_later_floor find_later_id find_sent
    find_sent_floor find_sent_id find_sent_key find_sent_key_floor free_leases glance hand_over
    has_versions holders inbox_begin inbox_finish inbox_look lapse lapse_later last_claims line_free
    line_hold line_win line_write members new_later open_leases open_leases_now open_tallies_now
    others put put_later read_hot read_version release_later renew requeue requeue_order retry_hot
    retry_later return_later see settle settle_gone settle_sent shards still strategy take
    take_chores take_in trim_inbox trim_relays trim_sent unname win_free win_later write_strategy
    write_version
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
