//! Putting events down in the caller's transaction.

use std::sync::LazyLock;

use event::{Event, Limits, Millis};

use crate::Error;
use crate::tx::{Tables, Tx};

/// The outbox under its usual name.
pub(crate) static USUAL: LazyLock<Outbox> =
    LazyLock::new(|| Outbox::named("outbox").expect("`outbox` is a name for a table"));

/// An outbox that an application puts events into, known by its tables' name.
#[derive(Debug)]
pub struct Outbox {
    pub(crate) tables: Tables,
    limits: Limits,
}

impl Outbox {
    /// Names an outbox by its hot table.
    pub fn named(table: &str) -> Result<Outbox, Error> {
        Ok(Outbox { tables: Tables::named(table)?, limits: Limits::default() })
    }

    /// Lowers how large an event may be; above the usual limits no relay takes one.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Outbox {
        self.limits = limits;
        self
    }

    /// Puts an event into the open transaction, to be published once that commits.
    pub async fn put(&self, tx: &mut impl Tx, event: &Event) -> Result<(), Error> {
        self.write(tx, event, None).await
    }

    /// Puts an event into the open transaction, to be published from `due` on.
    pub async fn put_at(&self, tx: &mut impl Tx, event: &Event, due: Millis) -> Result<(), Error> {
        self.write(tx, event, Some(due)).await
    }

    async fn write(
        &self,
        tx: &mut impl Tx,
        event: &Event,
        due: Option<Millis>,
    ) -> Result<(), Error> {
        event.check(&self.limits)?;
        tx.check().await?;
        tx.put(&self.tables, event, due).await
    }
}

/// Puts an event into the open transaction, to be published once that commits.
pub async fn put(tx: &mut impl Tx, event: &Event) -> Result<(), Error> {
    USUAL.put(tx, event).await
}

/// Puts an event into the open transaction, to be published from `due` on.
pub async fn put_at(tx: &mut impl Tx, event: &Event, due: Millis) -> Result<(), Error> {
    USUAL.put_at(tx, event, due).await
}
