//! Giving rows up that are no events, so that they stop nobody.

use event::{Moment, Shelf};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::moves::End;
use super::pick::Pick;

impl Pick<'_> {
    /// Gives up what was found to be no event.
    pub(super) async fn bury<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<(), Fault> {
        for shelf in [Shelf::Hot, Shelf::Later] {
            let bad = self.bad.iter().filter(|(address, ..)| address.shelf == shelf);
            let ends: Vec<End<(i32, String)>> = bad
                .map(|(address, attempt, cause)| {
                    let moment = Moment { at: self.now, attempt: *attempt, cause: cause.clone() };
                    let trail = serde_json::to_string(&[moment]).expect("a cause is always JSON");
                    let attempts = i32::try_from(*attempt).unwrap_or(i32::MAX);
                    End { address: *address, said: (attempts, trail) }
                })
                .collect();
            if !ends.is_empty() {
                base.db.dead(conn, shelf, &ends, self.now).await?;
            }
        }
        Ok(())
    }
}
