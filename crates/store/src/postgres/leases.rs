//! Who owns which shard, and who is there.

use std::collections::BTreeSet;

use async_trait::async_trait;
use event::{Fence, Millis};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::Postgres;
use super::rows::{self, count, number};
use crate::own::Member;
use crate::server::{Fault, Grant, LeaseRow, Leases, Renewal};

fn numbers(shards: &[u16]) -> Vec<i16> {
    shards.iter().copied().map(number).collect()
}

/// Reads a lease that is open.
fn lease(row: &PgRow) -> Result<LeaseRow, Fault> {
    let (seqs, untils): (Vec<i64>, Vec<i64>) = (row.try_get(5)?, row.try_get(6)?);
    let out = seqs.into_iter().zip(untils.into_iter().map(Millis)).collect();
    Ok(LeaseRow {
        shard: rows::shard(row, 0)?,
        owner: row.try_get(1)?,
        mark: Fence(row.try_get(2)?),
        until: Millis(row.try_get(3)?),
        now: Millis(row.try_get(4)?),
        out,
    })
}

#[async_trait]
impl Leases for Postgres {
    const ONE_RENEWAL: bool = true;

    async fn shards(&self, conn: &mut PgConnection) -> Result<i64, Fault> {
        Ok(self.sql.shards.query().fetch_one(conn).await?.try_get(0)?)
    }

    async fn open_leases(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        shards: &[u16],
        wanted: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault> {
        let query =
            self.sql.open_leases.query().bind(now).bind(numbers(shards)).bind(numbers(wanted));
        query.fetch_all(conn).await?.iter().map(lease).collect()
    }

    async fn open_leases_now(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault> {
        let query = self.sql.open_leases_now.query().bind(now).bind(numbers(shards));
        query.fetch_all(conn).await?.iter().map(lease).collect()
    }

    async fn open_tallies_now(
        &self,
        conn: &mut PgConnection,
        shards: &[u16],
    ) -> Result<BTreeSet<u16>, Fault> {
        let query = self.sql.open_tallies_now.query().bind(numbers(shards));
        query.fetch_all(conn).await?.iter().map(|row| rows::shard(row, 0)).collect()
    }

    async fn take(
        &self,
        conn: &mut PgConnection,
        owner: &str,
        until: Millis,
        shards: &[u16],
    ) -> Result<Vec<(u16, Fence)>, Fault> {
        let query = self.sql.take.query().bind(numbers(shards)).bind(owner).bind(until.0);
        let taken = query.fetch_all(conn).await?;
        taken.iter().map(|row| Ok((rows::shard(row, 0)?, Fence(row.try_get(1)?)))).collect()
    }

    async fn renew(
        &self,
        conn: &mut PgConnection,
        owner: &str,
        until: Millis,
        renewals: &[Renewal],
    ) -> Result<BTreeSet<u16>, Fault> {
        let flight = Flight::of(renewals);
        let numbers: Vec<i16> = renewals.iter().map(|one| number(one.shard)).collect();
        let marks: Vec<i64> = renewals.iter().map(|one| one.held.mark.0).collect();
        let fences: Vec<i64> = renewals.iter().map(|one| one.held.newest.0).collect();
        let changed: Vec<bool> = renewals.iter().map(|one| one.out.is_some()).collect();
        let query = self.sql.renew.query().bind(owner).bind(until.0);
        let query = query.bind(numbers).bind(marks).bind(fences).bind(changed);
        let query = query.bind(flight.first).bind(flight.last);
        let query = query.bind(flight.seqs).bind(flight.untils);
        let renewed = query.fetch_all(conn).await?;
        renewed.iter().map(|row| rows::shard(row, 0)).collect()
    }

    async fn hand_over(
        &self,
        conn: &mut PgConnection,
        owner: &str,
        until: Millis,
        grants: &[Grant],
    ) -> Result<(), Fault> {
        let shards: Vec<i16> = grants.iter().map(|grant| number(grant.shard)).collect();
        let marks: Vec<i64> = grants.iter().map(|grant| grant.mark.0).collect();
        let heirs: Vec<Option<String>> = grants.iter().map(|grant| grant.heir.clone()).collect();
        let query = self.sql.hand_over.query().bind(shards).bind(marks).bind(owner);
        query.bind(heirs).bind(until.0).execute(conn).await?;
        Ok(())
    }

    async fn attend(
        &self,
        conn: &mut PgConnection,
        now: Option<i64>,
        owner: &str,
        until: Millis,
        lease: i64,
    ) -> Result<Vec<Member>, Fault> {
        self.sql.attend.query().bind(owner).bind(until.0).execute(&mut *conn).await?;
        let mut members = Vec::new();
        for row in self.sql.members.query().bind(now).bind(lease).fetch_all(conn).await? {
            let shards: i64 = row.try_get(1)?;
            let shards = usize::try_from(shards).unwrap_or(usize::MAX);
            members.push(Member { name: row.try_get(0)?, shards });
        }
        Ok(members)
    }

    async fn depart(&self, conn: &mut PgConnection, owner: &str) -> Result<(), Fault> {
        self.sql.depart.query().bind(owner).execute(conn).await?;
        Ok(())
    }
}

/// The hot rows in flight, as the statement takes them.
#[derive(Default)]
struct Flight {
    /// Where the rows of each lease begin and end, counted from 1.
    first: Vec<i32>,
    last: Vec<i32>,
    seqs: Vec<i64>,
    untils: Vec<i64>,
}

impl Flight {
    fn of(renewals: &[Renewal]) -> Flight {
        let mut flight = Flight::default();
        for Renewal { out, .. } in renewals {
            flight.first.push(count(&flight.seqs) + 1);
            for (seq, until) in out.iter().flatten() {
                flight.seqs.push(*seq);
                flight.untils.push(until.0);
            }
            flight.last.push(count(&flight.seqs));
        }
        flight
    }
}
