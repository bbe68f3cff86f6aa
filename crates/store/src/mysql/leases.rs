//! Who owns which shard, and who is there.

use std::collections::BTreeSet;
use std::iter::repeat_n;

use async_trait::async_trait;
use event::{Fence, Millis};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::template::Value;
use super::{MySql, flight, parcel, rows};
use crate::own::Member;
use crate::server::{Fault, Grant, LeaseRow, Leases, Renewal};

/// Names shards, in one order for everybody.
fn named(shards: &[u16], row: impl Fn(u16) -> Vec<Value>) -> Vec<Vec<Value>> {
    let shards: BTreeSet<u16> = shards.iter().copied().collect();
    shards.into_iter().map(row).collect()
}

/// Names shards and nothing else of them.
fn alone(shards: &[u16]) -> Vec<Vec<Value>> {
    named(shards, |shard| vec![shard.into()])
}

/// Reads a lease that is open.
fn lease(row: &MySqlRow) -> Result<LeaseRow, Fault> {
    Ok(LeaseRow {
        shard: rows::shard(row, 0)?,
        owner: rows::text(row, 1)?.to_owned(),
        mark: Fence(rows::int(row, 2)?),
        until: Millis(rows::int(row, 3)?),
        now: Millis(rows::int(row, 4)?),
        out: flight::read(rows::text(row, 5)?),
    })
}

impl MySql {
    /// Says in the tallies of shards whose these are now.
    pub(super) async fn mark(
        &self,
        conn: &mut MySqlConnection,
        shards: &[u16],
    ) -> Result<(), Fault> {
        self.sql.mark.ask().rows(alone(shards)).run(conn).await?;
        Ok(())
    }

    /// Renews some leases, each with the rows in flight if they have changed; returns how many were
    /// still ours.
    async fn renew_part(
        &self,
        conn: &mut MySqlConnection,
        owner: &str,
        until: Millis,
        part: Vec<(&Renewal, Option<String>)>,
    ) -> Result<u64, Fault> {
        let ask = self.sql.renew.ask().give(owner).give(until.0);
        let ask = ask.list(part.iter().map(|(one, _)| one.shard));
        let ask = ask.list(part.iter().map(|(one, _)| one.held.mark.0));
        let ask = ask.list(part.iter().map(|(one, _)| one.held.newest.0));
        // Filled up by NULL, for the last of them may be long.
        let missing = part.len().next_power_of_two() - part.len();
        let out = part.into_iter().map(|(_, out)| out);
        let ask = ask.list(out.chain(repeat_n(None, missing)));
        Ok(ask.run(conn).await?.rows_affected())
    }
}

#[async_trait]
impl Leases for MySql {
    const ONE_RENEWAL: bool = false;

    async fn shards(&self, conn: &mut MySqlConnection) -> Result<i64, Fault> {
        rows::int(&self.sql.shards.ask().one(conn).await?, 0)
    }

    async fn open_leases(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        shards: &[u16],
        wanted: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault> {
        if shards.is_empty() {
            return Ok(Vec::new());
        }
        let row = |shard: u16| vec![shard.into(), wanted.contains(&shard).into()];
        let ask = self.sql.open_leases.ask().give(now).rows(named(shards, row));
        let leases = ask.all(&mut *conn).await?.iter().map(lease).collect();
        self.sql.open_tallies.ask().rows(alone(shards)).all(conn).await?;
        leases
    }

    async fn open_leases_now(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault> {
        let ask = self.sql.open_leases_now.ask().give(now).rows(alone(shards));
        ask.all(conn).await?.iter().map(lease).collect()
    }

    async fn open_tallies_now(
        &self,
        conn: &mut MySqlConnection,
        shards: &[u16],
    ) -> Result<BTreeSet<u16>, Fault> {
        let ask = self.sql.open_tallies_now.ask().rows(alone(shards));
        ask.all(conn).await?.iter().map(|row| rows::shard(row, 0)).collect()
    }

    async fn take(
        &self,
        conn: &mut MySqlConnection,
        owner: &str,
        until: Millis,
        shards: &[u16],
    ) -> Result<Vec<(u16, Fence)>, Fault> {
        let ask = self.sql.take.ask().give(owner).give(until.0).rows(alone(shards));
        ask.run(&mut *conn).await?;
        self.mark(conn, shards).await?;
        let taken = self.sql.fences.ask().rows(alone(shards)).all(conn).await?;
        taken.iter().map(|row| Ok((rows::shard(row, 0)?, Fence(rows::int(row, 1)?)))).collect()
    }

    async fn renew(
        &self,
        conn: &mut MySqlConnection,
        owner: &str,
        until: Millis,
        renewals: &[Renewal],
    ) -> Result<BTreeSet<u16>, Fault> {
        let mut ordered: Vec<&Renewal> = renewals.iter().collect();
        ordered.sort_by_key(|one| one.shard);
        let mut found = 0;
        let texts = ordered.iter().map(|one| (*one, one.out.as_deref().map(flight::write)));
        for part in parcel::part(texts.collect(), |(_, out)| out.as_ref().map_or(0, String::len)) {
            found += self.renew_part(conn, owner, until, part).await?;
        }
        if found == ordered.len() as u64 {
            return Ok(ordered.iter().map(|one| one.shard).collect());
        }
        let row = |one: &&Renewal| vec![one.shard.into(), one.held.mark.0.into()];
        let ask = self.sql.kept.ask().give(owner).rows(ordered.iter().map(row).collect());
        ask.all(conn).await?.iter().map(|row| rows::shard(row, 0)).collect()
    }

    async fn hand_over(
        &self,
        conn: &mut MySqlConnection,
        owner: &str,
        until: Millis,
        grants: &[Grant],
    ) -> Result<(), Fault> {
        let mut ordered: Vec<&Grant> = grants.iter().collect();
        ordered.sort_by_key(|grant| grant.shard);
        let shards: Vec<u16> = ordered.iter().map(|grant| grant.shard).collect();
        self.open_leases(conn, None, &shards, &[]).await?;
        let row = |grant: &&Grant| {
            vec![grant.shard.into(), grant.mark.0.into(), grant.heir.clone().into()]
        };
        let ask = self.sql.hand_over.ask().give(owner).give(until.0);
        ask.rows(ordered.iter().map(row).collect()).run(&mut *conn).await?;
        self.mark(conn, &shards).await
    }

    async fn attend(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        owner: &str,
        until: Millis,
        lease: i64,
    ) -> Result<Vec<Member>, Fault> {
        self.sql.attend.ask().give(owner).give(until.0).run(&mut *conn).await?;
        let mut members = Vec::new();
        for row in self.sql.members.ask().give(now).give(lease).all(conn).await? {
            let shards = usize::try_from(rows::int(&row, 1)?).unwrap_or(usize::MAX);
            members.push(Member { name: rows::text(&row, 0)?.to_owned(), shards });
        }
        Ok(members)
    }

    async fn depart(&self, conn: &mut MySqlConnection, owner: &str) -> Result<(), Fault> {
        self.sql.depart.ask().give(owner).run(conn).await?;
        Ok(())
    }
}
