//! A claim of a competing relay: one short transaction, whatever it finds.

use std::collections::HashMap;

use async_trait::async_trait;
use event::{Claim, Fence, Millis, Moment, StoreError, Want};

use super::super::base::Base;
use super::super::claim::Stage;
use super::super::dialect::Dialect;
use super::super::fault::Fault;
use super::super::pick::Pick;
use super::super::sharing::attend;
use super::super::work::{Commit, Scope, Work};
use super::adopt::{adopt, unchanged};
use super::lane::Lane;
use super::see::{Seeing, Seen, longest};
use super::win::Rivals;
use crate::own::{Held, Passed};

/// What a claim took, and until when.
pub(super) struct Taken {
    pub(super) claims: Vec<Claim>,
    /// What its rows had behind them, by number.
    pub(super) trails: HashMap<i64, Vec<Moment>>,
    pub(super) now: Millis,
    pub(super) until: Millis,
}

/// Claims for one lane.
pub(super) async fn claim<D: Dialect>(
    lane: &Lane<D>,
    want: Want,
) -> Result<Vec<Claim>, StoreError> {
    let _turn = lane.turn.lock().await;
    let base = &*lane.base;
    adopt(base, want.lease).await?;
    let mut seeing = Seeing { lane: lane.index, lease: want.lease, start: &lane.start };
    let seen = base.work(&mut seeing).await?;
    attend(base, seen.glance.now, want.lease).await?;
    if !seen.stirs() {
        lane.pace().claimed(0);
        return Ok(Vec::new());
    }
    let shards: Vec<u16> = seen.waits.iter().map(|waits| waits.shard).collect();
    if lane.pace().full() {
        let mut holding = base.holding();
        let desk = &mut holding.desks[lane.index];
        shards.iter().for_each(|shard| desk.part(*shard).passed = Passed::default());
    }
    let taken = base.work(&mut Claiming { lane: lane.index, want, seen, tried: false }).await;
    match taken {
        Ok(taken) => {
            lane.pace().claimed(taken.claims.len());
            Ok(lane.keep(taken))
        }
        Err(error) => {
            start_anew(base, lane.index, shards);
            Err(error)
        }
    }
}

/// Starts a lane again with nothing, where it is in doubt how far it has looked.
fn start_anew<D: Dialect>(base: &Base<D>, lane: usize, shards: impl IntoIterator<Item = u16>) {
    let mut holding = base.holding();
    shards.into_iter().for_each(|shard| holding.desks[lane].clear(shard));
}

struct Claiming<D: Dialect> {
    lane: usize,
    want: Want,
    seen: Seen<D>,
    /// Whether it was begun before, and had to yield to another claim.
    tried: bool,
}

impl<D: Dialect> Claiming<D> {
    /// Says where there may be what.
    fn stages(&self, now: Millis) -> Vec<Stage> {
        let nobody = Held { mark: Fence::default(), newest: Fence::default() };
        let stage = |waits: &super::see::Waits| Stage {
            shard: waits.shard,
            held: nobody,
            front: 0,
            take: false,
            hot: waits.ahead,
            later: self.seen.astray || waits.due.is_some_and(|due| due <= now),
            lapses: false,
            runs_down: false,
        };
        self.seen.waits.iter().map(stage).collect()
    }
}

#[async_trait]
impl<D: Dialect> Work<D> for Claiming<D> {
    type Out = Taken;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        Scope::Transaction
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Taken, Fault> {
        if std::mem::replace(&mut self.tried, true) {
            start_anew(base, self.lane, self.seen.waits.iter().map(|waits| waits.shard));
        }
        let now = unchanged(base, conn).await?;
        if self.seen.astray {
            base.db.return_later(conn, now, longest(self.want.lease)).await?;
        }
        let mut stages = self.stages(now);
        let mut pick = Pick::new(self.lane, self.want, now, &mut stages);
        pick.rivals = Some(Rivals::new(now));
        pick.take(base, conn, &self.seen.glance).await?;
        let Pick { claims, until, rivals, .. } = pick;
        let Rivals { missed, trails, .. } = rivals.expect("this claim has rivals");
        let mut holding = base.holding();
        for (shard, seq) in missed {
            D::missed(holding.desks[self.lane].part(shard), seq);
        }
        Ok(Taken { claims, trails, now, until })
    }
}
