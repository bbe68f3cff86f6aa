//! The consumers' memory, modelled.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, EventId, Fence, Inbox, InboxEnd, Leased, Millis, StoreError};

use super::Table;

/// What a group remembers of one event.
pub(super) struct Memory {
    processed: bool,
    pub(super) updated: Millis,
    fence: Fence,
    /// Until when its holder may work; zero when nobody holds it.
    pub(super) until: Millis,
}

pub(super) struct MemoryInbox(pub(super) Arc<Table>);

#[async_trait]
impl Inbox for MemoryInbox {
    async fn begin(&self, group: &str, id: EventId, lease: Duration) -> Result<Begun, StoreError> {
        let now = self.0.now();
        let mut state = self.0.state();
        let fresh = || Memory { processed: false, updated: now, fence: Fence(0), until: Millis(0) };
        let memory = state.inbox.entry((group.to_owned(), id)).or_insert_with(fresh);
        if memory.processed {
            return Ok(Begun::Done);
        }
        if Leased::Inbox.runs(memory.until, now, lease) {
            return Ok(Begun::Busy { until: memory.until });
        }
        memory.fence = memory.fence.next();
        memory.until = now + lease;
        memory.updated = now;
        Ok(Begun::Go(memory.fence))
    }

    async fn finish(
        &self,
        group: &str,
        id: EventId,
        fence: Fence,
        end: InboxEnd,
    ) -> Result<bool, StoreError> {
        let now = self.0.now();
        let mut state = self.0.state();
        let Some(memory) = state.inbox.get_mut(&(group.to_owned(), id)) else { return Ok(false) };
        if memory.processed || memory.fence != fence || memory.until == Millis(0) {
            return Ok(false);
        }
        memory.processed = end == InboxEnd::Processed;
        memory.until = Millis(0);
        memory.updated = now;
        Ok(true)
    }
}
