//! How PostgreSQL means to run a statement, whatever it is given.

use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::statements::Sql;
use crate::server::Fault;

/// Returns the steps.
pub(super) async fn plan_of(sql: &Sql, conn: &mut PgConnection) -> Result<Vec<String>, Fault> {
    let prepare = format!("PREPARE postbox_plan AS {}", sql.text());
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *conn).await?;
    let given = vec!["NULL"; sql.parameters()].join(", ");
    let given = if given.is_empty() { given } else { format!("({given})") };
    let explain = AssertSqlSafe(format!("EXPLAIN EXECUTE postbox_plan{given}"));
    let rows = sqlx::raw_sql(explain).fetch_all(&mut *conn).await?;
    sqlx::raw_sql("DEALLOCATE postbox_plan").execute(conn).await?;
    let step = |row: &sqlx::postgres::PgRow| row.try_get::<String, _>(0);
    Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
}

/// Statements that sort what they have found: as much as a page, a claim or an identity has, or one
/// row of each shard.
const SORTING: [&str; 27] = [
    "behind",
    "dead_hot",
    "dead_later",
    "fenced_dead",
    "find_dead_id",
    "find_hot",
    "find_hot_floor",
    "find_hot_id",
    "find_hot_near",
    "find_sent",
    "find_sent_id",
    "glance",
    "hand_over",
    "lapse",
    "line_hold",
    "line_win",
    "lock",
    "new_later",
    "renew",
    "requeue",
    "requeue_order",
    "retry_hot",
    "settle",
    "settle_gone",
    "settle_sent",
    "trim_sent",
    "unname",
];

/// The tables that may be large, by how their names end.
const LARGE: [&str; 5] = ["", "_later", "_dead", "_sent", "_inbox"];

/// Says what is wrong with how a statement is run, if anything is.
pub(super) fn mistake(name: &str, sql: &Sql, table: &str, steps: &[String]) -> Option<String> {
    let steps: Vec<String> = steps.iter().map(|step| whole(step, table)).collect();
    let tells = |text: &str| steps.iter().any(|step| step.contains(text));
    let unused = |index: &&String| {
        !tells(&format!("using {index} on")) && !tells(&format!("Arbiter Indexes: {index}"))
    };
    if let Some(index) = sql.indexes().iter().find(unused) {
        return Some(format!("{name} does not use {index}"));
    }
    let large = LARGE.map(|end| format!("{table}{end}"));
    if let Some(table) = large.iter().find(|table| reads_all(&steps, table)) {
        return Some(format!("{name} reads all of {table}"));
    }
    let sorts = |step: &String| node(step).starts_with("Sort  (");
    let sorts = steps.iter().any(sorts) && !SORTING.contains(&name);
    sorts.then(|| format!("{name} sorts what it reads"))
}

/// Writes a step with the name of the history for each of its days, and so for its indexes.
fn whole(step: &str, table: &str) -> String {
    let history = format!("{table}_sent");
    let word = |word: &str| match word.rsplit_once('_') {
        Some((all, day)) if all.starts_with(&history) && day.len() == 1 => all.to_owned(),
        _ => word.to_owned(),
    };
    step.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn node(step: &str) -> &str {
    step.trim_start().trim_start_matches("->  ")
}

/// Returns the step that a step is a part of.
fn parent(steps: &[String], at: usize) -> Option<usize> {
    let depth = |step: &String| step.len() - step.trim_start().len();
    (0..at).rev().find(|above| depth(&steps[*above]) < depth(&steps[at]))
}

/// Tells whether a step reads a table neither in a range of an index nor up to a limit.
fn reads_all(steps: &[String], table: &str) -> bool {
    let reads = |step: &str| {
        let rest = step.split_once(" Scan").and_then(|(_, rest)| rest.split_once(" on "));
        rest.and_then(|(_, rest)| rest.split(' ').next()) == Some(table)
    };
    let is = |at: Option<usize>, texts: &[&str]| {
        let step = at.and_then(|at| steps.get(at)).map(|step| node(step));
        step.is_some_and(|step| texts.iter().any(|text| step.starts_with(text)))
    };
    let unbounded = |at: usize| {
        let mut above = parent(steps, at);
        if is(above, &["Append  (", "Merge Append  ("]) {
            above = above.and_then(|above| parent(steps, above));
        }
        !is(Some(at + 1), &["Index Cond", "TID Cond"]) && !is(above, &["Limit  ("])
    };
    (0..steps.len()).any(|at| reads(&steps[at]) && unbounded(at))
}
