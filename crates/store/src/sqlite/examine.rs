//! A look at version, settings, schema and clock, in words for a person.

use event::Millis;
use sqlx::Row;

use super::base::Base;
use super::error::Fault;
use super::glance::glance;
use super::schema;
use crate::findings::{self, finding};
use crate::{Finding, Grade, Schema};

/// Looks at everything.
pub(super) async fn examine(base: &Base) -> Result<Vec<Finding>, Fault> {
    let mut findings = Vec::new();
    if !base.path.exists() {
        let detail = format!("{} is not there; run postbox migrate", base.path.display());
        return Ok(vec![finding(Grade::Bad, "file", detail)]);
    }
    let mut conn = base.readers.acquire().await?;
    let version: String =
        sqlx::query("SELECT sqlite_version()").fetch_one(&mut *conn).await?.try_get(0)?;
    findings.push(finding(Grade::Good, "version", format!("SQLite {version}")));

    let mode: String =
        sqlx::query("PRAGMA journal_mode").fetch_one(&mut *conn).await?.try_get(0)?;
    findings.push(match mode.as_str() {
        "wal" => finding(Grade::Good, "journal", "WAL: readers and the writer do not wait"),
        _ => {
            let detail = format!("{mode}, not WAL; a relay sets WAL when it first writes");
            finding(Grade::Warn, "journal", detail)
        }
    });

    let found = schema::found(base, &mut conn).await?;
    let wanted = schema::WANTED;
    findings.push(findings::schema(Schema { found, wanted }));
    if found == wanted {
        let now = glance(base, &mut conn, 0, Millis(0)).await?.now;
        findings.push(findings::clock(now, Millis::now()));
        findings.push(plan(base, &mut conn).await?);
    }
    Ok(findings)
}

/// Asks how a relay's work and a person's questions would be run: an index that was dropped by
/// hand, or sizes that were measured in an empty outbox, make a scan of each.
async fn plan(base: &Base, conn: &mut sqlx::SqliteConnection) -> Result<Finding, Fault> {
    let sql = &base.sql;
    let served = [
        ("glance", &sql.glance, "_later_due"),
        ("due_later", &sql.due_later, "_later_due"),
        ("holders", &sql.holders, "_later_holders"),
        ("claim_hot", &sql.claim_hot, ""),
        ("claim_later", &sql.claim_later, ""),
        ("done_hot", &sql.done_hot, ""),
        ("done_later", &sql.done_later, ""),
        ("retry_hot", &sql.retry_hot, ""),
        ("retry_later", &sql.retry_later, ""),
        ("drop_hot", &sql.drop_hot, ""),
        ("drop_later", &sql.drop_later, ""),
        ("find_hot", &sql.find_hot, ""),
        ("find_later", &sql.find_later, "_later_created"),
        ("find_dead", &sql.find_dead, "_dead_created"),
        ("find_dead_id", &sql.find_dead_id, "_dead_id"),
        ("find_sent", &sql.find_sent, "_sent_created"),
        ("find_sent_id", &sql.find_sent_id, "_sent_id"),
        ("find_sent_key", &sql.find_sent_key, "_sent_key"),
        ("trim_inbox", &sql.trim_inbox, "_inbox_updated"),
    ];
    let mut wrong = Vec::new();
    for (name, sql, index) in served {
        let steps = plan_of(sql.text(), conn).await?;
        let index = (!index.is_empty()).then(|| format!("{}{index}", base.table));
        match index.filter(|index| !steps.iter().any(|step| step.contains(index))) {
            Some(index) => wrong.push(format!("{name} does not use {index}")),
            None => {
                // Only the first hot row is asked for by a glance.
                let scan = steps.iter().find(|step| name != "glance" && scans(base, step));
                wrong.extend(scan.map(|step| format!("{name}: {step}")));
            }
        }
    }
    let advice = "make a missing index again (postbox migrate --print shows it). If none is \
                  missing, ANALYZE was run on an almost empty outbox: a running relay undoes that \
                  by itself";
    Ok(findings::plan(&wrong, advice))
}

/// Tells whether a step reads all of a table that may be large.
fn scans(base: &Base, step: &str) -> bool {
    let Some(table) = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next()) else {
        return false;
    };
    ["", "_later", "_dead", "_sent", "_inbox"]
        .iter()
        .any(|end| table.strip_prefix(base.table.as_str()) == Some(end))
}

/// Returns the steps by which SQLite would run a statement.
pub(super) async fn plan_of(
    sql: &str,
    conn: &mut sqlx::SqliteConnection,
) -> Result<Vec<String>, Fault> {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    // A plan that is kept is not made again when an index is dropped.
    let rows = sqlx::query(explain).persistent(false).fetch_all(conn).await?;
    let step = |row: &sqlx::sqlite::SqliteRow| row.try_get::<String, _>(3);
    Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
}
