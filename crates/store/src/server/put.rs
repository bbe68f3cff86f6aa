//! Putting events down in a transaction of our own.

use async_trait::async_trait;
use event::{Event, Millis};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Terms, Work};

/// Events for one transaction.
pub(super) struct Putting {
    pub(super) events: Vec<Event>,
    pub(super) due: Option<Millis>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Putting {
    type Out = ();

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, D::puts(&self.events))
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        base.shards(conn).await?;
        base.db.put(conn, &self.events, self.due, base.now()).await
    }
}
