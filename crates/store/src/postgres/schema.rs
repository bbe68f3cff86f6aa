//! Which schema a database has, and how it gets the one that this program works with.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Cause, Code, StoreError};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::statements::{MIGRATIONS, migration};
use super::work::{Scope, Work};
use crate::Schema;

/// The version that this program works with.
pub(super) const WANTED: u32 = MIGRATIONS.len() as u32 - 1;

/// Reads the version that a database has; 0 is none.
pub(super) async fn found(base: &Base, conn: &mut PgConnection) -> Result<u32, Fault> {
    let versions = format!("{}_schema", base.table);
    let query = base.sql.has_versions.query().bind(versions);
    if !query.fetch_one(&mut *conn).await?.try_get::<bool, _>(0)? {
        return Ok(0);
    }
    let row = base.sql.read_version.query().fetch_one(&mut *conn).await?;
    let version: Option<i32> = row.try_get(0)?;
    Ok(version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0))
}

/// Refuses a schema that a newer program made.
pub(super) fn refuse_newer(base: &Base, found: u32) -> Result<(), StoreError> {
    if found <= WANTED {
        return Ok(());
    }
    let detail = format!(
        "the database has schema {found} of {:?} and this program knows no newer one than {WANTED}",
        base.table
    );
    Err(StoreError::Broken(Cause::new(Code::SchemaUnknown, detail)))
}

/// Says which schema a database has.
pub(super) async fn read(base: &Arc<Base>) -> Result<Schema, StoreError> {
    base.carry(Reading).await
}

struct Reading;

#[async_trait]
impl Work for Reading {
    type Out = Schema;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Schema, Fault> {
        Ok(Schema { found: found(base, conn).await?, wanted: WANTED })
    }
}

/// Brings a database up to date in one transaction.
pub(super) async fn migrate(base: &Arc<Base>) -> Result<Schema, StoreError> {
    base.carry(Migrating).await
}

struct Migrating;

#[async_trait]
impl Work for Migrating {
    type Out = Schema;
    const COMMIT: Commit = Commit::Sure;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Schema, Fault> {
        // Two migrations at once are one after the other. The number is that of our name.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
        let name = format!("postbox {}", base.table);
        sqlx::query(lock).bind(name).execute(&mut *conn).await?;
        let from = found(base, conn).await?;
        refuse_newer(base, from)?;
        for (version, file) in (0..).zip(MIGRATIONS) {
            if version > 0 && version <= from {
                continue;
            }
            let text = migration(file, &base.table, base.wanted);
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *conn).await?;
            if version > 0 {
                let version = i32::try_from(version).expect("there are few migrations");
                base.sql.write_version.query().bind(version).execute(&mut *conn).await?;
            }
        }
        Ok(Schema { found: WANTED, wanted: WANTED })
    }
}

/// Returns the statements that a migration runs on an empty database.
pub(super) fn text(base: &Base) -> String {
    let mut text = String::new();
    for (version, file) in (0..).zip(MIGRATIONS) {
        text += &migration(file, &base.table, base.wanted);
        if version > 0 {
            let insert = base.sql.write_version.text().replace("$1", &u32::to_string(&version));
            text += &(insert.trim_end().to_owned() + ";\n");
        }
        text.push('\n');
    }
    text
}
