//! The strategy as a fact of the outbox: read at each claim, and changed only while nobody works.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use event::{Leased, Millis, StoreError};

use super::super::base::{Base, other_tables};
use super::super::dialect::Dialect;
use super::super::fault::Fault;
use super::super::lapsing::lapse;
use super::super::work::{Commit, Scope, Terms, Work};
use crate::compete::{self, Adopt, Fact, changed};

/// Sees to it that the outbox is claimed with this relay's strategy, or refuses.
pub(in crate::server) async fn adopt<D: Dialect>(
    base: &Base<D>,
    lease: Duration,
) -> Result<(), StoreError> {
    if base.adopted.load(Ordering::Relaxed) {
        return Ok(());
    }
    let agreed = base.work(&mut Reading).await?;
    if !agreed {
        base.work(&mut Adopting { lease }).await?;
    }
    base.adopted.store(true, Ordering::Relaxed);
    Ok(())
}

/// Refuses what is under way if the strategy was changed, and keeps it from being changed until
/// the transaction ends. None that was written down once is only missing in tables that were made
/// anew. Returns the clock that rules.
pub(in crate::server) async fn unchanged<D: Dialect>(
    base: &Base<D>,
    conn: &mut D::Conn,
) -> Result<Millis, Fault> {
    let found = base.db.strategy(conn, base.now()).await?;
    if found.is_none() && base.adopted.load(Ordering::Relaxed) {
        base.let_go();
        return Err(other_tables(&base.table).into());
    }
    changed(base.strategy, &base.table, found.as_ref().map(|(written, _)| &written[..]))?;
    let (_, now) = found.expect("only what was written down agrees");
    Ok(now)
}

/// Whether the outbox is claimed with this relay's strategy.
struct Reading;

#[async_trait]
impl<D: Dialect> Work<D> for Reading {
    type Out = bool;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<bool, Fault> {
        base.shards(conn).await?;
        match unchanged(base, conn).await {
            Ok(_) => Ok(true),
            Err(Fault::Judged(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }
}

/// Takes up this relay's strategy, with every lease open.
struct Adopting {
    lease: Duration,
}

#[async_trait]
impl<D: Dialect> Work<D> for Adopting {
    type Out = ();

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Transaction)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        let all: Vec<u16> = (0..base.shards(conn).await?).collect();
        let leases = base.db.open_leases(conn, base.now(), &all, &all).await?;
        let now = leases.first().map_or(Millis(0), |lease| lease.now);
        let longest = now + Leased::Shard.longest(self.lease);
        let hot: Vec<Millis> =
            leases.iter().flat_map(|lease| &lease.out).map(|(_, until)| *until).collect();
        let last_claim = base.db.last_claim(conn, longest).await?;
        let fact = Fact {
            // The look that opened the leases is older than a row that was written while it waited.
            written: base.db.strategy(conn, base.now()).await?.map(|(written, _)| written),
            now,
            leases: leases.iter().map(|lease| lease.until).collect(),
            claims: last_claim.into_iter().chain(hot).collect(),
            relays: base.db.others(conn, &base.owner).await?,
        };
        if compete::adopt(base.strategy, &base.table, &fact, self.lease)? == Adopt::Write {
            // What the last owners had in flight is unexplained.
            let out = leases
                .iter()
                .flat_map(|lease| lease.out.iter().map(|(seq, _)| (lease.shard, *seq)));
            lapse(base, conn, out.collect(), now).await?;
            base.db.write_strategy(conn, base.strategy).await?;
        }
        Ok(())
    }
}
