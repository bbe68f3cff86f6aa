//! Days of history, each in a partition of its own: looked at, and emptied at once.
//!
//! To empty one, a server of the family keeps everybody from the whole table for a moment. It waits
//! for whoever is there, and keeps others waiting meanwhile, so it is not let wait for long.

use std::collections::BTreeMap;

use event::Millis;
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::statements::Statements;
use super::{error, rows};
use crate::server::rows::Cells;
use crate::server::{Fault, SeenDay};

/// Looks at days, at so many rows of each at the most.
pub(super) async fn days(
    sql: &Statements,
    conn: &mut MySqlConnection,
    slots: &[i64],
    most: i64,
) -> Result<BTreeMap<i64, SeenDay>, Fault> {
    let each = slots.iter().map(|slot| vec![(*slot).into()]).collect();
    let mut days = BTreeMap::new();
    for row in sql.days.ask().give(most).each(each).all(conn).await? {
        if let Some(newest) = row.cell_int(2)?.map(Millis) {
            days.insert(rows::int(&row, 0)?, SeenDay { rows: rows::int(&row, 1)?, newest });
        }
    }
    Ok(days)
}

/// Empties a day, unless somebody is at the table for longer than a second, the least that these
/// servers know.
pub(super) async fn truncate(
    table: &str,
    conn: &mut MySqlConnection,
    slot: i64,
) -> Result<bool, Fault> {
    const WAITED: u16 = 1205;
    let hurry = "SET @postbox_wait = @@SESSION.lock_wait_timeout; \
                 SET SESSION lock_wait_timeout = 1";
    sqlx::raw_sql(hurry).execute(&mut *conn).await?;
    let truncate = format!("ALTER TABLE {table}_sent TRUNCATE PARTITION p{slot}");
    let truncated = match sqlx::raw_sql(AssertSqlSafe(truncate)).execute(&mut *conn).await {
        Ok(_) => true,
        Err(error) if error::number(&error) == Some(WAITED) => false,
        Err(error) => return Err(error.into()),
    };
    sqlx::raw_sql("SET SESSION lock_wait_timeout = @postbox_wait").execute(conn).await?;
    Ok(truncated)
}
