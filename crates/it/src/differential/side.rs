//! One side of the comparison: a store, three relays with two lanes each, and every claim so far.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event::{
    Address, Begun, Cause, Claim, Code, Counts, Event, EventId, Fence, Filter, InboxEnd, Keep,
    Listed, Millis, Order, Page, Payload, Requeued, Sequence, Settled, Source, Status, Swept,
    Topics, Want,
};
use store::{Lane, Outbox};
use uuid::Uuid;

use super::trace::Op;
use crate::ground::Ground;
use crate::session::Session;

const TOPICS: [&str; 3] = ["a.x", "a.y", "b.x"];
const KINDS: [&str; 2] = ["Even", "Odd"];

/// What a side answered. Addresses, fences and numbers are its own affair.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Nothing,
    Claimed(Vec<(Event, Millis, u32, u32)>),
    Settled(Settled),
    Requeued(Requeued),
    Found(Vec<Vec<Listed>>),
    Begun(Option<Begun>),
    Finished(bool),
    Swept(Vec<Swept>),
}

/// Everything that a side shows of its rows.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    pub(super) counts: Counts,
    pub(super) rows: Vec<Listed>,
}

/// What an operation was about, besides its answer.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What was put, and when it is due if not at once.
    pub(super) put: Vec<Event>,
    pub(super) due: Option<Millis>,
    /// Through which lane it went, by an address of its own.
    pub(super) lane: usize,
    /// What was handed out, or what was settled.
    pub(super) claims: Vec<(EventId, (Address, Fence))>,
    /// Whose the claims were that were settled.
    pub(super) of: usize,
}

fn address(lane: &Arc<dyn Source>) -> usize {
    Arc::as_ptr(lane).cast::<()>() as usize
}

impl View {
    /// Tells what differs, if anything does.
    pub(super) fn differs(&self, other: &View) -> Option<String> {
        if self.counts != other.counts {
            return Some(format!("  model: {:?}\n  store: {:?}", self.counts, other.counts));
        }
        if self.rows.len() != other.rows.len() {
            return Some(format!(
                "  model: {} rows\n  store: {}",
                self.rows.len(),
                other.rows.len()
            ));
        }
        let mut pairs = self.rows.iter().zip(&other.rows);
        let (one, two) = pairs.find(|(one, two)| one != two)?;
        Some(format!("  model: {one:#?}\n  store: {two:#?}"))
    }
}

struct Seat {
    outbox: Arc<dyn Outbox>,
    lanes: [Arc<dyn Source>; 2],
}

struct Held {
    claim: Claim,
    lane: Arc<dyn Source>,
}

pub(super) struct Side {
    ground: Box<dyn Ground>,
    seats: Vec<Seat>,
    /// Relays that fell asleep and were replaced. What they held may still be settled, late.
    asleep: Vec<Seat>,
    events: Vec<EventId>,
    /// Where each event stood in line when it was first claimed.
    stood: HashMap<EventId, Option<Sequence>>,
    held: Vec<Held>,
    begun: Vec<(String, EventId, Fence)>,
    /// A transaction that is none of the outbox's.
    elsewhere: Option<Session>,
    told: Told,
}

impl Side {
    pub(super) async fn new(ground: Box<dyn Ground>) -> Side {
        let seats = vec![seat(&*ground).await, seat(&*ground).await, seat(&*ground).await];
        Side {
            ground,
            seats,
            asleep: Vec::new(),
            events: Vec::new(),
            stood: HashMap::new(),
            held: Vec::new(),
            begun: Vec::new(),
            elsewhere: None,
            told: Told::default(),
        }
    }

    /// Tells what the last operation was about.
    pub(super) fn told(&mut self) -> Told {
        std::mem::take(&mut self.told)
    }

    /// Tells what time it is there.
    pub(super) fn now(&self) -> Millis {
        self.ground.clock().now()
    }

    pub(super) async fn close(mut self) {
        if let Some(open) = self.elsewhere.take() {
            open.commit().await.expect("the transaction ends");
        }
        for seat in self.seats.into_iter().chain(self.asleep) {
            seat.outbox.close().await;
        }
        self.ground.leave().await;
    }

    /// Does one operation.
    pub(super) async fn take(&mut self, op: &Op) -> Answer {
        match op {
            Op::Put { .. } => self.put(op).await,
            Op::Claim { relay, lane, limit, bytes, lease } => {
                let lease = Duration::from_millis(*lease);
                let want = Want { limit: *limit, bytes: *bytes, lease };
                self.claim(*relay, *lane, want).await
            }
            Op::Settle { claims, end, through } => {
                self.settle(claims, &end.outcome(), *through).await
            }
            Op::Advance { millis } => {
                self.ground.clock().advance(Duration::from_millis(*millis));
                Answer::Nothing
            }
            Op::SetBack { millis } => {
                self.ground.clock().set_back(Duration::from_millis(*millis));
                Answer::Nothing
            }
            Op::Crash { relay } => {
                let gone = self.replace(*relay).await;
                self.held
                    .retain(|held| gone.lanes.iter().all(|lane| !Arc::ptr_eq(lane, &held.lane)));
                gone.outbox.close().await;
                Answer::Nothing
            }
            Op::Sleep { relay } => {
                let asleep = self.replace(*relay).await;
                self.asleep.push(asleep);
                Answer::Nothing
            }
            Op::Release { relay, lane } => {
                let lane = &self.seats[*relay].lanes[*lane];
                self.told.lane = address(lane);
                lane.release().await.expect("the store releases");
                Answer::Nothing
            }
            Op::Requeue { events, filter, limit } => self.requeue(events, *filter, *limit).await,
            Op::Find { filter, limit } => self.find(*filter, *limit).await,
            Op::Begin { relay, group, event } => self.begin(*relay, *group, *event).await,
            Op::Finish { relay, begun, well } => self.finish(*relay, *begun, *well).await,
            Op::Sweep { relay, keep, step } => {
                self.sweep(*relay, Duration::from_millis(*keep), *step).await
            }
            Op::Elsewhere => {
                match self.elsewhere.take() {
                    Some(open) => open.commit().await.expect("the transaction ends"),
                    None => self.elsewhere = self.ground.elsewhere().await,
                }
                Answer::Nothing
            }
        }
    }

    /// Shows everything.
    pub(super) async fn look(&self) -> View {
        let catalog = self.seats[0].outbox.catalog();
        let counts = catalog.count().await.expect("the store counts");
        let page = Page { limit: 1000, after: None, payloads: true };
        let found = catalog.find(&Filter::default(), &page).await.expect("the store lists");
        View { counts, rows: found.events }
    }

    async fn replace(&mut self, relay: usize) -> Seat {
        let new = seat(&*self.ground).await;
        std::mem::replace(&mut self.seats[relay], new)
    }

    async fn put(&mut self, op: &Op) -> Answer {
        let Op::Put { key, topic, delay, size, count } = op else { unreachable!() };
        let mut events = Vec::new();
        for _ in 0..*count {
            let number = self.events.len();
            let mut event = Event::new(TOPICS[usize::from(*topic)], KINDS[number % 2], "");
            // In the form of a UUIDv7: by time, then by number.
            let millis = self.ground.clock().now().0 as u128;
            let id = millis << 80 | 0x7000_8000_0000_0000_0000 | number as u128;
            event.id = EventId::from_uuid(Uuid::from_u128(id));
            event.key = key.map(|key| format!("k{key}"));
            event.payload = match number % 5 {
                0 => Payload::Bytes(vec![number as u8; *size].into()),
                _ => Payload::Text("ü".repeat(*size / 2)),
            };
            self.events.push(event.id);
            events.push(event);
        }
        let due = delay.map(|delay| self.ground.clock().now() + Duration::from_millis(delay));
        self.seats[0].outbox.put(&events, due).await.expect("the store takes events");
        (self.told.put, self.told.due) = (events, due);
        Answer::Nothing
    }

    async fn claim(&mut self, relay: usize, lane: usize, want: Want) -> Answer {
        let lane = self.seats[relay].lanes[lane].clone();
        let claims = lane.claim(&want).await.expect("the store hands out");
        let handed = claims.iter().map(|claim| (claim.event.id, (claim.address, claim.fence)));
        let handed = handed.collect();
        self.told = Told { lane: address(&lane), claims: handed, ..Told::default() };
        let told = |claim: &Claim| {
            let event = self.numbered(claim.event.clone());
            (event, claim.due, claim.attempt, claim.unexplained)
        };
        let told = claims.iter().map(told).collect();
        self.held.extend(claims.into_iter().map(|claim| Held { claim, lane: lane.clone() }));
        Answer::Claimed(told)
    }

    /// Tells of an event's sequence what both sides must agree on: whether it has one, and 1 as
    /// long as it is the one that it had.
    fn numbered(&mut self, mut event: Event) -> Event {
        let stood = *self.stood.entry(event.id).or_insert(event.sequence);
        let same = if event.sequence == stood { 1 } else { 2 };
        event.sequence = event.sequence.and_then(|_| Sequence::of(same));
        event
    }

    /// Settles claims, named from the newest back, through the lane of the first or another.
    async fn settle(
        &mut self,
        claims: &[usize],
        outcome: &event::Outcome,
        through: Option<usize>,
    ) -> Answer {
        if self.held.is_empty() {
            return Answer::Nothing;
        }
        let count = self.held.len();
        let named = |back: &usize| &self.held[count - 1 - back % count];
        let first = named(&claims[0]).lane.clone();
        let lane = match through {
            Some(seat) => self.seats[seat / 2].lanes[seat % 2].clone(),
            None => first.clone(),
        };
        let mut ends: Vec<event::Settlement> = Vec::new();
        for held in claims.iter().map(named).filter(|held| Arc::ptr_eq(&held.lane, &first)) {
            ends.push(held.claim.end(outcome.clone()));
        }
        let claims = ends.iter().map(|end| (end.id, (end.address, end.fence))).collect();
        let (through, of) = (address(&lane), address(&first));
        let settled = lane.settle(&ends).await.expect("the store settles");
        self.told = Told { lane: through, claims, of, ..Told::default() };
        Answer::Settled(settled)
    }

    /// Sweeps until nothing is left to trim: which of equally old rows goes first is no promise.
    async fn sweep(&self, relay: usize, keep: Duration, step: usize) -> Answer {
        let keep = Keep { sent: keep, inbox: keep, step, lease: Duration::from_secs(20) };
        let chores = self.seats[relay].outbox.chores();
        let mut steps = Vec::new();
        loop {
            let swept = chores.sweep(&keep).await.expect("the store sweeps");
            steps.push(swept);
            if swept.sent + swept.inbox == 0 {
                return Answer::Swept(steps);
            }
        }
    }

    async fn requeue(&self, events: &[usize], filter: Option<u8>, limit: usize) -> Answer {
        if self.events.is_empty() {
            return Answer::Nothing;
        }
        let ids: Vec<_> = events.iter().map(|at| self.events[at % self.events.len()]).collect();
        let filter = filter.map(|filter| self.filter(filter));
        let catalog = self.seats[0].outbox.catalog();
        let done = catalog.requeue(&ids, filter.as_ref(), limit).await;
        Answer::Requeued(done.expect("the store requeues"))
    }

    async fn find(&self, filter: u8, limit: usize) -> Answer {
        let catalog = self.seats[0].outbox.catalog();
        let filter = self.filter(filter);
        let mut page = Page { limit, after: None, payloads: true };
        let mut pages = Vec::new();
        loop {
            let listing = catalog.find(&filter, &page).await.expect("the store lists");
            pages.push(listing.events);
            match listing.next {
                Some(next) if pages.len() < 500 => page.after = Some(next),
                _ => return Answer::Found(pages),
            }
        }
    }

    fn filter(&self, filter: u8) -> Filter {
        let all = Filter::default();
        match filter {
            0 => Filter { id: self.events.last().copied(), ..all },
            1 => Filter { key: Some("k1".into()), ..all },
            2 => Filter { kind: Some("Odd".into()), ..all },
            3 => Filter { topic: Some("b.x".into()), ..all },
            4 => Filter { code: Some("sink-busy".into()), ..all },
            5 => Filter { status: Some(Status::Retry), key: Some("k0".into()), ..all },
            6 => Filter { status: Some(Status::Dispatching), ..all },
            7 => Filter { status: Some(Status::Sent), ..all },
            _ => all,
        }
    }

    async fn begin(&mut self, relay: usize, group: u8, event: usize) -> Answer {
        let Some(id) = self.events.get(event).copied() else { return Answer::Begun(None) };
        let group = format!("g{group}");
        let inbox = self.seats[relay].outbox.inbox();
        let lease = Duration::from_secs(10);
        let begun = inbox.begin(&group, id, lease).await.expect("the inbox answers");
        Answer::Begun(Some(match begun {
            Begun::Go(fence) => {
                self.begun.push((group, id, fence));
                Begun::Go(Fence(0))
            }
            other => other,
        }))
    }

    async fn finish(&self, relay: usize, begun: usize, well: bool) -> Answer {
        if self.begun.is_empty() {
            return Answer::Nothing;
        }
        let (group, id, fence) = &self.begun[self.begun.len() - 1 - begun % self.begun.len()];
        let failed = InboxEnd::Failed(Cause::new(Code::SinkBroken, "so it goes"));
        let end = if well { InboxEnd::Processed } else { failed };
        let inbox = self.seats[relay].outbox.inbox();
        let finished = inbox.finish(group, *id, *fence, end).await;
        Answer::Finished(finished.expect("the inbox answers"))
    }
}

/// Starts a relay: one lane holds the followers of `a.*`, the other lets the rest pass.
async fn seat(ground: &dyn Ground) -> Seat {
    let outbox = ground.relay().await;
    let pattern = || "a.*".parse().expect("a pattern");
    let a = Lane { topics: Topics::of(vec![(pattern(), true)]), order: Order::Hold };
    let rest = Lane { topics: Topics::unrouted([pattern()]), order: Order::Pass };
    let lanes = [outbox.lane(a), outbox.lane(rest)];
    Seat { outbox, lanes }
}
