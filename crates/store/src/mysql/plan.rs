//! How a server of the family means to run a statement, whatever it is given.
//!
//! It makes its plan anew each time, by what it finds: where it expects few rows, it may read all
//! of them, and that is no mistake.

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row};

use super::connect::Kind;
use super::statements::Sql;
use super::template::Value;
use crate::server::Fault;

/// How many rows are few.
const FEW: i64 = 1_000;

/// Statements that read nothing, or as many rows as they are told to count.
const FREE: [&str; 7] =
    ["attend", "count", "inbox_begin", "put", "put_later", "write_strategy", "write_version"];

/// Statements that sort what they have found: as much as a page, a claim or an identity has.
const SORTING: [&str; 12] = [
    "behind",
    "dead_hot",
    "dead_later",
    "find_dead_id",
    "find_hot",
    "find_hot_id",
    "find_sent_id",
    "lapse",
    "requeue",
    "requeue_order",
    "retry_hot",
    "trim_sent",
];

/// Statements that read an index from its beginning, in its order, up to a limit.
const ORDERED: [&str; 7] = ["behind", "days", "edges", "find_hot_id", "see", "trim_sent", "waits"];

/// One step: a table, how it is read and by which index, how many rows are expected there, and
/// what else is done.
pub(super) struct Step {
    table: String,
    kind: String,
    key: String,
    rows: i64,
    extra: String,
}

/// Returns the steps.
pub(super) async fn plan_of(
    sql: &Sql,
    kind: Kind,
    conn: &mut MySqlConnection,
) -> Result<Vec<Step>, Fault> {
    let explain = match kind {
        Kind::MySql => "EXPLAIN FORMAT = TRADITIONAL ",
        Kind::MariaDb => "EXPLAIN ",
    };
    let (given, cells) = sql.template().takes();
    let mut ask = sql.ask();
    for at in 0..given {
        // A limit must be a number. The first value is the newest moment or the highest number of
        // a statement that has two, and the others follow each other.
        let value = if at == 0 { 1_000_000 } else { place(at) };
        ask = match sql.template().limits(at) {
            true => ask.give(value),
            false => ask.give(value.to_string()),
        };
    }
    let row: Vec<Value> = (0..cells).map(|at| place(at).to_string().into()).collect();
    let ask = if cells > 0 { ask.each(vec![row; 2]) } else { ask };
    let rows = ask.query(explain).persistent(false).fetch_all(conn).await?;
    rows.iter().map(step).collect()
}

fn place(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX - 1) + 1
}

fn step(row: &MySqlRow) -> Result<Step, Fault> {
    let text = |name: &str| -> Result<String, Fault> {
        Ok(row.try_get_unchecked::<Option<String>, _>(name)?.unwrap_or_default())
    };
    // MySQL writes it as a number without a sign, and MariaDB as one or as a text.
    let rows = match row.try_get::<Option<u64>, _>("rows") {
        Ok(rows) => rows.and_then(|rows| i64::try_from(rows).ok()).unwrap_or(0),
        Err(_) => match row.try_get::<Option<i64>, _>("rows") {
            Ok(rows) => rows.unwrap_or(0),
            Err(_) => text("rows")?.parse().unwrap_or(i64::MAX),
        },
    };
    let (table, kind) = (text("table")?, text("type")?);
    Ok(Step { table, kind, key: text("key")?, rows, extra: text("Extra")? })
}

/// Says what is wrong with how a statement is run, if anything is.
pub(super) fn mistake(name: &str, sql: &Sql, table: &str, steps: &[Step]) -> Option<String> {
    if FREE.contains(&name) {
        return None;
    }
    let is = |step: &Step, of: &str| step.table == of || step.table == alias(of, table);
    for (of, index) in sql.indexes() {
        let reads = || steps.iter().filter(|step| is(step, of));
        let many = reads().any(|step| step.rows > FEW);
        if many && !reads().any(|step| step.key == *index) {
            return Some(format!("{name} does not use {index} of {of}"));
        }
    }
    let many = || steps.iter().filter(|step| step.rows > FEW && !step.table.starts_with('<'));
    let ordered = ORDERED.contains(&name);
    let all = |step: &&Step| step.kind == "ALL" || step.kind == "index" && !ordered;
    if let Some(step) = many().find(all) {
        return Some(format!("{name} reads all of {}", step.table));
    }
    let sorts = many().any(|step| step.extra.contains("filesort"));
    (sorts && !SORTING.contains(&name)).then(|| format!("{name} sorts what it reads"))
}

/// Returns what statements call a table.
fn alias<'a>(of: &'a str, table: &str) -> &'a str {
    match of.strip_prefix(table) {
        Some("") => "hot",
        Some(end) => end.trim_start_matches('_'),
        None => of,
    }
}
