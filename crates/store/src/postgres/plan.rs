//! How PostgreSQL means to run a statement, whatever it is given.

use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::error::Fault;
use super::statements::Sql;

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
