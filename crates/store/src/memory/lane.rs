//! Claiming and settling, by the rules of `own`: the relay leases, the lane reads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Address, Aside, Claim, Event, Hand, Joins, Leased, Millis, Outcome, Place, Row, Sequence,
    Settled, Settlement, Shelf, Source, StoreError, Turns, Want,
};

use super::{Entry, Hands, State, Table};
use crate::Lane;

pub(super) struct MemoryLane {
    pub(super) table: Arc<Table>,
    pub(super) relay: u64,
    pub(super) hands: Hands,
    pub(super) index: usize,
    pub(super) stands_by: AtomicBool,
    pub(super) turns: Mutex<Turns>,
}

type Open<'a> = MutexGuard<'a, Vec<(Lane, Hand)>>;

impl MemoryLane {
    fn hands(&self) -> Open<'_> {
        self.hands.lock().expect("no rule panics while the hands are open")
    }

    /// Takes or renews the lease. Returns `false` when there is nothing to claim with it.
    fn hold(&self, state: &mut State, hands: &mut Open<'_>, now: Millis, lease: Duration) -> bool {
        let mine = state.lease.owner == self.relay && !state.lease.released;
        let others = !mine && !state.lease.released;
        let stands_by = others && Leased::Shard.runs(state.lease.until, now, lease);
        self.stands_by.store(stands_by, Ordering::Relaxed);
        if stands_by {
            return false;
        }
        let keep = mine && state.lease.until > now;
        let cursor = if keep { hands[self.index].1.cursor() } else { 0 };
        let waits = state.entries.iter().any(|entry| match entry.row.place {
            Place::Waiting(Shelf::Hot) => entry.number > cursor,
            Place::Waiting(Shelf::Later) => entry.row.due <= now,
            _ => false,
        });
        if keep {
            let hand = &mut hands[self.index].1;
            let waits = waits || hand.overdue(now);
            let rest = state.lease.until.since(now);
            if waits || rest * 3 < lease * 2 || rest > lease * 2 {
                state.lease.until = now + lease;
            }
            if waits {
                lapse(state, &hand.lapse(now), now);
                state.lease.fence = state.lease.fence.next();
            }
            return waits;
        }
        if waits {
            self.take(state, hands, now, lease);
        }
        waits
    }

    fn take(&self, state: &mut State, hands: &mut Open<'_>, now: Millis, lease: Duration) {
        state.lease.owner = self.relay;
        state.lease.fence = state.lease.fence.next();
        state.lease.until = now + lease;
        state.lease.released = false;
        let in_flight = state.entries.iter().filter(|entry| entry.row.unexplained > 0);
        let out: BTreeSet<Address> = in_flight
            .filter(|entry| entry.row.place == Place::Waiting(Shelf::Hot))
            .map(|entry| address(entry, Shelf::Hot))
            .collect();
        lapse(state, &out, now);
        for entry in &mut state.entries {
            let in_flight = entry.row.unexplained > 0;
            if in_flight && entry.row.place == Place::Waiting(Shelf::Later) {
                entry.row.due = entry.row.due.min(now);
            }
        }
        for (lane, hand) in hands.iter_mut() {
            hand.clear();
            inform(state, lane, hand);
        }
    }

    fn pick_later(&self, state: &mut State, hand: &mut Hand, pick: &mut Pick<'_>) {
        for at in due(state, pick) {
            let entry = &mut state.entries[at];
            let Some(joins) = pick.joins(&entry.row) else { break };
            let (address, key) = (address(entry, Shelf::Later), entry.row.event.key.clone());
            if hand.offer_later(address, key.as_deref(), entry.birth) {
                pick.take(entry, address, state.lease.fence);
                if joins == Joins::Alone {
                    pick.closed = true;
                    break;
                }
            }
        }
    }

    fn pick_hot(&self, state: &mut State, hand: &mut Hand, pick: &mut Pick<'_>) {
        let fence = state.lease.fence;
        let mut hot: Vec<&mut Entry> = state
            .entries
            .iter_mut()
            .filter(|entry| entry.row.place == Place::Waiting(Shelf::Hot))
            .filter(|entry| entry.number > hand.cursor())
            .collect();
        hot.sort_by_key(|entry| entry.number);
        for entry in hot {
            if pick.claims.len() == pick.want.limit {
                break;
            }
            if !pick.lane.topics.take(&entry.row.event.topic) {
                hand.skip(entry.number);
                continue;
            }
            if !pick.fits(&entry.row) {
                break;
            }
            let (address, key) = (address(entry, Shelf::Hot), entry.row.event.key.clone());
            if hand.offer_hot(address, key.as_deref()) {
                pick.take(entry, address, fence);
            }
        }
    }
}

/// A claim under way.
pub(super) struct Pick<'a> {
    pub(super) lane: &'a Lane,
    pub(super) want: &'a Want,
    pub(super) now: Millis,
    pub(super) claims: Vec<Claim>,
    pub(super) bytes: usize,
    pub(super) closed: bool,
}

impl Pick<'_> {
    /// Says how a later row that is due may join; `None` ends the search.
    pub(super) fn joins(&self, row: &Row) -> Option<Joins> {
        let joins = Joins::of(row.is_suspect(), self.claims.len());
        let (most, bytes) = self.want.retries();
        let full = !self.claims.is_empty() && self.bytes + row.event.payload.len() > bytes;
        (joins != Joins::NotNow && !full && self.claims.len() < most).then_some(joins)
    }

    pub(super) fn fits(&self, row: &Row) -> bool {
        self.claims.is_empty() || self.bytes + row.event.payload.len() <= self.want.bytes
    }

    pub(super) fn take(&mut self, entry: &mut Entry, address: Address, fence: event::Fence) {
        let (due, unexplained) = (entry.row.due, entry.row.unexplained);
        entry.row.claim(fence, self.now, self.want.lease);
        self.bytes += entry.row.event.payload.len();
        let sequence = Sequence::of(entry.birth);
        let (event, attempt) = (entry.row.event.clone(), entry.row.attempt);
        let event = Event { sequence, ..event };
        self.claims.push(Claim { event, address, fence, due, attempt, unexplained });
    }
}

#[async_trait]
impl Source for MemoryLane {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let now = self.table.now();
        let mut hands = self.hands();
        let mut state = self.table.state();
        if !self.hold(&mut state, &mut hands, now, want.lease) {
            return Ok(Vec::new());
        }
        let (lane, hand) = &mut hands[self.index];
        hand.open(state.lease.fence, now + want.lease);
        let mut pick = Pick { lane, want, now, claims: Vec::new(), bytes: 0, closed: false };
        let mut turns = self.turns.lock().expect("no rule panics while the turns are open");
        if turns.begin_hot() {
            self.pick_hot(&mut state, hand, &mut pick);
        }
        if pick.claims.is_empty() {
            self.pick_later(&mut state, hand, &mut pick);
            if !pick.closed {
                self.pick_hot(&mut state, hand, &mut pick);
            }
        }
        let later = pick.claims.iter().filter(|claim| claim.address.shelf == Shelf::Later).count();
        turns.close(later, pick.claims.len() - later);
        Ok(pick.claims)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let now = self.table.now();
        let mut hands = self.hands();
        let mut state = self.table.state();
        let mut settled = Settled::default();
        for end in ends {
            let hand = &mut hands[self.index].1;
            let held = state.lease.owner == self.relay && hand.has(end.address, end.fence);
            if held && settle(&mut state, end, now) {
                hand.settle(end.address, end.fence, &end.outcome);
                settled.settled += 1;
            } else {
                settled.stale.push(end.id);
            }
        }
        Ok(settled)
    }

    async fn wait(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.table.bell.notified()).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        let now = self.table.now();
        let mut hands = self.hands();
        let mut state = self.table.state();
        if state.lease.owner != self.relay || state.lease.released {
            return Ok(());
        }
        let back: Vec<Address> = hands[self.index].1.in_flight().map(|(row, _)| row).collect();
        for entry in &mut state.entries {
            let Place::Waiting(shelf) = entry.row.place else { continue };
            if back.contains(&address(entry, shelf)) {
                let fence = entry.row.fence;
                let _ = entry.row.settle(fence, &Outcome::Release { after: Duration::ZERO }, now);
            }
        }
        hands[self.index].1.clear();
        if hands.iter().all(|(_, hand)| hand.is_empty()) {
            state.lease.released = true;
            state.lease.until = Millis(0);
            hands.iter_mut().for_each(|(_, hand)| hand.clear());
        } else {
            let (lane, hand) = &mut hands[self.index];
            inform(&state, lane, hand);
        }
        drop(state);
        self.table.bell.notify_waiters();
        Ok(())
    }

    fn aside(&self) -> Aside {
        Aside { stands_by: self.stands_by.load(Ordering::Relaxed), outrun: 0 }
    }
}

/// Finds the later rows of a claim's lane that are due, in the order in which they became so.
pub(super) fn due(state: &State, pick: &Pick<'_>) -> Vec<usize> {
    let mut due: Vec<usize> = (0..state.entries.len())
        .filter(|at| {
            let row = &state.entries[*at].row;
            row.place == Place::Waiting(Shelf::Later)
                && row.is_due(pick.now)
                && pick.lane.topics.take(&row.event.topic)
        })
        .collect();
    due.sort_by_key(|at| (state.entries[*at].row.due, state.entries[*at].number));
    due
}

pub(super) fn settle(state: &mut State, end: &Settlement, now: Millis) -> bool {
    let later = state.later + 1;
    let found = state.entries.iter_mut().find(|entry| {
        entry.row.place == Place::Waiting(end.address.shelf) && entry.number == end.address.number
    });
    let Some(entry) = found else { return false };
    if !entry.row.settle(end.fence, &end.outcome, now) {
        return false;
    }
    if !matches!(end.outcome, Outcome::Release { .. }) {
        entry.updated = now;
    }
    let moved = end.address.shelf == Shelf::Hot && entry.row.place == Place::Waiting(Shelf::Later);
    if moved {
        entry.number = later;
        state.later = later;
    }
    true
}

pub(super) fn address(entry: &Entry, shelf: Shelf) -> Address {
    Address { shelf, shard: 0, number: entry.number }
}

/// Moves hot rows that nobody settled in time to where they are due; later rows are so already.
pub(super) fn lapse(state: &mut State, out: &BTreeSet<Address>, now: Millis) {
    let mut lapsed: Vec<&mut Entry> = state
        .entries
        .iter_mut()
        .filter(|entry| entry.row.place == Place::Waiting(Shelf::Hot))
        .filter(|entry| out.contains(&address(entry, Shelf::Hot)))
        .collect();
    lapsed.sort_by_key(|entry| entry.number);
    for entry in lapsed {
        state.later += 1;
        entry.number = state.later;
        entry.row.lapse(now);
    }
}

/// Tells a fresh hand which rows of its lane wait for another attempt.
pub(super) fn inform(state: &State, lane: &Lane, hand: &mut Hand) {
    for entry in &state.entries {
        if entry.row.holds_key() && lane.topics.take(&entry.row.event.topic) {
            hand.hold(entry.row.event.key.as_deref(), entry.birth, entry.number);
        }
    }
}
