//! The memory of a consumer group. The unique key decides who works.

use event::{Begun, EventId, Fence, Millis};
use sqlx::{PgConnection, Row};

use super::statements::Statements;

/// Asks to work on an event for so long.
pub(super) async fn begin(
    sql: &Statements,
    conn: &mut PgConnection,
    now: Option<i64>,
    group: &str,
    id: EventId,
    lease: i64,
) -> Result<Begun, sqlx::Error> {
    let text = id.to_string();
    loop {
        let query = sql.inbox_begin.query().bind(now).bind(group).bind(&text).bind(lease);
        if let Some(row) = query.fetch_optional(&mut *conn).await? {
            return Ok(Begun::Go(Fence(row.try_get(0)?)));
        }
        if let Some(begun) = look(sql, conn, group, &text).await? {
            return Ok(begun);
        }
    }
}

/// Takes an event in as processed, in the caller's transaction, which ends the work as well.
pub(super) async fn take_in(
    sql: &Statements,
    conn: &mut PgConnection,
    group: &str,
    id: EventId,
) -> Result<Begun, sqlx::Error> {
    let text = id.to_string();
    loop {
        let query = sql.take_in.query().bind(None::<i64>).bind(group).bind(&text);
        if let Some(row) = query.fetch_optional(&mut *conn).await? {
            return Ok(Begun::Go(Fence(row.try_get(0)?)));
        }
        if let Some(begun) = look(sql, conn, group, &text).await? {
            return Ok(begun);
        }
    }
}

/// Tells whether the caller's transaction has an event as taken in. One in which a statement has
/// failed keeps nothing, and says so to whatever it is asked.
pub(super) async fn remembers(
    sql: &Statements,
    conn: &mut PgConnection,
    group: &str,
    id: EventId,
) -> Result<bool, sqlx::Error> {
    const FAILED: &str = "25P02";
    match look(sql, conn, group, &id.to_string()).await {
        Ok(found) => Ok(found == Some(Begun::Done)),
        Err(sqlx::Error::Database(said)) if said.code().as_deref() == Some(FAILED) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads why an event cannot be begun. Its memory may have been trimmed meanwhile: then it can.
async fn look(
    sql: &Statements,
    conn: &mut PgConnection,
    group: &str,
    id: &str,
) -> Result<Option<Begun>, sqlx::Error> {
    let query = sql.inbox_look.query().bind(group).bind(id);
    let Some(row) = query.fetch_optional(conn).await? else { return Ok(None) };
    Ok(Some(match row.try_get(0)? {
        "PROCESSED" => Begun::Done,
        _ => Begun::Busy { until: Millis(row.try_get(1)?) },
    }))
}
