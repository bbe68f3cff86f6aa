//! Lanes whose store breaks and is mended, on tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Address, Answer, Backoff, Cause, Claim, Clock, Code, Event, Fence, Millis, Policy, Receipt,
    Refusal, Settled, Settlement, Shelf, Sink, Source, StoreError, Want,
};
use postbox_relay::{Fleet, Health, Lane, Mending, Options};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_broken_store_is_asked_after_growing_pauses_and_its_lane_goes_on_once_it_is_mended() {
    let world = World::new(Breaks::Claims);
    let (stop, fleet) = (CancellationToken::new(), Fleet::of(2));
    let running = world.spawn(&fleet, 0, None, &stop);
    until(|| world.store().claims.len() == 12).await;
    let asked: Vec<Instant> = world.store().claims.iter().map(|(at, _)| *at).collect();
    for (at, pair) in asked.windows(2).enumerate() {
        let (pause, meant) = (pair[1] - pair[0], (1 << at).min(60) * SECOND);
        assert!(pause >= meant / 2 && pause <= meant * 3 / 2 + SECOND, "{at}: {pause:?}");
    }
    assert_eq!(world.told(), ["broken"]);

    world.store().breaks = Breaks::Nothing;
    world.store().batches.push_back(claims(1));
    until(|| world.store().settled == 1).await;
    assert_eq!(world.told(), ["broken", "mended"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lanes_that_were_all_broken_from_the_start_end_at_once() {
    let worlds = [World::new(Breaks::Claims), World::new(Breaks::Claims)];
    let (stop, fleet, began) = (CancellationToken::new(), Fleet::of(2), Instant::now());
    let first = worlds[0].spawn(&fleet, 0, None, &stop);
    until(|| worlds[0].told() == ["broken"]).await;
    assert!(!first.is_finished(), "the other may work");
    let second = worlds[1].spawn(&fleet, 1, None, &stop);
    assert_eq!(second.await.unwrap().unwrap_err().code, Code::SchemaMissing);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    stop.cancel();
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_in_which_nothing_works_any_more_is_tried_for_a_while_and_then_ends() {
    let world = World::new(Breaks::Nothing);
    let stop = CancellationToken::new();
    let running = world.spawn(&Fleet::of(1), 0, None, &stop);
    until(|| !world.store().claims.is_empty()).await;
    let began = Instant::now();
    world.store().breaks = Breaks::Claims;
    assert_eq!(running.await.unwrap().unwrap_err().code, Code::SchemaMissing);
    let lasted = began.elapsed();
    assert!(lasted >= 300 * SECOND && lasted < 400 * SECOND, "{lasted:?}");
    assert!(world.store().closed, "the sink is closed at the end");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_not_one_to_work_with_is_not_claimed_from() {
    let world = World::new(Breaks::Nothing);
    world.store().unready = Some(cause(Code::SchemaUnknown));
    world.store().batches.push_back(claims(1));
    let (stop, fleet) = (CancellationToken::new(), Fleet::of(2));
    let running = world.spawn(&fleet, 0, Some(cause(Code::SchemaUnknown)), &stop);
    until(|| world.store().asked == 5).await;
    assert_eq!(world.store().claims.len(), 0);
    world.store().unready = None;
    until(|| world.store().settled == 1).await;
    assert_eq!(world.told(), ["broken", "mended"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_down_is_left_to_the_lease_in_every_later_try() {
    let world = World::new(Breaks::Settlements);
    world.store().batches.push_back(claims(2));
    let (stop, fleet) = (CancellationToken::new(), Fleet::of(2));
    let running = world.spawn(&fleet, 0, None, &stop);
    until(|| world.told() == ["broken"]).await;
    world.store().breaks = Breaks::Claims;
    let asked = world.store().claims.len();
    until(|| world.store().claims.len() >= asked + 5).await;
    world.store().breaks = Breaks::Nothing;
    world.store().batches.push_back(claims(1));
    until(|| world.store().settled == 1).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(world.store().released, 0, "what was published is handed over");
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_leaves_nothing_behind_hands_its_lease_over_before_it_pauses() {
    let world = World::new(Breaks::Claims);
    let (stop, fleet) = (CancellationToken::new(), Fleet::of(2));
    let running = world.spawn(&fleet, 0, None, &stop);
    until(|| world.told() == ["broken"]).await;
    assert_eq!(world.store().released, 1);
    let waits = world.store().waits;
    until(|| world.store().claims.len() == 6).await;
    assert_eq!(world.store().waits, waits, "a lane that pauses asks its store nothing");
    let told = Instant::now();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(told.elapsed() < SECOND, "a stop waits for no pause");
    assert!(world.store().closed);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_write_costs_one_event_a_try_and_not_a_batch() {
    let world = World::new(Breaks::Settlements);
    world.store().batches.extend([claims(5), claims(1), claims(1)]);
    let (stop, fleet) = (CancellationToken::new(), Fleet::of(2));
    let running = world.spawn(&fleet, 0, None, &stop);
    until(|| world.store().batches.is_empty()).await;
    world.store().breaks = Breaks::Nothing;
    let wanted = || world.store().claims.iter().map(|(_, limit)| *limit).collect::<Vec<_>>();
    until(|| wanted().len() > 1 && wanted().ends_with(&[10])).await;
    let ones = wanted().iter().skip(1).take_while(|limit| **limit == 1).count();
    assert!(ones >= 3 && wanted()[1 + ones] == 10, "{:?}", wanted());
    assert_eq!((wanted()[0], world.store().settled), (10, 0), "nothing waits any more");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_to_claim_under_the_lease_of_what_is_owed_does_not_show_that_it_is_mended() {
    let world = World::new(Breaks::Settlements);
    world.store().batches.push_back(claims(1));
    let (stop, fleet, began) = (CancellationToken::new(), Fleet::of(2), Instant::now());
    let running = world.spawn(&fleet, 0, None, &stop);
    until(|| world.told() == ["broken", "mended"]).await;
    assert!(began.elapsed() >= LEASE, "{:?}", began.elapsed());
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// What a store cannot do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Nothing,
    Claims,
    Settlements,
}

struct State {
    breaks: Breaks,
    /// Why it is not one to work with.
    unready: Option<Cause>,
    /// How often that was asked.
    asked: usize,
    batches: VecDeque<Vec<Claim>>,
    /// When each claim was made, and how much it wanted.
    claims: Vec<(Instant, usize)>,
    settled: usize,
    waits: usize,
    released: usize,
    told: Vec<&'static str>,
    closed: bool,
}

/// A store that breaks and is mended by hand, and all that is around it.
#[derive(Clone)]
struct World(Arc<Mutex<State>>);

impl World {
    fn new(breaks: Breaks) -> World {
        let (batches, claims, told) = (VecDeque::new(), Vec::new(), Vec::new());
        World(Arc::new(Mutex::new(State {
            breaks,
            unready: None,
            asked: 0,
            batches,
            claims,
            settled: 0,
            waits: 0,
            released: 0,
            told,
            closed: false,
        })))
    }

    fn store(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Returns what the lane has told, each once in a row.
    fn told(&self) -> Vec<&'static str> {
        let mut told = self.store().told.clone();
        told.dedup();
        told
    }

    fn spawn(
        &self,
        fleet: &Arc<Fleet>,
        place: usize,
        known: Option<Cause>,
        stop: &CancellationToken,
    ) -> JoinHandle<Result<(), Cause>> {
        let backoff = Backoff { base: SECOND, cap: 60 * SECOND };
        let lane = Lane {
            outbox: "orders".into(),
            sink_name: "stock".into(),
            source: Arc::new(self.clone()),
            sink: Arc::new(self.clone()),
            clock: Arc::new(Paused(Instant::now())),
            policy: Policy { limits: Vec::new(), attempts: 3, backoff, rest: SECOND },
            options: Options {
                batch: 10,
                bytes: 1 << 20,
                lease: LEASE,
                idle: SECOND,
                turns: 1,
                drain: 20 * SECOND,
            },
        };
        let health = Arc::new(self.clone());
        let (mending, stop) = (Mending { lane, health, fleet: fleet.clone(), place }, stop.clone());
        tokio::spawn(async move { mending.run(known, &stop).await })
    }
}

#[async_trait]
impl Health for World {
    async fn ready(&self) -> Result<(), StoreError> {
        let mut store = self.store();
        store.asked += 1;
        store.unready.clone().map_or(Ok(()), |cause| Err(StoreError::Broken(cause)))
    }

    fn broken(&self, _: &Cause) {
        self.store().told.push("broken");
    }

    fn mended(&self) {
        self.store().told.push("mended");
    }
}

#[async_trait]
impl Source for World {
    async fn claim(&self, want: &Want) -> Result<Vec<Claim>, StoreError> {
        let mut store = self.store();
        store.claims.push((Instant::now(), want.limit));
        if store.breaks == Breaks::Claims {
            return Err(StoreError::Broken(cause(Code::SchemaMissing)));
        }
        Ok(store.batches.pop_front().unwrap_or_default())
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let mut store = self.store();
        if store.breaks != Breaks::Nothing {
            return Err(StoreError::Broken(cause(Code::StoreBroken)));
        }
        store.settled += ends.len();
        Ok(Settled { settled: ends.len(), stale: Vec::new() })
    }

    async fn wait(&self, at_most: Duration) {
        self.store().waits += 1;
        tokio::time::sleep(at_most).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.store().released += 1;
        Ok(())
    }
}

#[async_trait]
impl Sink for World {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        events.iter().map(|_| Ok(Receipt { broker_id: None })).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        Ok(())
    }

    async fn close(&self) {
        self.store().closed = true;
    }
}

struct Paused(Instant);

#[async_trait]
impl Clock for Paused {
    fn now(&self) -> Millis {
        Millis(0) + self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

async fn until(fact: impl Fn() -> bool) {
    while !fact() {
        tokio::time::advance(Duration::from_millis(10)).await;
        tokio::task::yield_now().await;
    }
}

fn claims(count: i64) -> Vec<Claim> {
    let claim = |number| Claim {
        event: Event::new("order.paid", "OrderPaid", "{}"),
        address: Address { shelf: Shelf::Hot, shard: 0, number },
        fence: Fence(1),
        due: Millis::now(),
        attempt: 1,
        unexplained: 0,
    };
    (1..=count).map(claim).collect()
}

fn cause(code: Code) -> Cause {
    Cause::new(code, "as the test says")
}
