//! Days of history, each a table of its own: looked at, held against readers, and emptied at once.

use std::collections::BTreeMap;

use event::Millis;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::statements::Statements;
use crate::server::{Fault, SeenDay};

/// Looks at days, at so many rows of each at the most.
pub(super) async fn days(
    sql: &Statements,
    conn: &mut PgConnection,
    slots: &[i64],
    most: i64,
) -> Result<BTreeMap<i64, SeenDay>, Fault> {
    let mut days = BTreeMap::new();
    for row in sql.days.query().bind(slots).bind(most).fetch_all(conn).await? {
        let (rows, newest) = (row.try_get(1)?, Millis(row.try_get(2)?));
        days.insert(row.try_get(0)?, SeenDay { rows, newest });
    }
    Ok(days)
}

/// Keeps everybody from a day until the transaction ends, unless somebody is there.
pub(super) async fn hold(table: &str, conn: &mut PgConnection, slot: i64) -> Result<bool, Fault> {
    const NOT_AVAILABLE: &str = "55P03";
    sqlx::raw_sql("SAVEPOINT postbox_day").execute(&mut *conn).await?;
    let lock = format!("LOCK TABLE {table}_sent_{slot:x} IN ACCESS EXCLUSIVE MODE NOWAIT");
    match sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *conn).await {
        Ok(_) => Ok(true),
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NOT_AVAILABLE) => {
            sqlx::raw_sql("ROLLBACK TO SAVEPOINT postbox_day").execute(conn).await?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Empties a day that is held.
pub(super) async fn truncate(table: &str, conn: &mut PgConnection, slot: i64) -> Result<(), Fault> {
    let truncate = format!("TRUNCATE {table}_sent_{slot:x}");
    sqlx::raw_sql(AssertSqlSafe(truncate)).execute(conn).await?;
    Ok(())
}
