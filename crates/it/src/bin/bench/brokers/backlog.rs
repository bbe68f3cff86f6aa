//! The backlog that every loop begins with: the same events, in a table of PostgreSQL or in hand.

use anyhow::Result;
use bytes::Bytes;
use it::session::Session;

use super::letter::Letter;
use crate::stores::{Bed, payload};

/// Which outbox the events say they come from.
pub(super) const SOURCE: &str = "bench";

/// How many events share a key.
const PER_KEY: usize = 5;

/// A server, and how many events a backlog has.
pub(super) struct Backlog<'a> {
    pub(super) bed: &'a dyn Bed,
    pub(super) events: usize,
}

/// Returns over how many keys so many events go, round after round.
pub(super) fn keys(events: usize) -> usize {
    (events / PER_KEY).max(1)
}

impl Backlog<'_> {
    /// Makes an outbox with the backlog of a topic. Returns its url.
    pub(super) async fn outbox(&self, topic: &str) -> Result<String> {
        let url = self.bed.outbox(0, 0).await?;
        let (events, payload, kind) = (self.events, payload(), Letter::KIND);
        let keys = keys(events);
        let mut session = Session::open(&url).await?;
        let filling = format!(
            "INSERT INTO outbox (topic, event_type, biz_key, payload) \
             SELECT '{topic}', '{kind}', 'k' || n % {keys}, '{payload}' \
             FROM generate_series(0, {events} - 1) AS n"
        );
        for sql in [&*filling, "VACUUM ANALYZE outbox", "CHECKPOINT"] {
            session.run(sql).await?;
        }
        session.close().await?;
        Ok(url)
    }

    /// Returns the same events for a bare loop.
    pub(super) fn letters(&self, topic: &str) -> Vec<Letter> {
        let (keys, payload) = (keys(self.events), Bytes::from(payload()));
        let letter = |n| Letter::new(topic, format!("k{}", n % keys), payload.clone());
        (0..self.events).map(letter).collect()
    }

    /// Reads and deletes everything by primary key.
    pub(super) async fn drain(&self, url: &str) -> Result<()> {
        self.bed.raw(url, self.events).await.map(drop)
    }
}
