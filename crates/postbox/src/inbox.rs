//! Taking events in: the memory of a consumer group, in the consumer's own transaction.

use event::{Begun, EventId};

use crate::Error;
use crate::outbox::{Outbox, USUAL};
use crate::tx::Tx;

/// Takes an event in for a consumer group, in the open transaction.
///
/// Returns `true` the first time: do the work in the same transaction and commit. Returns `false`
/// when the group has taken it in before: acknowledge it and do nothing. If the transaction is
/// rolled back, so is this memory, and the event will be new again. It is an error that another
/// holder has begun to work on it through [`event::Inbox`] and is not finished yet.
///
/// ```
/// # use sqlx::Connection;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> anyhow::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("stock.sqlite3").display());
/// # postbox::migrate(&url).await?;
/// # let mut conn = sqlx::SqliteConnection::connect(&url).await?;
/// # let id = postbox::EventId::new();
/// let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
/// if postbox::inbox::take_in(&mut tx, "stock", id).await? {
///     // change your own tables here
/// }
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn take_in(tx: &mut impl Tx, group: &str, id: EventId) -> Result<bool, Error> {
    USUAL.take_in(tx, group, id).await
}

impl Outbox {
    /// Takes an event in for a consumer group. Returns `false` when that was done before.
    pub async fn take_in(&self, tx: &mut impl Tx, group: &str, id: EventId) -> Result<bool, Error> {
        tx.check().await?;
        match tx.take_in(&self.tables, group, id).await? {
            Begun::Go(_) => Ok(true),
            Begun::Done => Ok(false),
            Begun::Busy { until } => Err(Error::Busy { until }),
        }
    }
}
