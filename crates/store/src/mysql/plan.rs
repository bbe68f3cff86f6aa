//! How a server of the family means to run a statement, whatever it is given.

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row};

use super::connect::Kind;
use super::statements::Sql;
use crate::server::Fault;

/// One step: a table, how it is read, by which index, and what else is done.
pub(super) struct Step {
    table: String,
    kind: String,
    key: String,
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
        // A limit must be a number; whatever else there is takes a text for what it is.
        ask = if sql.template().limits(at) { ask.give(1) } else { ask.give("1") };
    }
    let ask = if cells > 0 { ask.each(vec![vec!["1".into(); cells]; 2]) } else { ask };
    let rows = ask.query(explain).persistent(false).fetch_all(conn).await?;
    rows.iter().map(step).collect()
}

fn step(row: &MySqlRow) -> Result<Step, Fault> {
    let text = |name: &str| -> Result<String, Fault> {
        Ok(row.try_get_unchecked::<Option<String>, _>(name)?.unwrap_or_default())
    };
    let (table, kind) = (text("table")?, text("type")?);
    Ok(Step { table, kind, key: text("key")?, extra: text("Extra")? })
}

/// Statements that sort what they have found: as much as a page, a claim or an identity has.
const SORTING: [&str; 12] = [
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
    "behind",
];

/// The tables that may be large, by how their names end, and as the statements call them.
const LARGE: [(&str, &[&str]); 5] = [
    ("", &["hot", "one"]),
    ("_later", &["later"]),
    ("_dead", &["dead", "gone"]),
    ("_sent", &["sent", "gone"]),
    ("_inbox", &["inbox"]),
];

/// Says what is wrong with how a statement is run, if anything is.
pub(super) fn mistake(name: &str, sql: &Sql, table: &str, steps: &[Step]) -> Option<String> {
    // The server has answered some of it from an index already.
    let away = steps.iter().any(|step| step.extra.contains("optimized away"));
    let unused = |(_, index): &&(String, String)| !steps.iter().any(|step| step.key == *index);
    if let Some((of, index)) = sql.indexes().iter().find(|index| !away && unused(index)) {
        return Some(format!("{name} does not use {index} of {of}"));
    }
    let counted = name == "count";
    for (end, aliases) in LARGE {
        let is = |step: &&Step| {
            step.table == format!("{table}{end}") || aliases.contains(&step.table.as_str())
        };
        let all = |step: &&Step| step.kind == "ALL" || step.kind == "index" && !counted;
        if steps.iter().filter(is).any(|step| all(&step) && !counted && !ordered(name)) {
            return Some(format!("{name} reads all of {table}{end}"));
        }
    }
    let sorts = steps.iter().any(|step| step.extra.contains("filesort"));
    (sorts && !SORTING.contains(&name)).then(|| format!("{name} sorts what it reads"))
}

/// Tells whether a statement reads an index in its order, up to a limit: that is an `index` step.
fn ordered(name: &str) -> bool {
    matches!(name, "glance" | "edges" | "trim_sent" | "behind" | "find_hot_id")
}
