//! Giving rows up that are no events, so that they stop nobody.

use event::{Address, Cause, Moment, Shelf};
use sqlx::PgConnection;

use super::base::Base;
use super::error::Fault;
use super::glance::number;
use super::pick::Pick;

impl Pick<'_> {
    /// Gives up what was found to be no event.
    pub(super) async fn bury(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        for shelf in [Shelf::Hot, Shelf::Later] {
            let bad: Vec<_> =
                self.bad.iter().filter(|(address, ..)| address.shelf == shelf).collect();
            if bad.is_empty() {
                continue;
            }
            let shards: Vec<i16> = bad.iter().map(|(address, ..)| number(address.shard)).collect();
            let numbers: Vec<i64> = bad.iter().map(|(address, ..)| address.number).collect();
            let attempts: Vec<i32> = bad
                .iter()
                .map(|(_, attempt, _)| i32::try_from(*attempt).unwrap_or(i32::MAX))
                .collect();
            let trail = |(_, attempt, cause): &&(Address, u32, Cause)| {
                let moment = Moment { at: self.now, attempt: *attempt, cause: cause.clone() };
                serde_json::to_string(&[moment]).expect("a cause is always JSON")
            };
            let trails: Vec<String> = bad.iter().map(trail).collect();
            let query = match shelf {
                Shelf::Hot => base.sql.dead_hot.query().bind(shards),
                Shelf::Later => base.sql.dead_later.query(),
            };
            let query = query.bind(numbers).bind(attempts).bind(trails).bind(self.now.0);
            query.execute(&mut *conn).await?;
        }
        Ok(())
    }
}
