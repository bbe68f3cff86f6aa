//! Claiming later rows that are due: the attempt is counted here, and the lease is their due time.

use std::collections::HashMap;

use event::{Address, Claim, Outcome, Shelf};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::error::Fault;
use super::glance::Glance;
use super::pick::Pick;
use super::rows;

impl Pick<'_> {
    /// Claims later rows that are due.
    pub(super) async fn later(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
        glance: &Glance,
    ) -> Result<(), Fault> {
        let shards = self.stages.iter().filter(|stage| stage.later).map(|stage| stage.shard);
        let shards: Vec<u16> = shards.collect();
        if shards.is_empty() {
            return Ok(());
        }
        self.stirred.extend(&shards);
        let picked = self.sift(base, conn, &shards, glance).await?;
        if picked.is_empty() {
            return Ok(());
        }
        if self.rivals.is_some() {
            return self.win_later(base, conn, picked).await;
        }
        let numbers: Vec<i64> = picked.iter().map(|due| due.number).collect();
        let fences: Vec<i64> =
            picked.iter().map(|due| self.stage(due.shard).held.newest.0).collect();
        let query = base.sql.claim_later.query().bind(numbers).bind(fences).bind(self.until.0);
        let mut claimed = HashMap::with_capacity(picked.len());
        for row in query.fetch_all(&mut *conn).await? {
            claimed.insert(row.try_get::<i64, _>(0)?, row);
        }
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for due in picked {
            let row = claimed.remove(&due.number).expect("nobody else moves rows of an open shard");
            let attempt = u32::try_from(row.try_get::<i32, _>(9)?).unwrap_or(u32::MAX);
            let unexplained = u32::try_from(row.try_get::<i32, _>(11)?).unwrap_or(u32::MAX);
            let address = Address { shelf: Shelf::Later, shard: due.shard, number: due.number };
            let fence = self.stage(due.shard).held.newest;
            match rows::event(&row, 1)? {
                Ok(event) => {
                    let due = due.due;
                    let claim = Claim { event, address, fence, due, attempt, unexplained };
                    desk.keep(&claim, self.until, rows::trail(&row, 10)?);
                    self.claims.push(claim);
                }
                Err(cause) => {
                    desk.settle(address, fence, &Outcome::Dead(cause.clone()), self.now);
                    self.bad.push((address, attempt, cause));
                }
            }
        }
        Ok(())
    }
}
