//! Which schema a file has, and how it gets the one that this program works with.

use event::{Cause, Code, StoreError};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

use super::base::Base;
use super::connect;
use super::error::Fault;
use super::statements::{MIGRATIONS, migration};
use crate::{Schema, whole};

/// The version that this program works with.
pub(super) const WANTED: u32 = MIGRATIONS.len() as u32 - 1;

/// Reads the version that a database has; 0 is none.
pub(super) async fn found(base: &Base, conn: &mut SqliteConnection) -> Result<u32, Fault> {
    if !has(base, conn, &format!("{}_schema", base.table)).await? {
        return Ok(0);
    }
    let row = base.sql.read_version.query().fetch_one(&mut *conn).await?;
    let version: Option<i64> = row.try_get(0)?;
    let found = version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
    refuse_missing(base, conn, found).await?;
    Ok(found)
}

/// Refuses a schema of which tables are gone. What a newer program made, this one cannot know.
async fn refuse_missing(base: &Base, conn: &mut SqliteConnection, found: u32) -> Result<(), Fault> {
    let mut missing = Vec::new();
    if (1..=WANTED).contains(&found) {
        for name in whole::tables(&MIGRATIONS[..=found as usize], &base.table) {
            if !has(base, conn, &name).await? {
                missing.push(name);
            }
        }
    }
    Ok(whole::refuse_missing(&base.table, found, &missing)?)
}

async fn has(base: &Base, conn: &mut SqliteConnection, name: &str) -> Result<bool, Fault> {
    let query = base.sql.has_versions.query().bind(name.to_owned());
    Ok(query.fetch_one(conn).await?.try_get::<i64, _>(0)? > 0)
}

/// Refuses a schema that a newer program made.
pub(super) fn refuse_newer(base: &Base, found: u32) -> Result<(), StoreError> {
    if found <= WANTED {
        return Ok(());
    }
    let detail = format!(
        "{} has schema {found} of {:?} and this program knows no newer one than {WANTED}",
        base.path.display(),
        base.table
    );
    Err(StoreError::Broken(Cause::new(Code::SchemaUnknown, detail)))
}

/// Says which schema a database has. A file that is not there has none.
pub(super) async fn read(base: &Base) -> Result<Schema, Fault> {
    if !base.path.exists() {
        return Ok(Schema { found: 0, wanted: WANTED });
    }
    let mut conn = base.readers.acquire().await?;
    Ok(Schema { found: found(base, &mut conn).await?, wanted: WANTED })
}

/// Brings a database up to date in one transaction, making the file if it is not there.
pub(super) async fn migrate(base: &Base) -> Result<Schema, Fault> {
    let mut conn = connect::writer(&base.path, true).await?;
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
    let from = found(base, &mut tx).await?;
    refuse_newer(base, from)?;
    for (version, file) in (0..).zip(MIGRATIONS) {
        if version > 0 && version <= from {
            continue;
        }
        sqlx::raw_sql(AssertSqlSafe(migration(file, &base.table))).execute(&mut *tx).await?;
        if version > 0 {
            base.sql.write_version.query().bind(version).execute(&mut *tx).await?;
        }
    }
    tx.commit().await?;
    conn.close().await?;
    Ok(Schema { found: WANTED, wanted: WANTED })
}

/// Returns the statements that a migration runs on an empty database.
pub(super) fn text(base: &Base) -> String {
    let mut text = String::new();
    for (version, file) in (0..).zip(MIGRATIONS) {
        text += &migration(file, &base.table);
        if version > 0 {
            let insert = base.sql.write_version.text().replace("?1", &i32::to_string(&version));
            text += &(insert.trim_end().to_owned() + ";\n");
        }
        text.push('\n');
    }
    text
}
