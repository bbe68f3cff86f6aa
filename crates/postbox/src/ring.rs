//! A ring for a relay, so that it need not look for itself.

use std::sync::Arc;

use store::postgres::Chime;

use crate::Error;

/// Wakes relays after a commit. Without it, or if it gets lost, they find the event when they look
/// next, which is a moment later.
#[derive(Clone)]
pub struct Ring(To);

#[derive(Clone)]
enum To {
    Here(Arc<dyn store::Outbox>),
    Elsewhere(Arc<Chime>),
}

impl Ring {
    /// Rings for the relay of this process that has this handle.
    pub fn of(relay: Arc<dyn store::Outbox>) -> Ring {
        Ring(To::Here(relay))
    }

    /// Rings for the relays of other processes that listen to an outbox in PostgreSQL (`listen =
    /// true` in their config). It has a connection of its own and never touches your transactions;
    /// rings that come together are one.
    pub async fn across(url: &str, table: &str) -> Result<Ring, Error> {
        store::check_listen(url)?;
        Ok(Ring(To::Elsewhere(Arc::new(Chime::new(url, table).await?))))
    }

    /// Says that something was committed.
    pub fn ring(&self) {
        match &self.0 {
            To::Here(relay) => relay.ring(),
            To::Elsewhere(chime) => chime.ring(),
        }
    }
}
