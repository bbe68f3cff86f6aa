//! One look at the clock, every shard's lease and what waits. It writes nothing.

use async_trait::async_trait;
use event::Millis;

use super::base::Base;
use super::dialect::{Claims, Dialect};
use super::fault::Fault;
use super::work::{Commit, Scope, Terms, Work};
use crate::own::Look;

/// What one look at every shard showed.
pub(crate) struct Glance<D: Claims> {
    pub(crate) looks: Vec<Look>,
    /// The clock that rules.
    pub(crate) now: Millis,
    /// The newest later row's number.
    pub(crate) newest: i64,
    /// Who may still write below that.
    pub(crate) seen: D::Seen,
}

/// One lane's look, at later rows that are due after `seen`.
pub(super) struct Glancing {
    pub(super) lane: usize,
    pub(super) seen: Millis,
}

#[async_trait]
impl<D: Dialect> Work<D> for Glancing {
    type Out = Glance<D>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Glance<D>, Fault> {
        D::glance(base, conn, self.lane, self.seen).await
    }
}
