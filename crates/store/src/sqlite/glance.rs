//! One look at the clock, the lease and what waits. It writes nothing.

use event::{Cause, Code, Fence, Millis, StoreError};
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;

/// The lease of the only shard that an outbox has in SQLite.
pub(super) const SHARD: &str = "shard:0";

/// What one look showed.
#[derive(Clone, Debug)]
pub(super) struct Glance {
    /// The clock that rules.
    pub(super) now: Millis,
    /// Who took the lease last.
    pub(super) owner: String,
    /// With which fence.
    pub(super) fence: Fence,
    /// Until when; 0 when it was handed over.
    pub(super) until: Millis,
    /// Whether there are hot rows.
    pub(super) hot: bool,
    /// Whether there are hot rows above the cursor.
    pub(super) ahead: bool,
    /// The earliest due time of a later row.
    pub(super) due: Option<Millis>,
    /// The newest later row's number.
    pub(super) newest: i64,
}

impl Glance {
    /// Looks, from a cursor on, at later rows that are due after `seen`.
    pub(super) async fn read(
        base: &Base,
        conn: &mut SqliteConnection,
        cursor: i64,
        seen: Millis,
    ) -> Result<Glance, Fault> {
        let query = base.sql.glance.query();
        let query = query.bind(base.now()).bind(SHARD).bind(cursor).bind(seen.0);
        let Some(row) = query.fetch_optional(conn).await? else {
            let detail = format!("{}_lease has lost its row {SHARD:?}", base.table);
            return Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)).into());
        };
        Ok(Glance {
            now: Millis(row.try_get(0)?),
            owner: row.try_get(1)?,
            fence: Fence(row.try_get(2)?),
            until: Millis(row.try_get(3)?),
            hot: row.try_get(4)?,
            ahead: row.try_get(5)?,
            due: row.try_get::<Option<i64>, _>(6)?.map(Millis),
            newest: row.try_get::<Option<i64>, _>(7)?.unwrap_or(0),
        })
    }
}
