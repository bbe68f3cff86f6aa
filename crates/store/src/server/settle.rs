//! Settling: the tallies first, then each row to where its outcome takes it, by primary key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Address, EventId, Fence, Millis, Moment, Outcome, Settled, Settlement, Shelf, StoreError,
};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::lane::Asks;
use super::moves::{End, Moving};
use super::together::{Lead, ROWS, Turn, Turned, take_turn};
use super::work::{Commit, Scope, Work};
use crate::own::Holding;

/// The rows whose outcomes are being written down: no outcome is written twice.
pub(super) type Ending = hashbrown::HashSet<Address>;

/// How often a settlement waits for a claim that was asked for and has not begun.
const PATIENCE: u32 = 4;

/// How long a settlement waits for a claim at the most, whatever keeps that one.
const LONGEST: Duration = Duration::from_secs(1);

/// Settles for one lane, together with the others who wait to.
pub(super) async fn settle<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    ends: Vec<Settlement>,
) -> Result<Settled, StoreError> {
    let _settling = base.settling.read().await;
    let alone = puts_back(&ends);
    let turn = match asks.settlements.ask(ends, &asks.writing).await {
        Turn::Lead(lead) if !alone => join_claim(asks, lead).await,
        turn => turn,
    };
    let mut lead = match turn {
        Turn::Told(settled) => return settled,
        Turn::Lead(lead) => lead,
    };
    lead.gather().await;
    loop {
        let mut groups = lead.questions(few());
        let groups: Vec<Vec<Settlement>> = groups.drain(..).map(std::mem::take).collect();
        if groups.is_empty() {
            return lead.told().await;
        }
        let company = groups.len();
        let settled = settle_all(base, lane, groups).await;
        lead.expect(if asks.is_busy() { company } else { 0 });
        if let Some(settled) = lead.tell(settled) {
            return settled;
        }
    }
}

/// Waits for a claim that takes the settlement along, where one is likely to come.
async fn join_claim<'a, D: Dialect>(
    asks: &Asks<D>,
    mut lead: Lead<'a, Vec<Settlement>, Settled>,
) -> Turn<'a, Vec<Settlement>, Settled> {
    let mut patience = PATIENCE;
    while asks.joins_claim() {
        lead = match lead.told_until(asks.claims.company().until()).await {
            Turn::Lead(lead) => lead,
            told @ Turn::Told(_) => return told,
        };
        if !asks.settlements.is_asked() {
            // A claim has taken it along.
            return Turn::Told(lead.told().await);
        }
        let in_time = lead.since.elapsed() < LONGEST;
        match (asks.takes_along(), asks.claims.is_asked()) {
            (true, _) if in_time => {}
            (false, true) if patience > 1 => patience -= 1,
            (false, true) => break,
            _ => {
                asks.went_apart();
                break;
            }
        }
    }
    Turn::Lead(lead)
}

/// Welcomes as many outcomes as are settled together.
fn few() -> impl FnMut(&Vec<Settlement>) -> bool {
    let mut rows = 0;
    move |ends| {
        rows += ends.len();
        rows <= ROWS
    }
}

/// Welcomes outcomes that a claim may take along. Those that put hot rows back open leases as well,
/// and not in the order in which the claim has: who waits for one of them would be waited for.
pub(super) fn joining() -> impl FnMut(&Vec<Settlement>) -> bool {
    let mut few = few();
    move |ends| few(ends) && !puts_back(ends)
}

/// Tells whether hot rows stay where they are, so that their lease rows must not name them.
fn puts_back(ends: &[Settlement]) -> bool {
    ends.iter().any(is_put_back)
}

fn is_put_back(end: &Settlement) -> bool {
    matches!(end.outcome, Outcome::Release { .. }) && end.address.shelf == Shelf::Hot
}

/// Settles everything that some ask for at the same time. Answers each of them.
async fn settle_all<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    groups: Vec<Vec<Settlement>>,
) -> Result<Vec<Settled>, StoreError> {
    let mut settling = Settling::new(base, lane, groups);
    match settling.write(base).await {
        Ok(kept) => {
            let settled = settling.end(base, kept);
            if let Ok(turn) = base.turn.try_acquire() {
                take_in(base, &turn);
            }
            Ok(settled)
        }
        Err(error) => {
            settling.let_go(base, &take_turn(&base.turn).await);
            Err(error)
        }
    }
}

/// Takes in the outcomes that were written down. Whoever changes or reads what the relay holds does
/// so first: outcomes that are written down while a claim offers rows that it read before wait for
/// its end, and nobody waits with them.
pub(super) fn take_in<D: Dialect>(base: &Base<D>, _: &Turned<'_>) {
    let outcomes = std::mem::take(&mut *base.outcomes());
    outcomes.into_iter().for_each(|(settling, kept)| settling.apply(base, &kept));
}

/// The shards that were still ours, and the clock.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) shards: BTreeSet<u16>,
    pub(crate) now: Millis,
}

/// A shard as its tally must show it, and how many of it were published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owned {
    pub(crate) shard: u16,
    pub(crate) mark: Fence,
    pub(crate) done: i64,
}

pub(super) struct Settling {
    era: u64,
    lane: usize,
    ends: Vec<Settlement>,
    /// How many of them each who asks brought.
    counts: Vec<usize>,
    /// Which of them are in flight, each under the fence that it was given.
    fresh: Vec<bool>,
    /// The shards of those, with what their tallies must show.
    marks: BTreeMap<u16, Fence>,
    /// What each of them had behind it.
    behind: Vec<(u32, Vec<Moment>)>,
    doubted: bool,
}

impl Settling {
    pub(super) fn new<D: Dialect>(
        base: &Base<D>,
        lane: usize,
        groups: Vec<Vec<Settlement>>,
    ) -> Settling {
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        let ends: Vec<Settlement> = groups.into_iter().flatten().collect();
        let holding = base.holding();
        let era = holding.era;
        let mut ending = base.ending();
        let (mut marks, mut behind) = (BTreeMap::new(), Vec::with_capacity(ends.len()));
        let fresh = |end: &Settlement| {
            let held = holding.held(end.address.shard);
            let kept = holding.desks[lane].in_flight(end.address, end.fence);
            let fresh = held.filter(|_| kept.is_some() && ending.insert(end.address));
            behind
                .push(kept.map(|(attempts, trail)| (attempts, trail.to_vec())).unwrap_or_default());
            marks.extend(fresh.map(|held| (end.address.shard, held.mark)));
            fresh.is_some()
        };
        let fresh = ends.iter().map(fresh).collect();
        Settling { era, lane, ends, counts, fresh, marks, behind, doubted: false }
    }

    /// Writes the outcomes down by themselves.
    pub(super) async fn write<D: Dialect>(&mut self, base: &Base<D>) -> Result<Kept, StoreError> {
        match self.fresh.contains(&true) {
            true => base.work(self).await,
            false => Ok(Kept::default()),
        }
    }

    /// Ends what was written down; it is to be taken in. Answers each who asked.
    pub(super) fn end<D: Dialect>(self, base: &Base<D>, kept: Kept) -> Vec<Settled> {
        let settled = self.answers(&kept);
        base.outcomes().push((self, kept));
        settled
    }

    /// Tells whether it may or may not have been written down.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    fn fresh(&self) -> impl Iterator<Item = (&Settlement, &(u32, Vec<Moment>))> {
        let ends = self.ends.iter().zip(&self.behind).zip(&self.fresh);
        ends.filter(|(_, fresh)| **fresh).map(|(end, _)| end)
    }

    /// Tells whether all of it was published, and none of it ever refused.
    fn is_plain(&self) -> bool {
        self.fresh().all(|(end, _)| {
            matches!(end.outcome, Outcome::Done(_)) && end.address.shelf == Shelf::Hot
        })
    }

    /// Returns what the tallies must show, and how many were published.
    fn owned(&self) -> Vec<Owned> {
        let mut done: BTreeMap<u16, i64> = BTreeMap::new();
        for (end, _) in self.fresh().filter(|(end, _)| matches!(end.outcome, Outcome::Done(_))) {
            *done.entry(end.address.shard).or_default() += 1;
        }
        let owned = |(shard, mark): (&u16, &Fence)| {
            let done = done.get(shard).copied().unwrap_or(0);
            Owned { shard: *shard, mark: *mark, done }
        };
        self.marks.iter().map(owned).collect()
    }

    /// Settles what was published at one stroke.
    async fn stroke<D: Dialect>(&self, base: &Base<D>, conn: &mut D::Conn) -> Result<Kept, Fault> {
        let end = |(end, _): (&Settlement, _)| match &end.outcome {
            Outcome::Done(receipt) => {
                Some(End { address: end.address, said: receipt.broker_id.clone() })
            }
            _ => None,
        };
        let rows: Vec<End<Option<String>>> = self.fresh().filter_map(end).collect();
        let (now, owned) = (base.now(), self.owned());
        base.db.stroke(conn, now, &base.owner, &owned, &rows, base.history).await
    }

    /// Asks the tallies which shards nobody has taken since.
    async fn open<D: Dialect>(&self, base: &Base<D>, conn: &mut D::Conn) -> Result<Kept, Fault> {
        // Rows that leave the hot table need not be unnamed; those that stay must be.
        let back = self.fresh().filter(|(end, _)| is_put_back(end));
        let back: Vec<i64> = back.map(|(end, _)| end.address.number).collect();
        base.db.open(conn, base.now(), &base.owner, &self.owned(), &back).await
    }

    /// Answers each who asked.
    fn answers(&self, kept: &Kept) -> Vec<Settled> {
        let mut ends = self.ends.iter().zip(&self.fresh);
        let settled = self.counts.iter().map(|count| {
            let ends = ends.by_ref().take(*count);
            let stale =
                ends.filter(|(end, fresh)| !*fresh || !kept.shards.contains(&end.address.shard));
            let stale: Vec<EventId> = stale.map(|(end, _)| end.id).collect();
            Settled { settled: count - stale.len(), stale }
        });
        settled.collect()
    }

    /// Tells whether a shard is still held as it was.
    fn is_ours(&self, holding: &Holding, shard: u16) -> bool {
        let held = holding.held(shard).map(|held| held.mark);
        self.era == holding.era && held == self.marks.get(&shard).copied()
    }

    /// Takes in what was settled, and drops the shards that were lost.
    fn apply<D: Dialect>(self, base: &Base<D>, kept: &Kept) {
        let mut holding = base.holding();
        for shard in self.marks.keys().filter(|shard| !kept.shards.contains(shard)) {
            if self.is_ours(&holding, *shard) {
                holding.lose(*shard);
            }
        }
        let mut ending = base.ending();
        for (end, _) in self.fresh() {
            ending.remove(&end.address);
            if kept.shards.contains(&end.address.shard) && self.is_ours(&holding, end.address.shard)
            {
                let desk = &mut holding.desks[self.lane];
                desk.settle(end.address, end.fence, &end.outcome, kept.now);
            }
        }
    }

    /// Drops the shards of which it is in doubt what was settled.
    pub(super) fn let_go<D: Dialect>(self, base: &Base<D>, turn: &Turned<'_>) {
        take_in(base, turn);
        let (mut holding, mut ending) = (base.holding(), base.ending());
        for (end, _) in self.fresh() {
            ending.remove(&end.address);
        }
        for shard in self.marks.keys().filter(|_| self.doubted) {
            if self.is_ours(&holding, *shard) {
                holding.lose(*shard);
            }
        }
    }
}

#[async_trait]
impl<D: Dialect> Work<D> for Settling {
    type Out = Kept;
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        if self.is_plain() && D::ONE_STROKE { Scope::Statement } else { Scope::Transaction }
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Kept, Fault> {
        if self.is_plain() {
            return self.stroke(base, conn).await;
        }
        let kept = self.open(base, conn).await?;
        let mut moves = Moving::new(kept.now, false);
        for (end, (attempts, trail)) in self.fresh() {
            if kept.shards.contains(&end.address.shard) {
                moves.add(end, *attempts, trail);
            }
        }
        moves.write(base, conn).await?;
        Ok(kept)
    }

    fn era(&self) -> Option<u64> {
        Some(self.era)
    }

    fn doubted(&mut self) {
        self.doubted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::MySql;

    type Asking<'a> = Lead<'a, Vec<Settlement>, Settled>;

    /// Asks to settle a row.
    async fn ask(asks: &Asks<MySql>, outcome: Outcome) -> Asking<'_> {
        let address = Address { shelf: Shelf::Hot, shard: 0, number: 1 };
        let end = Settlement { id: EventId::new(), address, fence: Fence(1), outcome };
        match asks.settlements.ask(vec![end], &asks.writing).await {
            Turn::Lead(lead) => lead,
            Turn::Told(_) => panic!("nobody else is there"),
        }
    }

    fn done() -> Outcome {
        Outcome::Done(event::Receipt { broker_id: None })
    }

    /// Answers as a claim does that takes settlements along. Returns how many those were.
    fn take_along(asks: &Asks<MySql>) -> usize {
        let mut taken = asks.settlements.take(joining());
        let settled: Vec<Settled> = taken.questions().iter().map(|_| Settled::default()).collect();
        let count = settled.len();
        taken.tell(Ok(settled));
        count
    }

    #[tokio::test]
    async fn a_settlement_waits_for_the_claim_that_takes_it_along() {
        let asks = Asks::<MySql>::default();
        asks.claimed(true);
        let under_way = asks.take_along();
        let joined = join_claim(&asks, ask(&asks, done()).await);
        tokio::pin!(joined);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut joined).await;
        assert!(early.is_err(), "a claim is under way");
        assert_eq!(take_along(&asks), 1);
        drop(under_way);
        assert!(matches!(joined.await, Turn::Told(Ok(_))));
        assert!(asks.come_together(), "and the next one does so too");
    }

    #[tokio::test]
    async fn a_settlement_waits_for_no_claim_where_none_comes() {
        let asks = Asks::<MySql>::default();
        assert!(matches!(join_claim(&asks, ask(&asks, done()).await).await, Turn::Lead(_)));
        assert!(!asks.come_together(), "the last claim found little");
        take_along(&asks);
        asks.claimed(true);
        assert!(asks.come_together());
        assert!(matches!(join_claim(&asks, ask(&asks, done()).await).await, Turn::Lead(_)));
        assert!(!asks.come_together(), "one waited in vain");
    }

    #[tokio::test]
    async fn a_claim_takes_no_settlement_along_that_puts_rows_back() {
        let asks = Asks::<MySql>::default();
        let release = Outcome::Release { after: Duration::ZERO };
        let mut lead = ask(&asks, release).await;
        assert_eq!(take_along(&asks), 0);
        assert_eq!(lead.questions(few()).len(), 1, "it waits in its place");
    }

    #[tokio::test]
    async fn a_claim_that_hangs_keeps_no_settlement_for_long() {
        let asks = Asks::<MySql>::default();
        asks.claimed(true);
        let _hangs = asks.take_along();
        let joined =
            tokio::time::timeout(10 * LONGEST, join_claim(&asks, ask(&asks, done()).await)).await;
        assert!(matches!(joined, Ok(Turn::Lead(_))));
        assert!(!asks.come_together());
    }
}
