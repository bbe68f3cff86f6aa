//! Rows as MySQL and MariaDB give them out.

use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::server::Fault;
use crate::server::rows::Cells;
pub(super) use crate::server::rows::{due, event, int, listed, shard, shown, small, text, trail};

impl Cells for MySqlRow {
    fn cell_text(&self, at: usize) -> Result<Option<&str>, Fault> {
        Ok(self.try_get_unchecked(at)?)
    }

    fn cell_bytes(&self, at: usize) -> Result<Option<&[u8]>, Fault> {
        Ok(self.try_get_unchecked(at)?)
    }

    fn cell_int(&self, at: usize) -> Result<Option<i64>, Fault> {
        Ok(self.try_get(at)?)
    }
}
