//! The statements, one per file, under the names that an outbox has in this database.
//!
//! The table's name is the only thing ever put into a statement, and only from an allow-list.

use sqlx::mysql::{MySqlArguments, MySqlQueryResult, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection};

use super::template::{Filling, Template, Value};
use crate::statements::{Header, code, statements};

/// The database's clock, in milliseconds since 1970, whatever the session's time zone is.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    template: Template,
    /// The indexes that its header names, each with the table that has it.
    indexes: Vec<(String, String)>,
}

impl Sql {
    fn load(file: &str, table: &str) -> Sql {
        let text = code(file, table).replace("{clock}", CLOCK);
        Sql { template: Template::parse(&text), indexes: indexes(file, table) }
    }

    /// Starts to ask it.
    pub(super) fn ask(&self) -> Ask<'_> {
        Ask { template: &self.template, filling: Filling::default() }
    }

    /// Returns its parts.
    pub(super) fn template(&self) -> &Template {
        &self.template
    }

    /// Returns the indexes that serve it, each with its table.
    pub(super) fn indexes(&self) -> &[(String, String)] {
        &self.indexes
    }
}

/// A statement and what it is given, in the order of its numbers.
pub(super) struct Ask<'s> {
    template: &'s Template,
    filling: Filling,
}

impl<'s> Ask<'s> {
    /// Gives a value.
    pub(super) fn give(mut self, value: impl Into<Value>) -> Ask<'s> {
        self.filling.give(value);
        self
    }

    /// Gives a list.
    pub(super) fn list<T: Into<Value>>(mut self, values: impl IntoIterator<Item = T>) -> Ask<'s> {
        self.filling.list(values);
        self
    }

    /// Gives the rows of a table.
    pub(super) fn rows(mut self, rows: Vec<Vec<Value>>) -> Ask<'s> {
        self.filling.rows = rows;
        self.filling.fill_up();
        self
    }

    /// Gives what it is repeated for.
    pub(super) fn each(mut self, rows: Vec<Vec<Value>>) -> Ask<'s> {
        self.filling.rows = rows;
        self
    }

    /// Writes it out, behind some words of another kind.
    pub(super) fn query(&self, before: &str) -> Query<'static, MySql, MySqlArguments> {
        let (text, values) = self.template.write(&self.filling);
        let mut query = sqlx::query(AssertSqlSafe(before.to_owned() + &text));
        for value in values {
            query = match value.clone() {
                Value::Int(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
                Value::Bytes(value) => query.bind(value),
            };
        }
        query
    }

    pub(super) async fn all(self, conn: &mut MySqlConnection) -> sqlx::Result<Vec<MySqlRow>> {
        self.query("").fetch_all(conn).await
    }

    pub(super) async fn one(self, conn: &mut MySqlConnection) -> sqlx::Result<MySqlRow> {
        self.query("").fetch_one(conn).await
    }

    pub(super) async fn any(self, conn: &mut MySqlConnection) -> sqlx::Result<Option<MySqlRow>> {
        self.query("").fetch_optional(conn).await
    }

    pub(super) async fn run(self, conn: &mut MySqlConnection) -> sqlx::Result<MySqlQueryResult> {
        self.query("").execute(conn).await
    }
}

/// Reads which indexes a statement's header names, and of which tables.
fn indexes(file: &str, table: &str) -> Vec<(String, String)> {
    const KEYS: [(&str, &str); 8] = [
        ("hot table", ""),
        ("later table", "_later"),
        ("dead", "_dead"),
        ("history", "_sent"),
        ("inbox", "_inbox"),
        ("lease", "_lease"),
        ("tally", "_tally"),
        ("relays", "_relay"),
    ];
    let header = Header::of(file);
    let own = header.indexes().map(|name| {
        let of = name.trim_start_matches("{outbox}_").split('_').next().unwrap_or_default();
        (format!("{table}_{of}"), name.replace("{outbox}", table))
    });
    let keys = KEYS.iter().filter(|(of, _)| header.names_key_of(of));
    own.chain(keys.map(|(_, end)| (format!("{table}{end}"), "PRIMARY".to_owned()))).collect()
}

statements! {
    "mysql":
    astray attend behind claim_hot claim_later clock count count_sent counted days dead_hot
    dead_later depart done_hot done_later drop_dead drop_hot drop_inbox drop_later drop_sent
    due_later edges fences find_dead find_dead_floor find_dead_id find_hot find_hot_edge find_hot_id
    find_hot_near find_later find_later_floor find_later_id find_sent find_sent_floor find_sent_id
    find_sent_key find_sent_key_floor free_leases glance hand_over has_versions holders inbox_again
    inbox_begin inbox_finish inbox_look kept lapse lapse_later last_claim leases line_free line_hold
    line_preempt line_win line_write look_hot mark members new_later next_hot open_due open_due_free
    open_leases open_leases_now open_tallies open_tallies_now others out_later put put_later
    read_hot read_later read_version release_later renew requeue requeue_lock requeue_order
    retry_hot retry_later see settle shards still strategy take take_chores there trim_inbox
    trim_relays trim_sent unname waits win_later write_strategy write_version
}

/// The migrations, oldest first; the first makes the version table and counts as none.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../sql/mysql/migrations/0000_versions.sql"),
    include_str!("../../sql/mysql/migrations/0001_outbox.sql"),
];

/// Puts the table's name and the number of shards into a migration.
pub(super) fn migration(file: &str, table: &str, shards: u16) -> String {
    let partitions = match shards {
        1 => String::new(),
        shards => format!("\n    PARTITION BY HASH (shard) PARTITIONS {shards}"),
    };
    let leases = (-1..i32::from(shards)).map(|shard| format!("({shard})"));
    let leases: Vec<String> = leases.collect();
    let text = file.replace("{outbox}", table).replace(" {partitions}", &partitions);
    let leases = leases.chunks(16).map(|some| some.join(", ")).collect::<Vec<_>>().join(",\n    ");
    text.replace("{leases}", &leases).replace("{shards}", &shards.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_makes_as_many_shards_as_it_is_told() {
        let one = migration(MIGRATIONS[1], "o", 1);
        assert!(
            !one.contains("HASH (shard)") && one.contains("% 1)") && one.contains("(-1), (0)\n")
        );
        let four = migration(MIGRATIONS[1], "o", 4);
        assert!(four.contains("HASH (shard) PARTITIONS 4;") && four.contains("(2), (3)\n"));
        assert!(!four.contains("{partitions}") && !four.contains("{outbox}"));
    }
}
