//! Renewing leases, and naming in their rows the hot rows in flight.

use std::collections::BTreeSet;

use async_trait::async_trait;
use event::{Fence, Millis};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Terms, Work};
use crate::own::{Held, Holding};

/// A lease as its row says.
pub(crate) struct LeaseRow {
    pub(crate) shard: u16,
    pub(crate) owner: String,
    pub(crate) mark: Fence,
    pub(crate) until: Millis,
    /// The clock at the moment.
    pub(crate) now: Millis,
    /// The hot rows in flight and until when, where they were wanted.
    pub(crate) out: Vec<(i64, Millis)>,
}

/// One lease to renew.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) shard: u16,
    pub(crate) held: Held,
    /// The hot rows in flight and until when, where they are others than its row names.
    pub(crate) out: Option<Vec<(i64, Millis)>>,
}

impl Renewal {
    /// Renews a lease in whose shard other hot rows are in flight than its row names.
    pub(super) fn naming(holding: &Holding, shard: u16, held: Held) -> Renewal {
        Renewal { shard, held, out: Some(holding.flight(shard)) }
    }
}

/// One lease to hand over.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) shard: u16,
    /// What its row must show.
    pub(crate) mark: Fence,
    /// To whom, or to nobody.
    pub(crate) heir: Option<String>,
}

/// Renews leases. Returns the shards that were still ours.
pub(super) async fn renew<D: Dialect>(
    base: &Base<D>,
    conn: &mut D::Conn,
    until: Millis,
    renewals: &[Renewal],
) -> Result<BTreeSet<u16>, Fault> {
    if renewals.is_empty() {
        return Ok(BTreeSet::new());
    }
    base.db.renew(conn, &base.owner, until, renewals).await
}

/// Renews the leases of a lane that waits.
pub(super) struct Renewing {
    pub(super) until: Millis,
    pub(super) renewals: Vec<Renewal>,
}

#[async_trait]
impl<D: Dialect> Work<D> for Renewing {
    type Out = ();

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        renew(base, conn, self.until, &self.renewals).await.map(drop)
    }
}
