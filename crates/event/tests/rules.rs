//! The rules over random histories: a shard, two relays, a sink that refuses, crashes and late
//! turns.
//!
//! The simulator moves rows between tables by their addresses, as a store does, and asks `Row`,
//! `Hand`, `Joins` and `Policy` what becomes of each. Who has the lease, when it is taken over, and
//! how much one claim takes it decides itself, as every store does; what the stores decide there is
//! held to the model by the suites of `it`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use postbox_event::{
    Address, Answer, Backoff, Cause, Code, Event, EventId, Fence, Hand, Joins, Millis, Order,
    Outcome, Place, Policy, Receipt, Refusal, Row, Shelf,
};
use proptest::prelude::*;

const LEASE: Duration = Duration::from_millis(1000);
const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Says {
    Yes,
    Down,
    Later,
    Never,
    Lost { arrived: bool },
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put { key: Option<u8>, delay: u16 },
    Claim { relay: usize, limit: usize },
    Offer { turn: usize, says: Says },
    Settle { turn: usize },
    Crash { relay: usize },
    HandOver { relay: usize },
    Advance { by: u16 },
    SetBack { by: u16 },
    Requeue { which: usize },
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        6 => Just(Says::Yes),
        1 => Just(Says::Down),
        2 => Just(Says::Later),
        1 => Just(Says::Never),
        2 => any::<bool>().prop_map(|arrived| Says::Lost { arrived }),
    ]
}

/// A step of one relay that lives, with few keys and several turns at once: what it remembers is
/// never forgiven by a take-over.
fn quiet_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..2).prop_map(|key| Step::Put { key: Some(key), delay: 0 }),
        5 => (1usize..4).prop_map(|limit| Step::Claim { relay: 0, limit }),
        8 => (0usize..3, says()).prop_map(|(turn, says)| Step::Offer { turn, says }),
        5 => (0usize..3).prop_map(|turn| Step::Settle { turn }),
        2 => (1u16..300).prop_map(|by| Step::Advance { by }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let says = says();
    let delay = prop_oneof![3 => Just(0u16), 1 => 1u16..1500];
    prop_oneof![
        5 => (proptest::option::weighted(0.8, 0u8..3), delay)
            .prop_map(|(key, delay)| Step::Put { key, delay }),
        5 => (0usize..2, 1usize..6).prop_map(|(relay, limit)| Step::Claim { relay, limit }),
        10 => (0usize..4, says).prop_map(|(turn, says)| Step::Offer { turn, says }),
        5 => (0usize..4).prop_map(|turn| Step::Settle { turn }),
        1 => (0usize..2).prop_map(|relay| Step::Crash { relay }),
        1 => (0usize..2).prop_map(|relay| Step::HandOver { relay }),
        2 => (1u16..1400).prop_map(|by| Step::Advance { by }),
        1 => (1u16..3000).prop_map(|by| Step::SetBack { by }),
        1 => (0usize..8).prop_map(|which| Step::Requeue { which }),
    ]
}

struct Held {
    address: Address,
    event: Event,
    fence: Fence,
    attempt: u32,
    unexplained: u32,
    outcome: Option<Outcome>,
    /// Whether the event was offered to a destination that was there.
    tried: bool,
}

/// One claim and what became of it so far. A turn without a relay crashed: what it had on the wire
/// may still arrive, but it settles nothing.
struct Turn {
    relay: Option<usize>,
    lease_fence: i64,
    batch: Vec<Held>,
    refused: HashSet<String>,
}

#[derive(Default)]
struct Lease {
    owner: Option<usize>,
    /// Goes up when the lease is taken, and not, as in a store, at every claim: what is claimed has
    /// fences of its own here.
    fence: i64,
    until: Millis,
    out: BTreeSet<i64>,
}

struct Sim {
    order: Order,
    now: Millis,
    hot: BTreeMap<i64, Row>,
    later: BTreeMap<i64, (i64, Row)>,
    sent: Vec<Row>,
    dead: Vec<Row>,
    numbers: i64,
    fences: i64,
    lease: Lease,
    hands: [Hand; 2],
    turns: Vec<Turn>,
    newest: HashMap<EventId, Fence>,
    /// How often each event was tried, counted without the rules.
    tries: HashMap<EventId, u32>,
    committed: Vec<EventId>,
    /// Hot events in commit order, by key: what the order promise is about.
    lines: HashMap<String, Vec<EventId>>,
    arrived: Vec<EventId>,
    ever_dead: HashSet<EventId>,
}

impl Sim {
    fn new(order: Order) -> Sim {
        Sim {
            order,
            now: Millis(1_000_000),
            hot: BTreeMap::new(),
            later: BTreeMap::new(),
            sent: Vec::new(),
            dead: Vec::new(),
            numbers: 0,
            fences: 0,
            lease: Lease::default(),
            hands: [Hand::new(order), Hand::new(order)],
            turns: Vec::new(),
            newest: HashMap::new(),
            tries: HashMap::new(),
            committed: Vec::new(),
            lines: HashMap::new(),
            arrived: Vec::new(),
            ever_dead: HashSet::new(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put { key, delay } => self.put(key, delay),
            Step::Claim { relay, limit } => self.claim(relay, limit),
            Step::Offer { turn, says } => self.offer(turn, says),
            Step::Settle { turn } => self.settle(turn),
            Step::Crash { relay } => self.crash(relay),
            Step::HandOver { relay } => {
                if self.lease.owner == Some(relay) && self.hands[relay].is_empty() {
                    self.lease.owner = None;
                }
            }
            Step::Advance { by } => self.now = self.now + Duration::from_millis(u64::from(by)),
            Step::SetBack { by } => self.now = Millis(self.now.0 - i64::from(by)),
            Step::Requeue { which } => self.requeue(which),
        }
    }

    fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    fn put(&mut self, key: Option<u8>, delay: u16) {
        let mut event = Event::new("t", "T", "{}");
        event.created = self.now;
        event.key = key.map(|key| key.to_string());
        self.committed.push(event.id);
        let number = self.number();
        if delay > 0 {
            let due = self.now + Duration::from_millis(u64::from(delay));
            self.later.insert(number, (0, Row::delayed(event, due)));
            return;
        }
        if let Some(key) = &event.key {
            self.lines.entry(key.clone()).or_default().push(event.id);
        }
        self.hot.insert(number, Row::new(event));
    }

    /// Takes, renews or misses the lease.
    fn owns(&mut self, relay: usize) -> bool {
        let mine = self.lease.owner == Some(relay);
        let live = self.lease.owner.is_some() && self.now < self.lease.until;
        if !mine && live {
            return false;
        }
        if mine && live {
            let lapsed = self.hands[relay].lapse(self.now);
            let hot = lapsed.into_iter().filter(|address| address.shelf == Shelf::Hot);
            self.lapse(hot.map(|address| address.number).collect());
        } else {
            self.take_over(relay);
        }
        self.lease.until = self.now + LEASE;
        true
    }

    /// Moves hot rows whose claims nobody settled in time.
    fn lapse(&mut self, numbers: BTreeSet<i64>) {
        for number in numbers {
            let mut row = self.hot.remove(&number).expect("what is out is in the hot table");
            row.lapse(self.now);
            let at = self.number();
            self.later.insert(at, (number, row));
        }
    }

    fn take_over(&mut self, relay: usize) {
        self.lease.owner = Some(relay);
        self.lease.fence += 1;
        let out = std::mem::take(&mut self.lease.out);
        self.lapse(out);
        self.hands[relay].clear();
        for (number, (birth, row)) in &self.later {
            if row.holds_key() {
                self.hands[relay].hold(row.event.key.as_deref(), *birth, *number);
            }
        }
    }

    fn claim(&mut self, relay: usize, limit: usize) {
        if !self.owns(relay) {
            return;
        }
        self.fences += 1;
        self.hands[relay].open(Fence(self.fences), self.now + LEASE);
        let mut batch = Vec::new();
        let single = self.claim_later(relay, limit, &mut batch);
        if !single {
            self.claim_hot(relay, limit, &mut batch);
        }
        self.lease.out = hot_out(&self.hands[relay]);
        if !batch.is_empty() {
            let (lease_fence, refused) = (self.lease.fence, HashSet::new());
            self.turns.push(Turn { relay: Some(relay), lease_fence, batch, refused });
        }
    }

    fn claim_later(&mut self, relay: usize, limit: usize, batch: &mut Vec<Held>) -> bool {
        let now = self.now;
        let mut due: Vec<(Millis, i64)> = self
            .later
            .iter()
            .filter(|(_, (_, row))| row.is_due(now))
            .map(|(number, (_, row))| (row.due, *number))
            .collect();
        due.sort();
        for (_, number) in due {
            let (birth, row) = self.later.get_mut(&number).expect("it was just listed");
            let joins = Joins::of(row.is_suspect(), batch.len());
            if joins == Joins::NotNow {
                break;
            }
            let address = Address { shelf: Shelf::Later, shard: 0, number };
            let key = row.event.key.clone();
            if !self.hands[relay].offer_later(address, key.as_deref(), *birth) {
                continue;
            }
            batch.push(hand_out(Fence(self.fences), &mut self.newest, row, address, now));
            *self.tries.entry(row.id()).or_default() += 1;
            if joins == Joins::Alone || batch.len() == limit.div_ceil(2) {
                return joins == Joins::Alone;
            }
        }
        false
    }

    fn claim_hot(&mut self, relay: usize, limit: usize, batch: &mut Vec<Held>) {
        let now = self.now;
        let from = self.hands[relay].cursor() + 1;
        for (number, row) in self.hot.range_mut(from..) {
            if batch.len() == limit {
                return;
            }
            let address = Address { shelf: Shelf::Hot, shard: 0, number: *number };
            let key = row.event.key.clone();
            if self.hands[relay].offer_hot(address, key.as_deref()) {
                batch.push(hand_out(Fence(self.fences), &mut self.newest, row, address, now));
                *self.tries.entry(row.id()).or_default() += 1;
            }
        }
    }

    /// Offers the next event of a turn to the sink, unless the rules say not to.
    fn offer(&mut self, turn: usize, says: Says) {
        let policy = policy();
        let order = self.order;
        let Some(turn) = self.turns.get_mut(turn) else { return };
        let Some(held) = turn.batch.iter_mut().find(|held| held.outcome.is_none()) else { return };
        if let Some(outcome) = policy.spent(&held.event, held.attempt, held.unexplained) {
            (held.outcome, held.tried) = (Some(outcome), true);
            return;
        }
        assert!(held.attempt <= ATTEMPTS, "an event was offered after its last attempt");
        let key = held.event.key.clone().filter(|_| order == Order::Hold);
        let held_back = key.as_ref().is_some_and(|key| turn.refused.contains(key));
        let answer = if held_back { Err(Refusal::Held) } else { answer(says) };
        if !held_back && matches!(says, Says::Yes | Says::Lost { arrived: true }) {
            self.arrived.push(held.event.id);
        }
        if let (Some(key), Err(_)) = (key, &answer) {
            turn.refused.insert(key);
        }
        held.tried = !held_back && !matches!(says, Says::Down);
        held.outcome = Some(policy.judge(&held.event, held.attempt, answer, 1.0));
    }

    /// Settles what a turn has answers for, and puts the rest back.
    fn settle(&mut self, turn: usize) {
        if turn >= self.turns.len() {
            return;
        }
        let turn = self.turns.remove(turn);
        let Some(relay) = turn.relay else { return };
        for held in turn.batch {
            let outcome = held.outcome.unwrap_or(Outcome::Release { after: Duration::ZERO });
            let current = turn.lease_fence == self.lease.fence;
            if current && self.hands[relay].settle(held.address, held.fence, &outcome) {
                *self.tries.entry(held.event.id).or_default() -= u32::from(!held.tried);
                self.move_row(held.address, held.fence, &outcome);
            } else {
                self.must_be_stale(held.address, held.fence, &outcome);
            }
        }
        if turn.lease_fence == self.lease.fence {
            self.lease.out = hot_out(&self.hands[relay]);
        }
    }

    fn move_row(&mut self, address: Address, fence: Fence, outcome: &Outcome) {
        let number = address.number;
        let (birth, mut row) = match address.shelf {
            Shelf::Hot => (number, self.hot.remove(&number).expect("a row in hand is there")),
            Shelf::Later => self.later.remove(&number).expect("a row in hand is there"),
        };
        let before = row.clone();
        assert_eq!(self.newest[&row.id()], fence, "only the newest claim is in a hand");
        assert!(row.settle(fence, outcome, self.now), "the newest fence settles");
        assert!(!row.settle(fence, outcome, self.now), "a claim is settled once");
        assert_eq!(row.attempt, self.tries[&row.id()], "attempts are what was tried");
        match row.place {
            Place::Sent(_) => self.sent.push(row),
            Place::Dead => {
                dead_only_by_policy(&before, &row, outcome);
                self.ever_dead.insert(row.id());
                self.dead.push(row);
            }
            Place::Waiting(Shelf::Hot) => drop(self.hot.insert(number, row)),
            Place::Waiting(Shelf::Later) if address.shelf == Shelf::Later => {
                self.later.insert(number, (birth, row));
            }
            Place::Waiting(Shelf::Later) => {
                let at = self.number();
                self.later.insert(at, (birth, row));
            }
        }
    }

    /// A claim that was lost has a later one, or none: its fence must not change the row.
    fn must_be_stale(&mut self, address: Address, fence: Fence, outcome: &Outcome) {
        let row = match address.shelf {
            Shelf::Hot => self.hot.get_mut(&address.number),
            Shelf::Later => self.later.get_mut(&address.number).map(|(_, row)| row),
        };
        let Some(row) = row else { return };
        let before = row.clone();
        if self.newest[&row.id()] != fence {
            assert!(!row.settle(fence, outcome, self.now), "an older fence settled a row");
            assert_eq!(*row, before, "an older fence changed a row");
        }
    }

    fn crash(&mut self, relay: usize) {
        self.hands[relay].clear();
        for turn in self.turns.iter_mut().filter(|turn| turn.relay == Some(relay)) {
            turn.relay = None;
        }
        if self.lease.owner == Some(relay) {
            // The next life of this relay is another owner: nobody holds the lease, and it runs.
            self.lease.owner = Some(usize::MAX);
        }
    }

    fn requeue(&mut self, which: usize) {
        if which < self.dead.len() {
            let mut row = self.dead.remove(which);
            assert!(row.requeue(self.now) && !row.requeue(self.now));
            self.tries.remove(&row.id());
            let number = self.number();
            self.later.insert(number, (0, row));
        }
    }

    /// I12: every committed event stands in exactly one table.
    fn conserved(&self) {
        let later = self.later.values().map(|(_, row)| row);
        let rows = self.hot.values().chain(later).chain(&self.sent).chain(&self.dead);
        let mut found: Vec<EventId> = rows.map(Row::id).collect();
        let mut committed = self.committed.clone();
        found.sort();
        committed.sort();
        assert_eq!(found, committed);
    }

    /// I6: what arrived for a key arrived first in commit order. An event that was given up at any
    /// time has left the line.
    fn in_order(&self) {
        for (key, line) in &self.lines {
            let mut seen = HashSet::new();
            let mine = |id: &EventId| line.contains(id) && !self.ever_dead.contains(id);
            let first: Vec<EventId> =
                self.arrived.iter().filter(|id| mine(id) && seen.insert(**id)).copied().collect();
            let wanted: Vec<EventId> =
                line.iter().filter(|id| first.contains(id)).copied().collect();
            assert_eq!(first, wanted, "key {key} arrived out of order");
            let holes = line.iter().filter(|id| mine(id)).take(first.len());
            assert!(holes.eq(first.iter()), "key {key} left one out");
        }
    }

    /// I2: once faults end, every committed event is sent or dead.
    fn calm(&mut self) {
        self.crash(1);
        // An owner that lives goes on with what it remembers: a take-over would forgive it all.
        if self.lease.owner != Some(0) {
            self.now = self.now.max(self.lease.until);
        }
        let due = self.later.values().map(|(_, row)| row.due).max().unwrap_or(self.now);
        let mut rounds = due.since(self.now).as_millis() / (LEASE / 2).as_millis();
        rounds += self.committed.len() as u128 * 4 + 8;
        for _ in 0..rounds {
            // Longer than any wait, shorter than the lease: nobody takes over from here on.
            self.now = self.now + LEASE / 2;
            self.claim(0, 4);
            while let Some(turn) = self.turns.pop() {
                self.turns.insert(0, turn);
                for _ in 0..4 {
                    self.offer(0, Says::Yes);
                }
                self.settle(0);
            }
            self.conserved();
        }
        assert!(self.hot.is_empty() && self.later.is_empty(), "something waits for ever");
    }
}

fn hand_out(
    fence: Fence,
    newest: &mut HashMap<EventId, Fence>,
    row: &mut Row,
    address: Address,
    now: Millis,
) -> Held {
    row.claim(fence, now, LEASE);
    newest.insert(row.id(), fence);
    let event = row.event.clone();
    let (attempt, unexplained) = (row.attempt, row.unexplained - 1);
    Held { address, event, fence, attempt, unexplained, outcome: None, tried: false }
}

fn policy() -> Policy {
    let backoff = Backoff { base: Duration::from_millis(100), cap: Duration::from_millis(400) };
    Policy { limits: Vec::new(), attempts: ATTEMPTS, backoff, rest: Duration::from_millis(50) }
}

fn answer(says: Says) -> Answer {
    let cause = || Cause::new(Code::SinkBroken, "so it goes");
    match says {
        Says::Yes => Ok(Receipt { broker_id: None }),
        Says::Down => Err(Refusal::Down(cause())),
        Says::Later => Err(Refusal::Retry(cause(), None)),
        Says::Never => Err(Refusal::Reject(cause())),
        Says::Lost { .. } => Err(Refusal::Unknown(cause())),
    }
}

/// I5: dead is what the policy said, with its cause, and never before its time.
fn dead_only_by_policy(before: &Row, row: &Row, outcome: &Outcome) {
    let Outcome::Dead(cause) = outcome else { panic!("{outcome:?} made a row dead") };
    assert_eq!(row.trail.last().map(|moment| &moment.cause), Some(cause));
    match cause.code {
        Code::AttemptsSpent if before.attempt == ATTEMPTS => {}
        Code::AttemptsSpent => assert!(before.attempt > ATTEMPTS && before.unexplained == 1),
        Code::CrashLoop => assert!(before.attempt > ATTEMPTS && before.unexplained > 1),
        Code::SinkBroken => assert!(before.attempt <= ATTEMPTS),
        code => panic!("no rule gives up with {code}"),
    }
}

fn run(order: Order, steps: Vec<Step>) {
    let mut sim = Sim::new(order);
    for step in steps {
        sim.take(step);
        sim.conserved();
        if order == Order::Hold {
            sim.in_order();
        }
    }
    sim.calm();
    if order == Order::Hold {
        sim.in_order();
    }
}

fn histories() -> u32 {
    let wanted = std::env::var("POSTBOX_TRACES").ok().and_then(|text| text.parse().ok());
    wanted.unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: histories(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn held_keys_arrive_in_order_and_nothing_is_lost(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        run(Order::Hold, steps);
    }

    #[test]
    fn passed_keys_may_arrive_in_any_order_and_nothing_is_lost(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        run(Order::Pass, steps);
    }

    #[test]
    fn a_relay_that_lives_forgets_nothing(
        steps in proptest::collection::vec(quiet_step(), 1..80)
    ) {
        run(Order::Hold, steps);
    }

    #[test]
    fn only_the_newest_claim_settles_a_row_and_only_once(
        acts in proptest::collection::vec((0u8..5, 0usize..4), 1..60)
    ) {
        let mut row = Row::new(Event::new("t", "T", "{}"));
        let mut now = row.due;
        let mut claims: Vec<Fence> = Vec::new();
        let mut open = false;
        for (act, which) in acts {
            now = now + LEASE;
            let before = row.clone();
            let cause = Cause::new(Code::SinkBroken, "so it goes");
            match act {
                0 if row.is_due(now) => {
                    let fence = row.fence.next();
                    row.claim(fence, now, LEASE);
                    claims.push(fence);
                    open = true;
                    prop_assert_eq!(row.attempt, before.attempt + 1);
                }
                1 if open => row.lapse(now),
                2 => {
                    let dead = before.place == Place::Dead;
                    prop_assert_eq!(row.requeue(now), dead);
                }
                _ => {
                    let Some(fence) = claims.iter().rev().nth(which).copied() else { continue };
                    let outcome = match act {
                        3 => Outcome::Retry { after: LEASE, cause },
                        4 if which == 0 => Outcome::Release { after: LEASE },
                        _ => Outcome::Dead(cause),
                    };
                    let newest = open && Some(&fence) == claims.last();
                    prop_assert_eq!(row.settle(fence, &outcome, now), newest);
                    if newest {
                        open = false;
                    } else {
                        prop_assert_eq!(&row, &before);
                    }
                }
            }
        }
    }
}

/// Returns the hot rows in flight: what the lease row names.
fn hot_out(hand: &Hand) -> BTreeSet<i64> {
    hand.hot().map(|(number, _)| number).collect()
}
