//! Settling: the tallies first, then each row to where its outcome takes it, by primary key.

use std::collections::{BTreeMap, BTreeSet};

use event::{Address, Fence, Millis, Moment, Outcome, Settled, Settlement, Shelf, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::lane::Asks;
use super::portion::Portion;
use super::together::{ROWS, Turn, Turned, take_turn};
use crate::own::Holding;

/// The rows that are being moved.
#[derive(Default)]
pub(super) struct Ending {
    /// Those whose outcomes are being written down: no outcome is written twice.
    pub(super) settled: hashbrown::HashSet<Address>,
    /// Those that are being set down, because they have outlived their leases.
    pub(super) set_down: hashbrown::HashSet<Address>,
}

/// What one who asks is told.
#[derive(Default)]
pub(super) struct Told {
    settled: Settled,
    /// Those of the outcomes that it is too early to answer for: their rows are being set down.
    wait: Vec<Settlement>,
}

/// How many rows are worth a connection of their own.
const MANY: usize = 50;

/// Settles for one lane. An outcome whose row is being set down is stale only if that succeeds: it
/// waits for the end of it, and nobody else does.
pub(super) async fn settle<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    mut ends: Vec<Settlement>,
) -> Result<Settled, StoreError> {
    let _settling = base.settling.read().await;
    let mut settled = Settled::default();
    loop {
        let told = settle_once(base, lane, asks, ends).await?;
        settled.settled += told.settled.settled;
        settled.stale.extend(told.settled.stale);
        if told.wait.is_empty() {
            return Ok(settled);
        }
        ends = told.wait;
        drop(base.setting_down.lock().await);
    }
}

/// Settles together with the others who wait to.
async fn settle_once<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    ends: Vec<Settlement>,
) -> Result<Told, StoreError> {
    let mut lead = match asks.settlements.ask(ends, &asks.writing).await {
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

/// Welcomes as many outcomes as are settled together.
fn few() -> impl FnMut(&Vec<Settlement>) -> bool {
    let mut rows = 0;
    move |ends| {
        rows += ends.len();
        rows <= ROWS
    }
}

/// Tells whether a hot row stays where it is, so that its lease row must not name it.
pub(super) fn is_put_back(end: &Settlement) -> bool {
    matches!(end.outcome, Outcome::Release { .. }) && end.address.shelf == Shelf::Hot
}

/// Settles everything that some ask for at the same time. Answers each of them.
async fn settle_all<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    groups: Vec<Vec<Settlement>>,
) -> Result<Vec<Told>, StoreError> {
    let settling = Settling::new(base, lane, groups);
    let (kept, error) = settling.write(base).await;
    let settled = settling.end(base, kept);
    match error {
        None => {
            if let Ok(turn) = base.turn.try_acquire() {
                take_in(base, &turn);
            }
            Ok(settled)
        }
        Some(error) => {
            // What was not written down can be settled again at once.
            take_in(base, &take_turn(&base.turn).await);
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
    /// Those of which surely nothing was written down, so that all is as it was.
    pub(crate) unwritten: BTreeSet<u16>,
    pub(crate) now: Millis,
}

impl Kept {
    /// Adds what was kept of other shards.
    fn and(mut self, more: Kept) -> Kept {
        self.shards.extend(more.shards);
        self.unwritten.extend(more.unwritten);
        Kept { now: self.now.max(more.now), ..self }
    }
}

/// A shard as its tally must show it, and how many of it were published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owned {
    pub(crate) shard: u16,
    pub(crate) mark: Fence,
    pub(crate) done: i64,
}

/// How an outcome stands when it is to be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its row is in flight under the fence that it was given.
    Fresh,
    /// It is not, or another outcome is written down.
    Stale,
    /// It is, and is being set down.
    Waits,
}

pub(super) struct Settling {
    pub(super) era: u64,
    lane: usize,
    ends: Vec<Settlement>,
    /// How many of them each who asks brought.
    counts: Vec<usize>,
    /// How each of them stands.
    standing: Vec<Standing>,
    /// The shards of those that are fresh, with what their tallies must show.
    pub(super) marks: BTreeMap<u16, Fence>,
    /// What each of them had behind it.
    behind: Vec<(u32, Vec<Moment>)>,
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
        let standing = |end: &Settlement| {
            let kept = holding.desks[lane].in_flight(end.address, end.fence);
            behind
                .push(kept.map(|(attempts, trail)| (attempts, trail.to_vec())).unwrap_or_default());
            let Some(held) = holding.held(end.address.shard).filter(|_| kept.is_some()) else {
                return Standing::Stale;
            };
            if ending.set_down.contains(&end.address) {
                return Standing::Waits;
            }
            if !ending.settled.insert(end.address) {
                return Standing::Stale;
            }
            marks.insert(end.address.shard, held.mark);
            Standing::Fresh
        };
        let standing = ends.iter().map(standing).collect();
        Settling { era, lane, ends, counts, standing, marks, behind }
    }

    /// Writes the outcomes down. Many are written on two connections, each with shards of its own,
    /// because a server works for one connection on one core.
    async fn write<D: Dialect>(&self, base: &Base<D>) -> (Kept, Option<StoreError>) {
        if !self.standing.contains(&Standing::Fresh) {
            return (Kept::default(), None);
        }
        let (one, other) = self.halves(base.may_part());
        let (mut one, mut other) = (Portion::new(self, one), Portion::new(self, other));
        if other.is_empty() {
            let kept = base.work(&mut one).await;
            return one.judged(kept);
        }
        let (kept, more) = tokio::join!(base.work(&mut one), base.work(&mut other));
        let ((kept, error), (more, another)) = (one.judged(kept), other.judged(more));
        (kept.and(more), error.or(another))
    }

    /// Parts the shards, so that each half has about as many rows. Few are not parted.
    fn halves(&self, may_part: bool) -> (BTreeSet<u16>, BTreeSet<u16>) {
        let mut rows: BTreeMap<u16, usize> = BTreeMap::new();
        for (end, _) in self.fresh() {
            *rows.entry(end.address.shard).or_default() += 1;
        }
        let all = rows.values().sum::<usize>();
        let (mut one, mut other, mut sum) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (shard, rows) in rows {
            if may_part && 2 * sum >= all {
                other.insert(shard);
            } else {
                one.insert(shard);
                sum += rows;
            }
        }
        if sum < MANY || all - sum < MANY {
            one.append(&mut other);
        }
        (one, other)
    }

    /// Ends what was written down; it is to be taken in. Answers each who asked.
    pub(super) fn end<D: Dialect>(self, base: &Base<D>, kept: Kept) -> Vec<Told> {
        let told = self.answers(&kept);
        base.outcomes().push((self, kept));
        told
    }

    /// Returns what is in flight under the fence that it was given, with what it had behind it.
    pub(super) fn fresh(&self) -> impl Iterator<Item = (&Settlement, &(u32, Vec<Moment>))> {
        let ends = self.ends.iter().zip(&self.behind).zip(&self.standing);
        ends.filter(|(_, standing)| **standing == Standing::Fresh).map(|(end, _)| end)
    }

    /// Answers each who asked.
    fn answers(&self, kept: &Kept) -> Vec<Told> {
        let mut ends = self.ends.iter().zip(&self.standing);
        let told = self.counts.iter().map(|count| {
            let mut told = Told::default();
            for (end, standing) in ends.by_ref().take(*count) {
                match standing {
                    Standing::Waits => told.wait.push(end.clone()),
                    Standing::Fresh if kept.shards.contains(&end.address.shard) => {
                        told.settled.settled += 1;
                    }
                    Standing::Fresh | Standing::Stale => told.settled.stale.push(end.id),
                }
            }
            told
        });
        told.collect()
    }

    /// Tells whether a shard is still held as it was.
    fn is_ours(&self, holding: &Holding, shard: u16) -> bool {
        let held = holding.held(shard).map(|held| held.mark);
        self.era == holding.era && held == self.marks.get(&shard).copied()
    }

    /// Takes in what was settled, and drops the shards that were lost or are in doubt.
    fn apply<D: Dialect>(self, base: &Base<D>, kept: &Kept) {
        let mut holding = base.holding();
        let gone = |shard: &&u16| !kept.shards.contains(*shard) && !kept.unwritten.contains(*shard);
        for shard in self.marks.keys().filter(gone) {
            if self.is_ours(&holding, *shard) {
                holding.lose(*shard);
            }
        }
        let mut ending = base.ending();
        for (end, _) in self.fresh() {
            ending.settled.remove(&end.address);
            if kept.shards.contains(&end.address.shard) && self.is_ours(&holding, end.address.shard)
            {
                let desk = &mut holding.desks[self.lane];
                desk.settle(end.address, end.fence, &end.outcome, kept.now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::EventId;

    use super::*;

    /// Returns a settlement of so many rows of each shard, from 0 on.
    fn of(rows: &[usize]) -> Settling {
        let row = |(shard, rows): (usize, &usize)| {
            let shard = u16::try_from(shard).unwrap();
            (0..*rows).map(move |number| {
                let number = i64::try_from(number).unwrap();
                let address = Address { shelf: Shelf::Hot, shard, number };
                let outcome = Outcome::Done(event::Receipt { broker_id: None });
                Settlement { id: EventId::new(), created: None, address, fence: Fence(1), outcome }
            })
        };
        let ends: Vec<Settlement> = rows.iter().enumerate().flat_map(row).collect();
        let marks = ends.iter().map(|end| (end.address.shard, Fence(1))).collect();
        let standing = vec![Standing::Fresh; ends.len()];
        let behind = vec![(1, Vec::new()); ends.len()];
        Settling { era: 0, lane: 0, counts: vec![ends.len()], ends, standing, marks, behind }
    }

    #[test]
    fn shards_are_parted_where_each_half_is_worth_a_connection() {
        let halves = |rows: &[usize]| of(rows).halves(true);
        assert_eq!(halves(&[25, 25, 25, 25]), ([0, 1].into(), [2, 3].into()));
        assert_eq!(halves(&[400, 50]), ([0].into(), [1].into()));
        assert_eq!(halves(&[25, 25, 25, 24]), ([0, 1, 2, 3].into(), [].into()), "few rows");
        assert_eq!(halves(&[99, 1]), ([0, 1].into(), [].into()), "few in one of them");
        assert_eq!(halves(&[1_000]), ([0].into(), [].into()), "one shard");
        let alone = of(&[500, 500]).halves(false);
        assert_eq!(alone, ([0, 1].into(), [].into()), "no connection to spare");
    }
}
