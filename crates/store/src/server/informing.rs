//! Telling fresh hands which keys wait for another attempt: shard by shard and while no lease is
//! open, for there may be very many. Nobody but this relay makes or ends such rows where it holds
//! the lease, and a fresh hand has nothing in flight.

use async_trait::async_trait;
use event::{Cause, Code, Order, StoreError};

use super::base::Base;
use super::dialect::{Dialect, Holder};
use super::fault::Fault;
use super::stage::Stage;
use super::work::{Commit, Scope, Terms, Work};

/// Tells the hands of a lane in the shards of which a claim may take rows.
pub(super) async fn inform<D: Dialect>(
    base: &Base<D>,
    (era, lane): (u64, usize),
    stages: &[Stage],
) -> Result<(), StoreError> {
    let fresh: Vec<Stage> = {
        let mut holding = base.holding();
        let desk = &mut holding.desks[lane];
        // Where followers pass, nobody asks.
        let ordered = desk.lane.order == Order::Hold;
        let takes = stages.iter().filter(|stage| ordered && stage.takes());
        takes.filter(|stage| !desk.part(stage.shard).informed).copied().collect()
    };
    for Stage { shard, held, .. } in fresh {
        let holders = base.work(&mut Informing { era, shard }).await?;
        let mut holding = base.holding();
        if holding.held(shard).is_none_or(|now| now.mark != held.mark) {
            let detail = "a shard was let go while its retries were read";
            return Err(StoreError::Down(Cause::new(Code::StoreBusy, detail)));
        }
        let desk = &mut holding.desks[lane];
        for Holder { number, birth, key, topic } in holders {
            if desk.lane.topics.take(&topic) {
                desk.part(shard).hand.hold(Some(&key), birth, number);
            }
        }
        desk.part(shard).informed = true;
    }
    Ok(())
}

struct Informing {
    era: u64,
    shard: u16,
}

#[async_trait]
impl<D: Dialect> Work<D> for Informing {
    type Out = Vec<Holder>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement).of(self.era)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Vec<Holder>, Fault> {
        base.db.holders(conn, self.shard).await
    }
}
