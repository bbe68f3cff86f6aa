//! Upkeep in small steps, by one holder at a time. Dead rows are never touched.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Chores, Keep, StoreError, Swept};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Work};

/// The upkeep of one handle.
pub(super) struct ServerChores<D: Dialect>(pub(super) Arc<Base<D>>);

#[async_trait]
impl<D: Dialect> Chores for ServerChores<D> {
    async fn sweep(&self, keep: &Keep) -> Result<Swept, StoreError> {
        self.0.carry(Sweeping(*keep)).await
    }
}

struct Sweeping(Keep);

#[async_trait]
impl<D: Dialect> Work<D> for Sweeping {
    type Out = Swept;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Swept, Fault> {
        base.shards(conn).await?;
        let keep = self.0;
        let lease = i64::try_from(keep.lease.as_millis()).unwrap_or(i64::MAX);
        let Some(now) = base.db.take_chores(conn, base.now(), &base.owner, lease).await? else {
            return Ok(Swept { elsewhere: true, ..Swept::default() });
        };
        let (sent, inbox) = base.db.trim(conn, &keep, now).await?;
        Ok(Swept { sent, inbox, elsewhere: false })
    }
}
