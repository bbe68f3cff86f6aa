//! What a store is measured on: one server, with as many fresh outboxes as are wanted.

use anyhow::Result;
use async_trait::async_trait;
use store::Strategy;

use super::shapes::Shape;

/// Bytes of each payload.
pub(super) const SIZE: usize = 300;

#[async_trait]
pub(crate) trait Bed: Send + Sync {
    /// How many turns or loops at once make sense here.
    fn width(&self) -> usize;
    /// Which shapes can be tried here.
    fn shapes(&self) -> &'static [Shape];
    /// With which strategies relays can compete here.
    fn strategies(&self) -> &'static [Strategy];
    /// Tells whether the server can say what was committed to whoever listens.
    fn listens(&self) -> bool;
    /// Makes a new outbox with so many rows that wait, and so many of history. Returns its url.
    async fn outbox(&self, events: usize, behind: usize) -> Result<String>;
    /// Puts so many more rows.
    async fn fill(&self, url: &str, events: usize) -> Result<()>;
    /// Puts so many later rows, due at a time that an expression of their number `n` says.
    async fn later(&self, url: &str, events: usize, due: &str) -> Result<()>;
    /// Counts the rows of a table.
    async fn count(&self, url: &str, table: &str) -> Result<usize>;
    /// Opens a transaction that sees everything as it is now, for as long as it is kept.
    async fn snapshot(&self, url: &str) -> Result<Box<dyn Send>>;
    /// Reads and deletes everything by primary key. Returns rows per second.
    async fn raw(&self, url: &str, events: usize) -> Result<f64>;
    /// Drains so many rows in another shape. Returns rows per second.
    async fn shape(&self, shape: &Shape, events: usize) -> Result<f64>;
    /// Commits business rows, each in its own transaction, with or without an event. Returns
    /// transactions per second.
    async fn produce(&self, url: &str, event: bool) -> Result<f64>;
}
