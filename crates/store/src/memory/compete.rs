//! Claiming and settling, by the rules of relays that compete: whoever claims a row has it, until
//! its own lease runs out. No order is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Claim, Fence, Joins, Leased, Millis, Outcome, Place, Settled, Settlement, Shelf, Source,
    StoreError, Turns, Want,
};

use super::lane::{Pick, address, due, settle};
use super::{Entry, State, Table};
use crate::Lane;

pub(super) struct CompetingLane {
    table: Arc<Table>,
    lane: Lane,
    turns: Mutex<Turns>,
    /// The fences of what this lane has in flight, by number.
    flight: Mutex<BTreeMap<i64, Fence>>,
}

impl CompetingLane {
    pub(super) fn new(table: Arc<Table>, lane: Lane) -> CompetingLane {
        CompetingLane { table, lane, turns: Mutex::default(), flight: Mutex::default() }
    }

    fn flight(&self) -> MutexGuard<'_, BTreeMap<i64, Fence>> {
        self.flight.lock().expect("no rule panics while the flight is open")
    }
}

/// Makes rows due whose claims seem to last longer than any can: a clock was ahead.
fn return_astray(state: &mut State, now: Millis, lease: Duration) {
    for entry in &mut state.entries {
        let row = &mut entry.row;
        let in_flight = row.place == Place::Waiting(Shelf::Later) && row.unexplained > 0;
        if in_flight && row.due > now && !Leased::Shard.runs(row.due, now, lease) {
            row.due = now;
        }
    }
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

/// Claims hot rows. Each leaves its table for the later one, where its lease is its due time.
fn pick_hot(state: &mut State, pick: &mut Pick<'_>) {
    let mut later = state.later;
    let hot = |entry: &&mut Entry| entry.row.place == Place::Waiting(Shelf::Hot);
    let mut hot: Vec<&mut Entry> = state.entries.iter_mut().filter(hot).collect();
    hot.sort_by_key(|entry| entry.number);
    for entry in hot {
        if !pick.lane.topics.take(&entry.row.event.topic) {
            continue;
        }
        if pick.claims.len() == pick.want.limit || !pick.fits(&entry.row) {
            break;
        }
        later += 1;
        entry.number = later;
        let (address, fence) = (address(entry, Shelf::Later), entry.row.fence.next());
        pick.take(entry, address, fence);
        entry.row.place = Place::Waiting(Shelf::Later);
    }
    state.later = later;
}

#[async_trait]
impl Source for CompetingLane {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let now = self.table.now();
        let mut state = self.table.state();
        return_astray(&mut state, now, want.lease);
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
        flight.extend(pick.claims.iter().map(|claim| (claim.address.number, claim.fence)));
        Ok(pick.claims)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let now = self.table.now();
        let (mut state, mut flight) = (self.table.state(), self.flight());
        let mut settled = Settled::default();
        for end in ends {
            let held = end.address.shelf == Shelf::Later
                && flight.get(&end.address.number) == Some(&end.fence);
            if held && settle(&mut state, end, now) {
                settled.settled += 1;
            } else {
                settled.stale.push(end.id);
            }
            if held {
                flight.remove(&end.address.number);
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
        let later = |entry: &&mut Entry| entry.row.place == Place::Waiting(Shelf::Later);
        for entry in state.entries.iter_mut().filter(later) {
            if let Some(fence) = flight.remove(&entry.number) {
                let _ = entry.row.settle(fence, &Outcome::Release { after: Duration::ZERO }, now);
            }
        }
        flight.clear();
        drop(state);
        self.table.bell.notify_waiters();
        Ok(())
    }
}
