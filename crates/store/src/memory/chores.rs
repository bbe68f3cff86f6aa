//! The upkeep, modelled: one holder at a time, oldest first, never a dead row.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Chores, Keep, Place, StoreError, Swept};

use super::Table;

pub(super) struct MemoryChores {
    pub(super) table: Arc<Table>,
    pub(super) relay: u64,
}

#[async_trait]
impl Chores for MemoryChores {
    async fn sweep(&self, keep: &Keep) -> Result<Swept, StoreError> {
        let now = self.table.now();
        let mut state = self.table.state();
        let (holder, until) = state.chores;
        // A lease that lasts longer than any was taken by a clock that was ahead.
        let held = until > now && until <= now + 10 * keep.lease;
        if holder != self.relay && held {
            return Ok(Swept { elsewhere: true, ..Swept::default() });
        }
        state.chores = (self.relay, now + keep.lease);
        let mut sent = 0;
        state.entries.retain(|entry| {
            let old = matches!(entry.row.place, Place::Sent(_)) && entry.updated < now - keep.sent;
            let trim = old && sent < keep.step as u64;
            sent += u64::from(trim);
            !trim
        });
        state.trimmed += sent;
        let mut inbox = 0;
        state.inbox.retain(|_, memory| {
            let old = memory.updated < now - keep.inbox && memory.until <= now;
            let trim = old && inbox < keep.step as u64;
            inbox += u64::from(trim);
            !trim
        });
        Ok(Swept { sent, inbox, elsewhere: false })
    }
}
