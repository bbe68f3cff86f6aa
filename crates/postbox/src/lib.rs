//! What an application links: put an event in the business transaction, take one in once.
//!
//! Both happen inside a transaction that the application began and will end. Only a [`Consumer`]
//! begins and ends transactions by itself, one for each event that comes to it. Nothing here
//! publishes: that is the relay's part.
//!
//! ```
//! # use sqlx::Connection;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("orders.sqlite3").display());
//! postbox::migrate(&url).await?;
//! let mut conn = sqlx::SqliteConnection::connect(&url).await?;
//! sqlx::query("CREATE TABLE orders (id TEXT, total INTEGER)").execute(&mut conn).await?;
//!
//! let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
//! sqlx::query("INSERT INTO orders VALUES ('123', 42)").execute(&mut *tx).await?;
//! let event = postbox::Event::new("order.paid", "OrderPaid", r#"{"total": 42}"#).key("123");
//! postbox::put(&mut tx, &event).await?;
//! tx.commit().await?; // both, or neither
//! # Ok(())
//! # }
//! ```

mod consumer;
mod error;
pub mod inbox;
mod outbox;
mod ring;
mod tx;

pub use consumer::{Consumer, Database, Failure};
pub use error::Error;
pub use event::{
    Backoff, Cause, Code, Consumed, Delivery, Event, EventId, Feed, Handle, Headers, Invalid,
    Limits, Millis, Nack, Payload, Refusal, Witness,
};
pub use outbox::{Outbox, put, put_at};
pub use ring::Ring;
pub use tx::Tx;

/// Brings the outbox tables of a database up to date, making the file if it is not there.
pub async fn migrate(url: &str) -> Result<(), Error> {
    let outbox = store::open(&store::Setup::new(url)).await?;
    let migrated = outbox.migrate().await;
    outbox.close().await;
    migrated?;
    Ok(())
}
