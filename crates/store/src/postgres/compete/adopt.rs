//! The strategy as a fact of the outbox: read at each claim, and changed only while nobody works.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use event::{Leased, Millis, StoreError};
use sqlx::{PgConnection, Row};

use super::super::base::Base;
use super::super::claim::lapse;
use super::super::connect::Commit;
use super::super::error::Fault;
use super::super::rows;
use super::super::work::{Scope, Work};
use crate::compete::{self, Adopt, Fact, changed};

/// Sees to it that the outbox is claimed with this relay's strategy, or refuses.
pub(in crate::postgres) async fn adopt(base: &Base, lease: Duration) -> Result<(), StoreError> {
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
/// the transaction ends. Returns the clock that rules.
pub(in crate::postgres) async fn unchanged(
    base: &Base,
    conn: &mut PgConnection,
) -> Result<Millis, Fault> {
    let (written, now) = read(base, conn).await?;
    changed(base.strategy, &base.table, written.as_deref())?;
    Ok(now)
}

/// Reads with which strategy the outbox is claimed, if anybody ever did, and the clock that rules.
pub(in crate::postgres) async fn read(
    base: &Base,
    conn: &mut PgConnection,
) -> Result<(Option<String>, Millis), Fault> {
    let row = base.sql.strategy.query().bind(base.now()).fetch_one(conn).await?;
    Ok((row.try_get(0)?, Millis(row.try_get(1)?)))
}

/// Whether the outbox is claimed with this relay's strategy.
struct Reading;

#[async_trait]
impl Work for Reading {
    type Out = bool;
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<bool, Fault> {
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
impl Work for Adopting {
    type Out = ();
    const COMMIT: Commit = Commit::Sure;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let rows = base.sql.open_leases.query().bind(base.now()).fetch_all(&mut *conn).await?;
        let (leases, claims, relays) = (Vec::new(), Vec::new(), Vec::new());
        let mut fact = Fact { written: None, now: Millis(0), leases, claims, relays };
        let mut out: Vec<(u16, i64)> = Vec::new();
        for row in &rows {
            fact.now = Millis(row.try_get(3)?);
            if row.try_get::<Option<i16>, _>(0)?.is_some() {
                let shard = rows::shard(row, 0)?;
                fact.leases.push(Millis(row.try_get(1)?));
                let named: Vec<i64> = row.try_get(2)?;
                out.extend(named.into_iter().map(|seq| (shard, seq)));
            }
        }
        fact.written = read(base, conn).await?.0;
        let longest = fact.now + Leased::Shard.longest(self.lease);
        let last = base.sql.last_claims.query().bind(longest.0).fetch_optional(&mut *conn).await?;
        if let Some(row) = last {
            fact.claims.push(Millis(row.try_get(0)?));
        }
        for row in base.sql.others.query().bind(&base.owner).fetch_all(&mut *conn).await? {
            fact.relays.push(Millis(row.try_get(0)?));
        }
        if compete::adopt(base.strategy, &base.table, &fact, self.lease)? == Adopt::Write {
            // What the last owners had in flight is unexplained.
            lapse(base, conn, out, fact.now).await?;
            base.sql.free_leases.query().execute(&mut *conn).await?;
            base.sql.write_strategy.query().bind(base.strategy.name()).execute(conn).await?;
        }
        Ok(())
    }
}
