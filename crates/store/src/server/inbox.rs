//! The memory of a consumer group. The unique key decides who works, and the fence who may say so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, EventId, Fence, Inbox, InboxEnd, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Terms, Work};

/// The consumers' memory of one handle.
pub(super) struct ServerInbox<D: Dialect>(pub(super) Arc<Base<D>>);

#[async_trait]
impl<D: Dialect> Inbox for ServerInbox<D> {
    async fn begin(&self, group: &str, id: EventId, lease: Duration) -> Result<Begun, StoreError> {
        self.0.carry(Beginning { group: group.to_owned(), id, lease }).await
    }

    async fn finish(
        &self,
        group: &str,
        id: EventId,
        fence: Fence,
        end: InboxEnd,
    ) -> Result<bool, StoreError> {
        self.0.carry(Finishing { group: group.to_owned(), id, fence, end }).await
    }
}

struct Beginning {
    group: String,
    id: EventId,
    lease: Duration,
}

#[async_trait]
impl<D: Dialect> Work<D> for Beginning {
    type Out = Begun;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Begun, Fault> {
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        base.db.begin_work(conn, base.now(), &self.group, self.id, lease).await
    }
}

struct Finishing {
    group: String,
    id: EventId,
    fence: Fence,
    end: InboxEnd,
}

#[async_trait]
impl<D: Dialect> Work<D> for Finishing {
    type Out = bool;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<bool, Fault> {
        let Finishing { group, id, fence, end } = self;
        base.db.finish_work(conn, base.now(), group, *id, *fence, end).await
    }
}
