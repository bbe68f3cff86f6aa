//! The memory of a consumer group. The unique key decides who works: who is first inserts, and a
//! duplicate is the key's error, never a count.

use event::{Begun, EventId, Fence, Millis};
use sqlx::{MySqlConnection, Row};

use super::statements::Statements;

/// How an event is begun: for how long, and under which status.
struct Work<'a> {
    now: Option<i64>,
    group: &'a str,
    id: String,
    lease: i64,
    status: &'a str,
}

/// How long anybody may hold an event, at the least.
const FAR: i64 = 86_400_000;

/// The longest lease that fits into a moment.
const LONGEST: i64 = 1 << 50;

/// Asks to work on an event for so long.
pub(super) async fn begin(
    sql: &Statements,
    conn: &mut MySqlConnection,
    now: Option<i64>,
    group: &str,
    id: EventId,
    lease: i64,
) -> Result<Begun, sqlx::Error> {
    let (id, lease) = (id.to_string(), lease.min(LONGEST));
    work(sql, conn, &Work { now, group, id, lease, status: "PROCESSING" }).await
}

/// Takes an event in as processed, in the caller's transaction, which ends the work as well.
pub(super) async fn take_in(
    sql: &Statements,
    conn: &mut MySqlConnection,
    group: &str,
    id: EventId,
) -> Result<Begun, sqlx::Error> {
    let id = id.to_string();
    work(sql, conn, &Work { now: None, group, id, lease: 0, status: "PROCESSED" }).await
}

async fn work(
    sql: &Statements,
    conn: &mut MySqlConnection,
    work: &Work<'_>,
) -> Result<Begun, sqlx::Error> {
    let &Work { now, group, ref id, lease, status } = work;
    let id = id.as_str();
    loop {
        let ask = sql.inbox_begin.ask().give(now).give(group).give(id);
        match ask.give(lease).give(status).run(&mut *conn).await {
            Ok(_) => return Ok(Begun::Go(Fence(1))),
            Err(error) if is_duplicate(&error) => {}
            Err(error) => return Err(error),
        }
        let ask = sql.inbox_again.ask().give(now).give(group).give(id);
        let ask = ask.give(lease).give(status).give(FAR.max(lease.saturating_mul(10)));
        let again = ask.run(&mut *conn).await?;
        if again.rows_affected() == 1 {
            let fence = i64::try_from(again.last_insert_id()).unwrap_or(i64::MAX);
            return Ok(Begun::Go(Fence(fence)));
        }
        if let Some(begun) = look(sql, conn, group, id).await? {
            return Ok(begun);
        }
    }
}

/// Tells whether the caller's transaction has an event as taken in. One that a deadlock has ended
/// lost it.
pub(super) async fn remembers(
    sql: &Statements,
    conn: &mut MySqlConnection,
    group: &str,
    id: EventId,
) -> Result<bool, sqlx::Error> {
    Ok(look(sql, conn, group, &id.to_string()).await? == Some(Begun::Done))
}

/// Reads why an event cannot be begun. Its memory may have been trimmed meanwhile: then it can.
async fn look(
    sql: &Statements,
    conn: &mut MySqlConnection,
    group: &str,
    id: &str,
) -> Result<Option<Begun>, sqlx::Error> {
    let ask = sql.inbox_look.ask().give(group).give(id);
    let Some(row) = ask.any(conn).await? else { return Ok(None) };
    Ok(Some(match row.try_get(0)? {
        "PROCESSED" => Begun::Done,
        _ => Begun::Busy { until: Millis(row.try_get(1)?) },
    }))
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}
