//! One look at the clock and what waits. It writes nothing.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use event::{Leased, Millis};

use super::super::base::Base;
use super::super::dialect::{Claims, Dialect};
use super::super::fault::Fault;
use super::super::glance::Glance;
use super::super::work::{Commit, Work};
use crate::compete::Start;

/// What waits in one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) shard: u16,
    /// Whether hot rows are ahead of where the lane has looked, or may be.
    pub(crate) ahead: bool,
    /// The earliest due time of a later row.
    pub(crate) due: Option<Millis>,
}

/// What one look showed.
pub(crate) struct Seen<D: Claims> {
    pub(crate) glance: Glance<D>,
    /// Every shard, in the order in which this lane takes from them.
    pub(crate) waits: Vec<Waits>,
    /// Whether a claim seems to last longer than any can.
    pub(crate) astray: bool,
}

impl<D: Claims> Seen<D> {
    /// Tells whether there may be something to claim.
    pub(super) fn stirs(&self) -> bool {
        let due = |waits: &Waits| waits.due.is_some_and(|due| due <= self.glance.now);
        self.astray || self.waits.iter().any(|waits| waits.ahead || due(waits))
    }
}

/// One lane's look.
pub(super) struct Seeing<'a> {
    pub(super) lane: usize,
    pub(super) lease: Duration,
    /// Where it begins.
    pub(super) start: &'a Mutex<Start>,
}

/// Returns how long a claim can last, as the statements take it.
pub(super) fn longest(lease: Duration) -> i64 {
    i64::try_from(Leased::Shard.longest(lease).as_millis()).unwrap_or(i64::MAX / 4)
}

#[async_trait]
impl<D: Dialect> Work<D> for Seeing<'_> {
    type Out = Seen<D>;
    const COMMIT: Commit = Commit::Quick;

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Seen<D>, Fault> {
        let all = base.shards(conn).await?;
        let order = self.start.lock().expect("no rule panics while the start is open").turn(all);
        let order: Vec<u16> = order.collect();
        D::see(base, conn, self.lane, &order, longest(self.lease)).await
    }
}
