//! Rows as PostgreSQL gives them out.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::own::Snapshot;
pub(super) use crate::server::rows::{due, event, listed, shard, small, text, trail};
use crate::server::{Fault, rows::Cells};

impl Cells for PgRow {
    fn cell_text(&self, at: usize) -> Result<Option<&str>, Fault> {
        Ok(self.try_get_unchecked(at)?)
    }

    fn cell_bytes(&self, at: usize) -> Result<Option<&[u8]>, Fault> {
        Ok(self.try_get_unchecked(at)?)
    }

    fn cell_int(&self, at: usize) -> Result<Option<i64>, Fault> {
        Ok(self.try_get_unchecked(at)?)
    }
}

/// Reads a snapshot, and the age that tells which transaction would be the next.
pub(super) fn snapshot(row: &PgRow, at: usize, age: usize) -> Result<Snapshot, Fault> {
    Ok(Snapshot::parse(text(row, at)?, row.try_get(age)?).unwrap_or_default())
}

/// Counts rows as the statements do.
pub(super) fn count(rows: &[i64]) -> i32 {
    i32::try_from(rows.len()).expect("no statement takes that many")
}

/// Writes a shard as the tables have it.
pub(super) fn number(shard: u16) -> i16 {
    i16::try_from(shard).expect("there are at most 1024 shards")
}
