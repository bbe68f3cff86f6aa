//! Claiming and settling, by the rules of relays that compete: whoever claims a row has it, until
//! its own lease runs out. No order is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Address, Claim, Fence, Joins, Leased, Millis, Outcome, Place, Settled, Settlement, Shelf,
    Source, StoreError, Turns, Want,
};

use super::lane::{Pick, address, due, lapse, settle};
use super::{Entry, State, Table};
use crate::Lane;

pub(super) struct CompetingLane {
    table: Arc<Table>,
    lane: Lane,
    turns: Mutex<Turns>,
    /// The fences of what this lane has in flight.
    flight: Mutex<BTreeMap<Address, Fence>>,
}

impl CompetingLane {
    pub(super) fn new(table: Arc<Table>, lane: Lane) -> CompetingLane {
        CompetingLane { table, lane, turns: Mutex::default(), flight: Mutex::default() }
    }

    fn flight(&self) -> MutexGuard<'_, BTreeMap<Address, Fence>> {
        self.flight.lock().expect("no rule panics while the flight is open")
    }
}

/// Ends claims that nobody settled in time, or that seem to last longer than any can because a
/// clock was ahead. Their hot rows leave the line for the later table; later rows are due by their
/// time.
fn end_claims(state: &mut State, now: Millis, lease: Duration) {
    let mut over = BTreeSet::new();
    for entry in &mut state.entries {
        let row = &mut entry.row;
        if row.unexplained == 0 || Leased::Shard.runs(row.due, now, lease) {
            continue;
        }
        match row.place {
            Place::Waiting(Shelf::Hot) => drop(over.insert(address(entry, Shelf::Hot))),
            Place::Waiting(Shelf::Later) => row.due = row.due.min(now),
            Place::Sent(_) | Place::Dead => {}
        }
    }
    lapse(state, &over, now);
}

fn pick_later(state: &mut State, pick: &mut Pick<'_>) {
    for at in due(state, pick) {
        let entry = &mut state.entries[at];
        let Some(joins) = pick.joins(&entry.row) else { break };
        let (address, fence) = (address(entry, Shelf::Later), entry.row.fence.next());
        pick.take(entry, address, fence);
        if joins == Joins::Alone {
            pick.closed = true;
            break;
        }
    }
}

/// Claims hot rows that nobody has. They stay where they are.
fn pick_hot(state: &mut State, pick: &mut Pick<'_>) {
    let free = |entry: &&mut Entry| {
        entry.row.place == Place::Waiting(Shelf::Hot) && entry.row.unexplained == 0
    };
    let mut hot: Vec<&mut Entry> = state.entries.iter_mut().filter(free).collect();
    hot.sort_by_key(|entry| entry.number);
    for entry in hot {
        if !pick.lane.topics.take(&entry.row.event.topic) {
            continue;
        }
        if pick.claims.len() == pick.want.limit || !pick.fits(&entry.row) {
            break;
        }
        let (address, fence) = (address(entry, Shelf::Hot), entry.row.fence.next());
        pick.take(entry, address, fence);
    }
}

/// Sets a hot row that was released down as due: in the line, others have read beyond it.
fn put_back(state: &mut State, end: &Settlement, now: Millis) {
    let Outcome::Release { after } = end.outcome else { return };
    let hot = |entry: &&mut Entry| {
        entry.row.place == Place::Waiting(Shelf::Hot) && address(entry, Shelf::Hot) == end.address
    };
    if let Some(entry) = state.entries.iter_mut().find(hot) {
        state.later += 1;
        (entry.number, entry.updated) = (state.later, now);
        (entry.row.place, entry.row.due) = (Place::Waiting(Shelf::Later), now + after);
    }
}

#[async_trait]
impl Source for CompetingLane {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let now = self.table.now();
        let mut state = self.table.state();
        end_claims(&mut state, now, want.lease);
        let lane = &self.lane;
        let mut pick = Pick { lane, want, now, claims: Vec::new(), bytes: 0, closed: false };
        let mut turns = self.turns.lock().expect("no rule panics while the turns are open");
        let begins_hot = turns.begin_hot();
        if begins_hot {
            pick_hot(&mut state, &mut pick);
        }
        let fresh = pick.claims.len();
        if pick.claims.is_empty() {
            pick_later(&mut state, &mut pick);
        }
        let retries = pick.claims.len() - fresh;
        if !begins_hot && !pick.closed {
            pick_hot(&mut state, &mut pick);
        }
        if !pick.claims.is_empty() {
            turns.close(retries, pick.claims.len() - retries);
        }
        let mut flight = self.flight();
        flight.extend(pick.claims.iter().map(|claim| (claim.address, claim.fence)));
        Ok(pick.claims)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let now = self.table.now();
        let (mut state, mut flight) = (self.table.state(), self.flight());
        let mut settled = Settled::default();
        for end in ends {
            let held = flight.get(&end.address) == Some(&end.fence);
            if held && settle(&mut state, end, now) {
                put_back(&mut state, end, now);
                settled.settled += 1;
            } else {
                settled.stale.push(end.id);
            }
            if held {
                flight.remove(&end.address);
            }
        }
        Ok(settled)
    }

    async fn wait(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.table.bell.notified()).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        let now = self.table.now();
        let (mut state, mut flight) = (self.table.state(), self.flight());
        let mut back: Vec<Settlement> = Vec::new();
        for entry in &state.entries {
            let Place::Waiting(shelf) = entry.row.place else { continue };
            let address = address(entry, shelf);
            if let Some(fence) = flight.remove(&address) {
                let (id, outcome) = (entry.row.id(), Outcome::Release { after: Duration::ZERO });
                back.push(Settlement { address, id, created: None, fence, outcome });
            }
        }
        back.sort_by_key(|end| end.address);
        for end in &back {
            if settle(&mut state, end, now) {
                put_back(&mut state, end, now);
            }
        }
        flight.clear();
        drop(state);
        self.table.bell.notify_waiters();
        Ok(())
    }
}
