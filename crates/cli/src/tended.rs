//! What the front door knows of a lane's store: its schema, and where to tell of it.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Cause, StoreError};
use relay::Health;
use telemetry::Telemetry;

use crate::outboxes::Opened;

/// One lane's store.
pub(crate) struct Tended {
    pub(crate) opened: Arc<Opened>,
    pub(crate) sink: String,
    pub(crate) telemetry: Telemetry,
}

#[async_trait]
impl Health for Tended {
    async fn ready(&self) -> Result<(), StoreError> {
        self.opened.ready().await
    }

    fn broken(&self, cause: &Cause) {
        self.telemetry.broken(&self.opened.name, &self.sink, cause);
    }

    fn mended(&self) {
        self.telemetry.mended(&self.opened.name, &self.sink);
    }
}
