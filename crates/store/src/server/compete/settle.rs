//! Settling under the fence of each row: what is not in flight in that claim any more is stale, and
//! unchanged.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use event::{Address, EventId, Fence, Millis, Outcome, Settled, Settlement, Shelf, StoreError};

use super::super::base::Base;
use super::super::dialect::Dialect;
use super::super::fault::Fault;
use super::super::moves::Moving;
use super::super::together::{ROWS, Turn};
use super::super::work::{Commit, Scope, Terms, Work};
use super::lane::Lane;
use crate::compete::Out;

/// Writes outcomes down, together with those of the others who wait to.
pub(super) async fn settle<D: Dialect>(
    lane: &Lane<D>,
    ends: Vec<Settlement>,
) -> Result<Settled, StoreError> {
    let mut lead = match lane.settlements.ask(ends, &lane.writing).await {
        Turn::Told(settled) => return settled,
        Turn::Lead(lead) => lead,
    };
    loop {
        let mut rows = 0;
        let welcome = |ends: &Vec<Settlement>| {
            rows += ends.len();
            rows <= ROWS
        };
        let groups: Vec<Vec<Settlement>> =
            lead.questions(welcome).into_iter().map(std::mem::take).collect();
        if groups.is_empty() {
            return lead.told().await;
        }
        if let Some(settled) = lead.tell(settle_all(lane, &groups).await) {
            return settled;
        }
    }
}

/// Settles what some ask for at the same time. Answers each of them.
async fn settle_all<D: Dialect>(
    lane: &Lane<D>,
    groups: &[Vec<Settlement>],
) -> Result<Vec<Settled>, StoreError> {
    let mut settling = {
        let (era, flight) = lane.flight_now();
        let mut named = HashSet::new();
        let mut fresh = |end: &Settlement| {
            let out = flight.of(end).filter(|_| named.insert(end.address))?;
            Some((end.clone(), out.clone()))
        };
        let rows = groups.iter().flatten().filter_map(&mut fresh).collect();
        Settling { era, departs: false, rows }
    };
    let mut done = match settling.rows.is_empty() {
        true => HashSet::new(),
        false => lane.base.work(&mut settling).await?,
    };
    lane.end(&settling.rows, &done);
    let answer = |ends: &Vec<Settlement>| {
        let mut settled = Settled::default();
        for end in ends {
            // The first that names a row settles it.
            match done.remove(&(end.address, end.fence, end.id)) {
                true => settled.settled += 1,
                false => settled.stale.push(end.id),
            }
        }
        settled
    };
    Ok(groups.iter().map(answer).collect())
}

/// Puts everything that a lane has in flight back, as if it had not been claimed. Another lane of
/// the relay that goes on says again that it is there.
pub(super) async fn release<D: Dialect>(lane: &Lane<D>) -> Result<(), StoreError> {
    let _turn = lane.turn.acquire().await.expect("turns are taken until the end");
    let _writing = lane.writing.acquire().await.expect("turns are taken until the end");
    let mut settling = {
        let (era, flight) = lane.flight_now();
        let out = |end: Settlement| flight.of(&end).cloned().map(|out| (end, out));
        let rows = flight.back().into_iter().filter_map(out).collect();
        Settling { era, departs: true, rows }
    };
    if !lane.base.sharing().depart() && settling.rows.is_empty() {
        return Ok(());
    }
    let released = lane.base.work(&mut settling).await;
    lane.end(&settling.rows, &HashSet::new());
    released.map(drop)
}

/// What was settled: the row, in which claim, and its event.
pub(super) type Ended = HashSet<(Address, Fence, EventId)>;

/// Outcomes of rows in flight.
struct Settling {
    era: u64,
    rows: Vec<(Settlement, Out)>,
    /// Whether the relay says that it goes.
    departs: bool,
}

impl Settling {
    /// Takes hot rows out of flight. Returns those that were in flight in their claims, and the
    /// clock if a line was opened.
    async fn unname<D: Dialect>(
        &self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<(HashSet<Address>, Option<Millis>), Fault> {
        let mut shards: BTreeMap<u16, HashSet<(i64, Fence)>> = BTreeMap::new();
        for (end, _) in self.rows.iter().filter(|(end, _)| end.address.shelf == Shelf::Hot) {
            shards.entry(end.address.shard).or_default().insert((end.address.number, end.fence));
        }
        let mut still = HashSet::new();
        if shards.is_empty() {
            return Ok((still, None));
        }
        let named: Vec<u16> = shards.keys().copied().collect();
        let mut lines = base.db.hold_lines(conn, base.now(), &named).await?;
        let now = lines.first().map(|line| line.now);
        lines.retain_mut(|line| {
            let ended = line.unname(&shards[&line.shard]);
            let changed = !ended.is_empty();
            let (shelf, shard) = (Shelf::Hot, line.shard);
            still.extend(ended.into_iter().map(|number| Address { shelf, shard, number }));
            changed
        });
        if !lines.is_empty() {
            // What another turn has named for itself stays so.
            base.db.write_lines(conn, "", &lines).await?;
        }
        Ok((still, now))
    }

    /// Opens later rows. Returns those that nobody has claimed since.
    async fn still<D: Dialect>(
        &self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<HashSet<i64>, Fault> {
        let later = self.rows.iter().filter(|(end, _)| end.address.shelf == Shelf::Later);
        let mut later: Vec<(i64, Fence, EventId)> =
            later.map(|(end, _)| (end.address.number, end.fence, end.id)).collect();
        if later.is_empty() {
            return Ok(HashSet::new());
        }
        later.sort_unstable();
        base.db.still(conn, &later).await
    }
}

#[async_trait]
impl<D: Dialect> Work<D> for Settling {
    type Out = Ended;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction).of(self.era)
    }

    /// Returns what was settled.
    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Ended, Fault> {
        let (hot, now) = self.unname(base, conn).await?;
        let later = self.still(base, conn).await?;
        let now = match now {
            Some(now) => now,
            None => base.db.clock(conn, base.now()).await?,
        };
        let mut moving = Moving::new(now, true);
        let (mut ended, mut sent) = (HashSet::new(), 0);
        for (end, out) in &self.rows {
            let still = match end.address.shelf {
                Shelf::Hot => hot.contains(&end.address),
                Shelf::Later => later.contains(&end.address.number),
            };
            if still {
                moving.add(end, out.attempts, &out.trail);
                sent += usize::from(matches!(end.outcome, Outcome::Done(_)));
                ended.insert((end.address, end.fence, end.id));
            }
        }
        moving.write(base, conn).await?;
        if sent > 0 {
            // The tally that counts is opened last, and for the shortest time.
            let shard = base.counter % base.shards(conn).await?;
            base.db.count_sent(conn, shard, sent).await?;
        }
        if self.departs {
            base.db.depart(conn, &base.owner).await?;
        }
        Ok(ended)
    }
}
