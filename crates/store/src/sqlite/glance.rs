//! One look at the clock, the lease and what waits. It writes nothing.

use event::{Cause, Code, Fence, Millis, StoreError};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use crate::own::Look;

/// The only shard that an outbox has in SQLite.
pub(super) const SHARD: u16 = 0;

/// Its lease.
pub(super) const LEASE: &str = "shard:0";

/// Looks, from a cursor on, at later rows that are due after `seen`.
pub(super) async fn glance(
    base: &Base,
    conn: &mut SqliteConnection,
    cursor: i64,
    seen: Millis,
) -> Result<Look, Fault> {
    let query = base.sql.glance.query();
    let query = query.bind(base.now()).bind(LEASE).bind(cursor).bind(seen.0);
    let Some(row) = query.fetch_optional(conn).await? else {
        let detail = format!("{}_lease has lost its row {LEASE:?}", base.table);
        return Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)).into());
    };
    Ok(Look {
        shard: SHARD,
        now: Millis(row.try_get(0)?),
        owner: row.try_get(1)?,
        // One writer sees every claim's fence, so the newest tells who took the lease as well.
        mark: Fence(row.try_get(2)?),
        until: Millis(row.try_get(3)?),
        hot: row.try_get(4)?,
        ahead: row.try_get(5)?,
        front: 0,
        due: row.try_get::<Option<i64>, _>(6)?.map(Millis),
        newest: row.try_get::<Option<i64>, _>(7)?.unwrap_or(0),
    })
}
