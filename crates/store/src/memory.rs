//! The model: the rules of an outbox over plain vectors, for one process and no longer than it.
//!
//! It calls the hall's functions and adds nothing of its own, so that a store which answers as it
//! does keeps the rules.

mod catalog;
mod chores;
mod compete;
mod inbox;
mod lane;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use event::{
    Catalog, Chores, Event, EventId, Fence, Hand, Inbox, Millis, Row, Shelf, Source, StoreError,
};
use tokio::sync::Notify;

use crate::{Accounts, Finding, Lane, Now, Outbox, Schema};

/// The rows that every handle of one model shares.
#[derive(Clone)]
pub struct Memory {
    table: Arc<Table>,
}

struct Table {
    state: Mutex<State>,
    now: Now,
    bell: Notify,
}

#[derive(Default)]
struct State {
    /// Whether relays compete for rows, and lease nothing.
    competes: bool,
    entries: Vec<Entry>,
    lease: Lease,
    hot: i64,
    later: i64,
    /// How many published rows the upkeep has trimmed.
    trimmed: u64,
    /// Who does the upkeep, and until when nobody else may.
    chores: (u64, Millis),
    relays: u64,
    inbox: HashMap<(String, EventId), inbox::Memory>,
}

/// A row and its numbers.
struct Entry {
    row: Row,
    /// Its number in the table where it stands.
    number: i64,
    /// Its number when it was hot, or 0.
    birth: i64,
    /// When it was last moved.
    updated: Millis,
}

#[derive(Default)]
struct Lease {
    owner: u64,
    fence: Fence,
    until: Millis,
    released: bool,
}

impl Memory {
    /// Starts empty, with relays that lease what they claim from.
    pub fn new(now: Now) -> Memory {
        Memory::with(now, false)
    }

    /// Starts empty, with relays that compete for rows.
    pub fn competing(now: Now) -> Memory {
        Memory::with(now, true)
    }

    fn with(now: Now, competes: bool) -> Memory {
        let state = Mutex::new(State { competes, ..State::default() });
        Memory { table: Arc::new(Table { state, now, bell: Notify::new() }) }
    }

    /// Returns another relay's handle on the same rows.
    pub fn relay(&self) -> Arc<dyn Outbox> {
        let id = {
            let mut state = self.table.state();
            state.relays += 1;
            state.relays
        };
        Arc::new(Relay { table: self.table.clone(), id, hands: Arc::default() })
    }
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no rule panics while the rows are open")
    }

    fn now(&self) -> Millis {
        match &self.now {
            Now::Database => Millis::now(),
            Now::Hand(at) => Millis(at.load(Ordering::SeqCst)),
        }
    }
}

impl State {
    fn next(&mut self, shelf: Shelf) -> i64 {
        let counter = match shelf {
            Shelf::Hot => &mut self.hot,
            Shelf::Later => &mut self.later,
        };
        *counter += 1;
        *counter
    }

    fn put(&mut self, row: Row, shelf: Shelf, now: Millis) {
        let number = self.next(shelf);
        let birth = if shelf == Shelf::Hot { number } else { 0 };
        self.entries.push(Entry { row, number, birth, updated: now });
    }
}

/// What the lanes of one relay hold; the relay leases for all of them.
type Hands = Arc<Mutex<Vec<(Lane, Hand)>>>;

struct Relay {
    table: Arc<Table>,
    id: u64,
    hands: Hands,
}

#[async_trait]
impl Outbox for Relay {
    fn lane(&self, lane: Lane) -> Arc<dyn Source> {
        if self.table.state().competes {
            return Arc::new(compete::CompetingLane::new(self.table.clone(), lane));
        }
        let index = {
            let mut hands = self.hands.lock().expect("no rule panics while the hands are open");
            let mut hand = Hand::new(lane.order);
            let state = self.table.state();
            if state.lease.owner == self.id {
                lane::inform(&state, &lane, &mut hand);
            }
            hands.push((lane, hand));
            hands.len() - 1
        };
        let (table, hands) = (self.table.clone(), self.hands.clone());
        let (stands_by, turns) = (AtomicBool::new(false), Mutex::default());
        Arc::new(lane::MemoryLane { table, relay: self.id, hands, index, stands_by, turns })
    }

    fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::new(catalog::MemoryCatalog(self.table.clone()))
    }

    fn chores(&self) -> Arc<dyn Chores> {
        Arc::new(chores::MemoryChores { table: self.table.clone(), relay: self.id })
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(inbox::MemoryInbox(self.table.clone()))
    }

    async fn put(&self, events: &[Event], due: Option<Millis>) -> Result<(), StoreError> {
        let now = self.table.now();
        let mut state = self.table.state();
        for event in events {
            let event = Event { created: now, ..event.clone() };
            match due {
                None => state.put(Row::new(event), Shelf::Hot, now),
                Some(due) => state.put(Row::delayed(event, due), Shelf::Later, now),
            }
        }
        drop(state);
        self.ring();
        Ok(())
    }

    fn ring(&self) {
        self.table.bell.notify_waiters();
    }

    async fn schema(&self) -> Result<Schema, StoreError> {
        Ok(Schema { found: 1, wanted: 1 })
    }

    async fn migrate(&self) -> Result<Schema, StoreError> {
        self.schema().await
    }

    fn migration(&self) -> String {
        String::new()
    }

    fn grants(&self, _: &Accounts) -> String {
        String::new()
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}
