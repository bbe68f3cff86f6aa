//! A look at version, settings, schema and clock, in words for a person.

use event::Millis;
use sqlx::Row;

use super::base::Base;
use super::error::Fault;
use super::glance::look;
use super::schema;
use crate::{Finding, Grade};

/// How far the two clocks may be apart before a person should know.
const APART: u64 = 2_000;

/// Looks at everything.
pub(super) async fn examine(base: &Base) -> Result<Vec<Finding>, Fault> {
    let what = |what: &str, grade, detail: String| Finding { grade, what: what.to_owned(), detail };
    let mut findings = Vec::new();
    if !base.path.exists() {
        let detail = format!("{} is not there; run postbox migrate", base.path.display());
        return Ok(vec![what("file", Grade::Bad, detail)]);
    }
    let mut conn = base.readers.acquire().await?;
    let version: String =
        sqlx::query("SELECT sqlite_version()").fetch_one(&mut *conn).await?.try_get(0)?;
    findings.push(what("version", Grade::Good, format!("SQLite {version}")));

    let mode: String =
        sqlx::query("PRAGMA journal_mode").fetch_one(&mut *conn).await?.try_get(0)?;
    findings.push(match mode.as_str() {
        "wal" => what("journal", Grade::Good, "WAL: readers and the writer do not wait".into()),
        _ => {
            let detail = format!("{mode}, not WAL; a relay sets WAL when it first writes");
            what("journal", Grade::Warn, detail)
        }
    });

    let found = schema::found(base, &mut conn).await?;
    let wanted = schema::WANTED;
    findings.push(match found {
        _ if found == wanted => what("schema", Grade::Good, format!("version {found}")),
        _ if found > wanted => {
            let detail = format!("version {found} is newer than {wanted}; take a newer postbox");
            what("schema", Grade::Bad, detail)
        }
        _ => {
            let detail = format!("version {found}, wanted {wanted}; run postbox migrate");
            what("schema", Grade::Bad, detail)
        }
    });
    if found == wanted {
        let now = look(base, &mut conn, 0, Millis(0)).await?.now;
        findings.push(clock(now, Millis::now()));
        findings.push(plan(base, &mut conn).await?);
    }
    Ok(findings)
}

fn clock(database: Millis, machine: Millis) -> Finding {
    let apart = database.0.abs_diff(machine.0);
    let grade = if apart > APART { Grade::Warn } else { Grade::Good };
    let detail = format!("the database's clock and this machine's are {apart} ms apart");
    Finding { grade, what: "clock".to_owned(), detail }
}

/// Asks how a claim would be read: an index that was dropped by hand makes every claim a scan.
async fn plan(base: &Base, conn: &mut sqlx::SqliteConnection) -> Result<Finding, Fault> {
    let index = format!("{}_later_due", base.table);
    let steps = plan_of(base.sql.due_later.text(), conn).await?;
    let served = steps.iter().any(|step| step.contains(&index));
    let what = "plan".to_owned();
    Ok(if served {
        let detail = "claims are served by indexes".to_owned();
        Finding { grade: Grade::Good, what, detail }
    } else {
        let detail = format!("a claim does not use {index}: {}", steps.join("; "));
        Finding { grade: Grade::Bad, what, detail }
    })
}

/// Returns the steps by which SQLite would run a statement.
pub(super) async fn plan_of(
    sql: &str,
    conn: &mut sqlx::SqliteConnection,
) -> Result<Vec<String>, Fault> {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    let rows = sqlx::query(explain).fetch_all(conn).await?;
    let step = |row: &sqlx::sqlite::SqliteRow| row.try_get::<String, _>(3);
    Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
}
