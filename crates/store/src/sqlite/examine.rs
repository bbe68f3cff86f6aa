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

/// Asks how every statement would be run: an index that was dropped by hand, or sizes that were
/// measured in an empty outbox, make a scan of some.
async fn plan(base: &Base, conn: &mut sqlx::SqliteConnection) -> Result<Finding, Fault> {
    let wrong = unserved(&base.table, &plans(base, conn).await?);
    let advice = "make a missing index again (postbox migrate --print shows it). If none is \
                  missing, ANALYZE was run on an almost empty outbox: a running relay undoes that \
                  by itself";
    Ok(findings::plan(&wrong, advice))
}

/// How SQLite would run a statement.
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) indexes: Vec<String>,
    pub(super) steps: Vec<String>,
}

/// Statements on a table that is there only once somebody ran `ANALYZE`.
const UNPLANNED: [&str; 3] = ["forget_sizes", "load_sizes", "say_sizes"];

/// Asks for the plan of every statement.
pub(super) async fn plans(
    base: &Base,
    conn: &mut sqlx::SqliteConnection,
) -> Result<Vec<Plan>, Fault> {
    let mut plans = Vec::new();
    for (name, sql) in base.sql.all() {
        if !UNPLANNED.contains(&name) {
            let (indexes, steps) = (sql.indexes().to_vec(), plan_of(sql.text(), conn).await?);
            plans.push(Plan { name, indexes, steps });
        }
    }
    Ok(plans)
}

/// Statements that look at a bounded part of a table in the order of its primary key.
const BOUNDED: [&str; 4] = ["behind", "count", "glance", "trim_sent"];

/// Says which statements are not served as their headers say.
pub(super) fn unserved(table: &str, plans: &[Plan]) -> Vec<String> {
    let judge = |plan: &Plan| {
        let Plan { name, indexes, steps } = plan;
        let unused = |index: &&String| !steps.iter().any(|step| step.contains(index.as_str()));
        if let Some(index) = indexes.iter().find(unused) {
            return Some(format!("{name} does not use {index}"));
        }
        let scan = steps.iter().find(|step| scans(table, steps, step))?;
        (!BOUNDED.contains(name)).then(|| format!("{name}: {scan}"))
    };
    plans.iter().filter_map(judge).collect()
}

/// Tells whether a step reads all of a table that may be large, under whatever name: a scan of a
/// whole index is one, and so is an index that is made for this one run.
fn scans(table: &str, steps: &[String], step: &str) -> bool {
    let Some(rest) = step.strip_prefix("SCAN ") else {
        return step.starts_with("SEARCH ") && step.contains(" USING AUTOMATIC ");
    };
    let name = rest.split(' ').next().unwrap_or_default();
    let given = rest.contains("VIRTUAL TABLE") || rest.contains("CONSTANT ROW");
    let made = |step: &String| {
        let part = step.strip_prefix("CO-ROUTINE ").or_else(|| step.strip_prefix("MATERIALIZE "));
        part == Some(name)
    };
    let small = ["lease", "sqlite_master"].contains(&name) || name == format!("{table}_lease");
    !(given || small || steps.iter().any(made))
}

/// Returns the steps by which SQLite would run a statement.
async fn plan_of(sql: &str, conn: &mut sqlx::SqliteConnection) -> Result<Vec<String>, Fault> {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    // A plan that is kept is not made again when an index is dropped.
    let rows = sqlx::query(explain).persistent(false).fetch_all(conn).await?;
    let step = |row: &sqlx::sqlite::SqliteRow| row.try_get::<String, _>(3);
    Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::scans;

    #[test]
    fn a_scan_is_seen_under_every_name() {
        let steps = ["CO-ROUTINE page", "MATERIALIZE flight"].map(str::to_owned);
        for scan in [
            "SCAN outbox",
            "SCAN hot",
            "SCAN later USING COVERING INDEX outbox_later_due",
            "SEARCH hot USING AUTOMATIC COVERING INDEX (seq=?)",
        ] {
            assert!(scans("outbox", &steps, scan), "{scan}");
        }
        for other in [
            "SEARCH hot USING INTEGER PRIMARY KEY (rowid=?)",
            "SCAN ends VIRTUAL TABLE INDEX 1:",
            "SCAN CONSTANT ROW",
            "SCAN 2 CONSTANT ROWS",
            "SCAN page",
            "SCAN flight LEFT-JOIN",
            "SCAN outbox_lease",
        ] {
            assert!(!scans("outbox", &steps, other), "{other}");
        }
    }
}
