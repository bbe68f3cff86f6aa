//! Reading hot rows: nothing is written for them but their names in the lease row.

use std::collections::BTreeMap;

use event::{Address, Claim, Event, Sequence, Shelf};

use super::base::Base;
use super::dialect::{Claims, Dialect};
use super::fault::Fault;
use super::pick::Pick;
use super::stage::Stage;
use crate::own::Holding;

/// How many hot rows a claim looks at in vain, at the most; the cursors go on from there.
const IN_VAIN: i64 = 20_000;
/// The same for a claim that keeps others from a line meanwhile, once it has taken some.
const IN_VAIN_OPEN: i64 = 500;

/// What one look at the hot rows showed.
pub(crate) struct Shown<D: Claims> {
    /// The rows, the oldest first, with number and shard.
    pub(crate) line: Vec<(i64, u16, D::Row)>,
    pub(crate) seen: D::Seen,
    /// Where the look at each shard was to begin.
    pub(crate) from: BTreeMap<u16, i64>,
    /// Whether there may be more.
    pub(crate) cut: bool,
}

/// What a look at the hot rows was for one shard.
pub(crate) struct Sighted {
    /// Where it was to begin.
    pub(crate) from: i64,
    /// Where the cursor stood.
    pub(crate) before: i64,
    /// The last row of the shard that was offered, if one was, and if any was shown.
    pub(crate) shown: Option<Option<i64>>,
    /// The last row of any shard that was offered.
    pub(crate) reached: Option<i64>,
    /// Whether there may be more.
    pub(crate) open: bool,
}

impl Pick<'_> {
    /// Takes hot rows.
    pub(super) async fn hot<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<(), Fault> {
        if self.room.closed || !self.stages.iter().any(|stage| stage.hot) {
            return Ok(());
        }
        let mut looked = 0;
        while self.wanted() > 0 && looked < self.in_vain() {
            let chunk = i64::try_from(self.wanted()).unwrap_or(i64::MAX);
            let chunk = if looked == 0 { chunk } else { chunk.max(256) };
            let mut hot: Vec<&Stage> = self.stages.iter().filter(|stage| stage.hot).collect();
            hot.sort_by_key(|stage| stage.front);
            let shards: Vec<u16> = hot.into_iter().map(|stage| stage.shard).collect();
            let shown = match self.rivals {
                Some(_) => D::candidates(base, conn, self.lane, &shards, chunk).await?,
                None => D::look(base, conn, self.lane, &shards, chunk).await?,
            };
            looked += shown.line.len() as i64;
            self.cut = shown.cut;
            self.full = self.offer(base, shown)?;
            if self.full || !self.cut {
                break;
            }
        }
        Ok(())
    }

    /// Returns how far the claim looks.
    fn in_vain(&self) -> i64 {
        if self.rivals.is_some() && self.taken() > 0 { IN_VAIN_OPEN } else { IN_VAIN }
    }

    /// Offers what one look showed. Returns whether no more should be looked at.
    fn offer<D: Dialect>(&mut self, base: &Base<D>, shown: Shown<D>) -> Result<bool, Fault> {
        let Shown { line, seen, from, cut } = shown;
        let mut holding = base.holding();
        let desk = &holding.desks[self.lane];
        let met = |(shard, from): (u16, i64)| Met {
            shard,
            from,
            before: desk.cursor(shard),
            last: None,
            stirs: false,
            taken: false,
        };
        let mut met: Vec<Met> = from.into_iter().map(met).collect();
        let (mut stopped, mut reached) = (false, None);
        for (seq, shard, row) in line {
            let of = met.binary_search_by_key(&shard, |met| met.shard);
            let of = &mut met[of.expect("only shards that were looked at are shown")];
            of.last.get_or_insert_default();
            of.stirs |= seq > of.before;
            stopped = stopped || !self.take_hot::<D>(&mut holding, &row, seq, of)?;
            if !stopped {
                of.last = Some(Some(seq));
                reached = Some(seq);
                D::passed(holding.desks[self.lane].part(shard), seq);
            }
        }
        for Met { shard, from, before, last: shown, stirs, taken } in met {
            self.stirred.extend((stirs || taken).then_some(shard));
            self.changed.extend(taken.then_some(shard));
            // Competing relays each have an order of their own.
            if let (Some(last), None) = (shown.flatten(), &self.rivals) {
                self.stage_mut(shard).front = last;
            }
            let sighted = Sighted { from, before, shown, reached, open: cut || stopped };
            D::saw(holding.desks[self.lane].part(shard), &seen, &sighted);
        }
        Ok(stopped)
    }

    /// Looks at one hot row. Returns `false` when no more should be looked at.
    fn take_hot<D: Dialect>(
        &mut self,
        holding: &mut Holding,
        row: &D::Row,
        seq: i64,
        of: &mut Met,
    ) -> Result<bool, Fault> {
        if self.taken() == self.room.want.limit && !self.goes_on(holding) {
            return Ok(false);
        }
        let Met { shard, before, .. } = *of;
        let rival = self.rivals.as_ref().map(|rivals| rivals.fence(shard, seq));
        if rival == Some(None) {
            holding.desks[self.lane].part(shard).hand.skip(seq);
            return Ok(true);
        }
        let desk = &mut holding.desks[self.lane];
        if !desk.lane.topics.take(D::topic(row)?) {
            desk.part(shard).hand.skip(seq);
            return Ok(true);
        }
        let address = Address { shelf: Shelf::Hot, shard, number: seq };
        let event: Event = match D::event(row)? {
            Ok(event) => Event { sequence: Sequence::of(seq), ..event },
            Err(cause) => {
                desk.part(shard).hand.skip(seq);
                self.bad.push((address, 0, cause));
                return Ok(true);
            }
        };
        let size = event.payload.len();
        // A look back meets rows that wait, or are in flight: they need no room.
        let key = event.key.as_deref();
        let needs_room =
            seq > before || rival.is_some() || desk.part(shard).takes_hot(address, key, before);
        if needs_room && !self.room.fits(size, self.taken()) && !self.goes_on(holding) {
            return Ok(false);
        }
        let part = holding.desks[self.lane].part(shard);
        let fence = if let (Some(fence), Some(rivals)) = (rival.flatten(), &mut self.rivals) {
            part.hand.skip(seq);
            rivals.took(shard, seq);
            fence
        } else if part.offer_hot(address, key, before) {
            of.taken = true;
            part.hand.fence()
        } else {
            return Ok(true);
        };
        let due = event.created;
        self.claims.push(Claim { event, address, fence, due, attempt: 1, unexplained: 0 });
        self.room.fill(size);
        Ok(true)
    }
}

/// What one look has met of one shard.
struct Met {
    shard: u16,
    /// Where the look was to begin.
    from: i64,
    /// Where the cursor stood.
    before: i64,
    /// The last row that was offered, if one was, and if any was shown.
    last: Option<Option<i64>>,
    /// Whether rows were shown that stand beyond the cursor.
    stirs: bool,
    /// Whether rows were taken.
    taken: bool,
}
