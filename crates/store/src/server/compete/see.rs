//! One look at the clock and what waits. It writes nothing.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use event::{Fence, Leased, Millis};

use super::super::base::Base;
use super::super::dialect::{Claims, Dialect};
use super::super::fault::Fault;
use super::super::glance::Glance;
use super::super::work::{Commit, Scope, Terms, Work};
use crate::compete::Start;

/// What waits in one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) shard: u16,
    /// The fence of its line: the newest claim's.
    pub(crate) fence: Fence,
    /// When the first and the last claim end that have hot rows in flight.
    pub(crate) ends: Option<(Millis, Millis)>,
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
    /// Whether a claim of a later row seems to last longer than any can.
    pub(crate) astray: bool,
}

impl<D: Claims> Seen<D> {
    /// Tells whether there may be something to claim.
    pub(super) fn stirs(&self, lease: Duration) -> bool {
        let stirs = |waits: &Waits| waits.ahead || self.is_due(waits) || self.lapses(waits, lease);
        self.astray || self.waits.iter().any(stirs)
    }

    /// Tells whether a later row of a shard is due.
    pub(super) fn is_due(&self, waits: &Waits) -> bool {
        waits.due.is_some_and(|due| due <= self.glance.now)
    }

    /// Tells whether a claim of hot rows is over, or seems to last longer than any can.
    pub(super) fn lapses(&self, waits: &Waits, lease: Duration) -> bool {
        let runs = |until| Leased::Shard.runs(until, self.glance.now, lease);
        waits.ends.is_some_and(|(first, last)| !runs(first) || !runs(last))
    }

    /// Returns how long nothing can change by time alone.
    pub(super) fn rest(&self) -> Duration {
        let ends = self.waits.iter().filter_map(|waits| waits.ends.map(|(first, _)| first));
        let next = self.waits.iter().filter_map(|waits| waits.due).chain(ends).min();
        let rest = next.map_or(Duration::MAX, |next| next.since(self.glance.now));
        rest.max(Duration::from_millis(1))
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

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Seen<D>, Fault> {
        let all = base.shards(conn).await?;
        let order = self.start.lock().expect("no rule panics while the start is open").turn(all);
        let order: Vec<u16> = order.collect();
        D::see(base, conn, self.lane, &order, longest(self.lease)).await
    }
}
