//! A look at version, settings, schema, plans and clock, in words for a person.

use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::MySql;
use super::connect::{Kind, skips_locked};
use super::plan::{mistake, plan_of};
use crate::findings::{self, finding};
use crate::server::{Base, Fault, Keeps, outline};
use crate::{Finding, Grade, Schema};

/// Looks at everything.
pub(super) async fn examine(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
) -> Result<Vec<Finding>, Fault> {
    let row = sqlx::raw_sql("SELECT VERSION(), @@version_comment").fetch_one(&mut *conn).await?;
    let (version, comment): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let kind = Kind::of(&version);
    let mut findings = vec![finding(Grade::Good, "version", format!("{version}, {comment}"))];
    let (found, wanted) = (base.db.version(conn).await?, MySql::WANTED);
    findings.push(findings::schema(Schema { found, wanted }));
    if found == wanted {
        findings.extend(outline(base, conn).await?);
        let shards = base.shards(conn).await?;
        findings.push(engine(base, conn).await?);
        findings.push(keys(base, conn, shards).await?);
        findings.push(plan(base, kind, skips_locked(&version), conn).await?);
    }
    findings.extend(binlog(conn).await?);
    Ok(findings)
}

/// Looks whether every table can be rolled back.
async fn engine(base: &Base<MySql>, conn: &mut MySqlConnection) -> Result<Finding, Fault> {
    let ask = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() \
               AND table_type = 'BASE TABLE' AND engine <> 'InnoDB' \
               AND (table_name = ? OR table_name LIKE CONCAT(REPLACE(?, '_', '\\\\_'), '\\\\_%'))";
    let rows = sqlx::query(ask).bind(&base.table).bind(&base.table).fetch_all(conn).await?;
    let names = rows.iter().map(|row| row.try_get_unchecked::<String, _>(0));
    let names = names.collect::<Result<Vec<String>, _>>()?;
    if names.is_empty() {
        return Ok(finding(Grade::Good, "engine", "InnoDB"));
    }
    let detail =
        format!("{} cannot be rolled back; ALTER TABLE … ENGINE = InnoDB", names.join(", "));
    Ok(finding(Grade::Bad, "engine", detail))
}

/// Looks at some rows whether their producers let the database choose the shard.
async fn keys(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    shards: u16,
) -> Result<Finding, Fault> {
    let ask = format!(
        "SELECT COUNT(*) FROM (SELECT shard, biz_key, event_id FROM {} LIMIT 1000) AS some \
         WHERE shard <> CRC32(COALESCE(biz_key, event_id)) % {shards}",
        base.table
    );
    let wrong: i64 = sqlx::raw_sql(AssertSqlSafe(ask)).fetch_one(conn).await?.try_get(0)?;
    if wrong == 0 {
        return Ok(finding(Grade::Good, "keys", "every key is in its shard"));
    }
    let detail = format!(
        "{wrong} of 1000 rows are not in the shard of their key, and a key in two shards has no \
         order; leave the column shard out of INSERT"
    );
    Ok(finding(Grade::Warn, "keys", detail))
}

/// Asks how a relay's work and a person's questions would be run: an index that was dropped by
/// hand makes a scan of each, or an error.
async fn plan(
    base: &Base<MySql>,
    kind: Kind,
    skips: bool,
    conn: &mut MySqlConnection,
) -> Result<Finding, Fault> {
    const NO_INDEX: u16 = 1176;
    let mut wrong = Vec::new();
    // A server without SKIP LOCKED cannot read the statements that need it.
    let known = |(name, _): &(&str, _)| skips || !name.ends_with("_free");
    let all = base.db.sql.all().into_iter().filter(findings::is_relays);
    for (name, sql) in all.filter(known) {
        match plan_of(sql, kind, conn).await {
            Ok(steps) => wrong.extend(mistake(name, sql, &base.table, &steps)),
            Err(Fault::Sql(error)) if super::error::number(&error) == Some(NO_INDEX) => {
                wrong.push(format!("{name}: {error}"));
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(findings::plan(&wrong, findings::REMAKE))
}

/// Looks whether a replica would do the same as this server.
async fn binlog(conn: &mut MySqlConnection) -> Result<Option<Finding>, Fault> {
    let row = sqlx::raw_sql("SELECT @@GLOBAL.log_bin + 0, @@GLOBAL.binlog_format");
    let row = row.fetch_one(conn).await?;
    let (on, format): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    if on == 0 || format != "STATEMENT" {
        return Ok(None);
    }
    let detail = "binlog_format is STATEMENT: a replica makes other identities; take ROW";
    Ok(Some(finding(Grade::Warn, "binlog", detail)))
}
