//! Renewing leases, and naming in their rows the hot rows in flight.

use std::collections::BTreeSet;

use async_trait::async_trait;
use event::Millis;
use sqlx::PgConnection;

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::number;
use super::rows;
use super::work::Work;
use crate::own::Held;

/// One lease to renew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    pub(super) shard: u16,
    pub(super) held: Held,
    /// Whether other hot rows are in flight than its row names.
    pub(super) changed: bool,
}

/// Renews leases. Returns the shards that were still ours.
pub(super) async fn renew(
    base: &Base,
    conn: &mut PgConnection,
    until: Millis,
    renewals: &[Renewal],
) -> Result<BTreeSet<u16>, Fault> {
    if renewals.is_empty() {
        return Ok(BTreeSet::new());
    }
    let flight = Flight::of(base, renewals.iter().filter(|one| one.changed).map(|one| one.shard));
    let numbers: Vec<i16> = renewals.iter().map(|one| number(one.shard)).collect();
    let marks: Vec<i64> = renewals.iter().map(|one| one.held.mark.0).collect();
    let fences: Vec<i64> = renewals.iter().map(|one| one.held.newest.0).collect();
    let changed: Vec<bool> = renewals.iter().map(|one| one.changed).collect();
    let query = base.sql.renew.query().bind(&base.owner).bind(until.0);
    let query = query.bind(numbers).bind(marks).bind(fences).bind(changed);
    let query = query.bind(flight.shards).bind(flight.seqs).bind(flight.untils);
    let renewed = query.fetch_all(conn).await?;
    renewed.iter().map(|row| rows::shard(row, 0)).collect()
}

/// The hot rows in flight, as the statement takes them.
#[derive(Default)]
struct Flight {
    shards: Vec<i16>,
    seqs: Vec<i64>,
    untils: Vec<i64>,
}

impl Flight {
    fn of(base: &Base, shards: impl Iterator<Item = u16>) -> Flight {
        let (holding, none) = (base.holding(), BTreeSet::new());
        let mut flight = Flight::default();
        for shard in shards {
            for (until, seqs) in holding.out(shard, &none) {
                for seq in seqs {
                    flight.shards.push(number(shard));
                    flight.seqs.push(seq);
                    flight.untils.push(until.0);
                }
            }
        }
        flight
    }
}

/// Renews the leases of a lane that waits.
pub(super) struct Renewing {
    pub(super) until: Millis,
    pub(super) renewals: Vec<Renewal>,
}

#[async_trait]
impl Work for Renewing {
    type Out = ();
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        renew(base, conn, self.until, &self.renewals).await.map(drop)
    }
}
