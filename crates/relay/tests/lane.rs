//! A lane between a scripted source and a scripted sink, on tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Address, Answer, Backoff, Cause, Claim, Clock, Code, Event, Fence, Millis, Outcome, Policy,
    Receipt, Refusal, Settled, Settlement, Shelf, Sink, Source, StoreError, Want,
};
use postbox_relay::{Lane, Options, Unrouted};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_turn_settles_each_event_by_its_own_answer() {
    let world = World::new([claims(4)]);
    world.sink.answer([
        Ok(Receipt { broker_id: Some("7".into()) }),
        Err(Refusal::Retry(cause(Code::SinkBusy), None)),
        Err(Refusal::Held),
        Err(Refusal::Reject(cause(Code::SinkRefused))),
    ]);
    world.run_until_settled(1).await;
    let outcomes = world.source.outcomes();
    assert!(matches!(&outcomes[0], Outcome::Done(receipt) if receipt.broker_id.is_some()));
    assert!(matches!(&outcomes[1], Outcome::Retry { cause, .. } if cause.code == Code::SinkBusy));
    assert_eq!(outcomes[2], Outcome::Release { after: Duration::ZERO });
    assert!(matches!(&outcomes[3], Outcome::Dead(cause) if cause.code == Code::SinkRefused));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_spent_its_attempts_is_dead_without_being_offered() {
    let mut batch = claims(2);
    (batch[0].attempt, batch[0].unexplained) = (4, 1);
    let world = World::new([batch]);
    world.run_until_settled(1).await;
    let outcomes = world.source.outcomes();
    assert!(matches!(&outcomes[0], Outcome::Dead(cause) if cause.code == Code::CrashLoop));
    assert!(matches!(&outcomes[1], Outcome::Done(_)));
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_beyond_the_limits_is_dead_without_being_offered_and_others_go_on() {
    let break_all: [fn(&mut Event); 4] = [
        |event| event.key = Some("two\nlines".into()),
        |event| event.kind = String::new(),
        |event| event.payload = event::Payload::Text("x".repeat((1 << 20) + 1)),
        |event| drop(event.headers.0.insert("h".into(), "x".repeat(1 << 14))),
    ];
    let mut batch = claims(5);
    for (claim, break_it) in batch.iter_mut().zip(break_all) {
        break_it(&mut claim.event);
    }
    let world = World::new([batch]);
    world.run_until_settled(5).await;
    let outcomes = world.source.outcomes();
    for outcome in &outcomes[..4] {
        let Outcome::Dead(cause) = outcome else { panic!("{outcomes:?}") };
        assert_eq!(cause.code, Code::BadEvent);
    }
    assert!(matches!(outcomes[4], Outcome::Done(_)));
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_is_down_rests_the_lane_until_a_probe_succeeds() {
    let world = World::new([claims(2), claims(1)]);
    let down = || Err(Refusal::Down(cause(Code::SinkDown)));
    world.sink.answer([down(), down()]);
    world.sink.up.store(false, Ordering::SeqCst);
    let stop = CancellationToken::new();
    let running = world.spawn(&stop);

    world.sink.until_probed(3).await;
    assert_eq!(world.source.claimed.load(Ordering::SeqCst), 1, "a resting lane claims nothing");
    let released = Outcome::Release { after: SECOND };
    assert_eq!(world.source.outcomes(), [released.clone(), released]);

    world.sink.up.store(true, Ordering::SeqCst);
    world.source.until_settled(3).await;
    assert!(matches!(world.source.outcomes()[2], Outcome::Done(_)));
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_written_down_as_soon_as_the_store_is_back() {
    let world = World::new([claims(1)]);
    world.source.fail_settling.store(20, Ordering::SeqCst);
    world.run_until_settled(1).await;
    assert!(matches!(world.source.outcomes()[0], Outcome::Done(_)));
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 1, "published once");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_down_beyond_the_lease_is_not_settled_in_vain() {
    let world = World::new([claims(1), claims(1)]);
    world.source.fail_settling.store(101, Ordering::SeqCst);
    world.run_until_settled(1).await;
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 2, "the lane went on with a new claim");
}

#[tokio::test(start_paused = true)]
async fn where_much_waits_a_turn_is_settled_while_the_next_one_publishes() {
    let mut world = World::new([claims(2), claims(2), claims(2)]);
    world.lane.options.batch = 2;
    *world.source.settle_takes.lock().unwrap() = 5 * SECOND;
    world.run_until_settled(6).await;
    assert_eq!(world.source.settled_by_claim(), [0, 0, 2], "no turn gets further ahead");
    assert_eq!(world.source.outcomes().len(), 6, "each is settled once");
}

#[tokio::test(start_paused = true)]
async fn where_little_waits_a_turn_is_settled_before_the_next_one_claims() {
    let world = World::new([claims(2), claims(2)]);
    *world.source.settle_takes.lock().unwrap() = 5 * SECOND;
    world.run_until_settled(4).await;
    assert_eq!(world.source.settled_by_claim(), [0, 2]);
}

#[tokio::test(start_paused = true)]
async fn after_a_claim_in_vain_beside_a_settlement_so_many_turns_are_taken_apart() {
    let batches = [2, 0].into_iter().chain([2; 18]).map(claims);
    let mut world = World::new(batches);
    world.lane.options.batch = 2;
    *world.source.settle_takes.lock().unwrap() = 5 * SECOND;
    world.run_until_settled(38).await;
    let apart = (0..=17).map(|turns| 2 * turns);
    assert_eq!(world.source.settled_by_claim(), apart.chain([34]).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_a_settlement_and_for_the_turn_beside_it() {
    let mut world = World::new([claims(2), claims(2), claims(2)]);
    world.lane.options.batch = 2;
    *world.source.settle_takes.lock().unwrap() = 5 * SECOND;
    let stop = CancellationToken::new();
    let running = world.spawn(&stop);
    until(|| world.sink.offered.load(Ordering::SeqCst) >= 4).await;
    assert_eq!(world.source.outcomes(), [], "the first turn is being settled");
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(world.source.outcomes().len(), 4, "nothing more is claimed");
    assert!(world.source.released.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_turn_beside_a_settlement_that_finds_the_destination_down_rests_the_lane() {
    let mut world = World::new([claims(2), claims(2), claims(2)]);
    world.lane.options.batch = 2;
    let (fine, down) = (Receipt { broker_id: None }, Refusal::Down(cause(Code::SinkDown)));
    world.sink.answer([Ok(fine.clone()), Ok(fine), Err(down.clone()), Err(down)]);
    world.sink.up.store(false, Ordering::SeqCst);
    let stop = CancellationToken::new();
    let running = world.spawn(&stop);
    world.sink.until_probed(3).await;
    assert_eq!(world.source.claimed.load(Ordering::SeqCst), 2, "a resting lane claims nothing");
    assert_eq!(world.source.outcomes().len(), 4);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_down_beside_a_turn_is_left_to_the_lease() {
    let mut world = World::new([claims(2), claims(2)]);
    world.lane.options.batch = 2;
    world.source.fail_settling.store(101, Ordering::SeqCst);
    world.run_until_settled(2).await;
    assert!(!world.source.released.load(Ordering::SeqCst), "what was published is handed over");
}

#[tokio::test(start_paused = true)]
async fn what_was_published_beside_a_settlement_in_vain_is_settled_itself() {
    let mut world = World::new([claims(2), claims(2)]);
    world.lane.options.batch = 2;
    world.source.fail_settling.store(101, Ordering::SeqCst);
    world.run_until_settled(2).await;
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 4);
    assert_eq!(world.source.outcomes().len(), 2, "the first turn's lease is over");
}

#[tokio::test(start_paused = true)]
async fn a_broken_store_ends_the_lane_with_its_cause() {
    let world = World::new([]);
    world.source.broken.store(true, Ordering::SeqCst);
    let ended = world.lane.run(&CancellationToken::new()).await;
    assert_eq!(ended.unwrap_err().code, Code::SchemaMissing);
    assert!(world.source.released.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_the_turn_under_way_and_hands_the_lease_over() {
    let world = World::new([claims(1)]);
    world.stop_while_the_sink_takes(5 * SECOND).await;
    assert!(matches!(world.source.outcomes()[0], Outcome::Done(_)));
    assert!(world.source.released.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_is_cut_may_have_arrived_and_is_never_called_unoffered() {
    let world = World::new([claims(2)]);
    world.stop_while_the_sink_takes(60 * SECOND).await;
    let outcomes = world.source.outcomes();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    for outcome in outcomes {
        let Outcome::Retry { cause, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(cause.code, Code::SinkTimeout);
        assert!(cause.detail.contains("may have arrived"), "{cause}");
    }
    assert!(world.source.released.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn what_is_claimed_while_the_lane_stops_is_put_back_unoffered() {
    let world = World::new([claims(2)]);
    *world.source.claim_takes.lock().unwrap() = SECOND;
    let stop = CancellationToken::new();
    let running = world.spawn(&stop);
    until(|| world.source.claimed.load(Ordering::SeqCst) >= 1).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 0);
    let released = Outcome::Release { after: Duration::ZERO };
    assert_eq!(world.source.outcomes(), [released.clone(), released]);
}

#[tokio::test(start_paused = true)]
async fn claims_whose_outcomes_cannot_be_written_down_are_left_to_the_lease() {
    let mut world = World::new([claims(1)]);
    world.lane.options.lease = 600 * SECOND;
    world.source.fail_settling.store(usize::MAX, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    world.stop_while_the_sink_takes(SECOND).await;
    assert!(!world.source.released.load(Ordering::SeqCst), "what was published is handed over");
    assert!(began.elapsed() < 30 * SECOND, "a stop takes no longer than the drain and a little");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_brings_relays_down_is_dead_long_before_a_patient_limit() {
    let mut batch = claims(2);
    (batch[0].attempt, batch[0].unexplained) = (20, 19);
    (batch[1].attempt, batch[1].unexplained) = (21, 20);
    let mut world = World::new([batch]);
    world.lane.policy.attempts = 200;
    world.run_until_settled(2).await;
    let outcomes = world.source.outcomes();
    assert!(matches!(&outcomes[0], Outcome::Dead(cause) if cause.code == Code::CrashLoop));
    assert!(matches!(&outcomes[1], Outcome::Done(_)), "{outcomes:?}");
    assert_eq!(world.sink.offered.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_topic_without_a_route_is_rejected_by_name() {
    let answers = Unrouted.publish(&[Event::new("lost.topic", "Lost", "{}")]).await;
    let Err(Refusal::Reject(cause)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(cause.code, Code::Unrouted);
    assert!(cause.detail.contains("lost.topic"));
}

struct World {
    lane: Lane,
    source: Arc<Script>,
    sink: Arc<Destination>,
}

impl World {
    fn new(batches: impl IntoIterator<Item = Vec<Claim>>) -> World {
        let source = Arc::new(Script::default());
        source.batches.lock().unwrap().extend(batches);
        let sink = Arc::new(Destination::default());
        let backoff = Backoff { base: SECOND, cap: 60 * SECOND };
        let lane = Lane {
            outbox: "orders".into(),
            sink_name: "stock".into(),
            source: source.clone(),
            sink: sink.clone(),
            clock: Arc::new(Paused(tokio::time::Instant::now())),
            policy: Policy { limits: Vec::new(), attempts: 3, backoff, rest: SECOND },
            options: Options {
                batch: 10,
                bytes: 1 << 20,
                lease: 10 * SECOND,
                idle: SECOND,
                turns: 1,
                drain: 20 * SECOND,
            },
        };
        World { lane, source, sink }
    }

    fn spawn(&self, stop: &CancellationToken) -> tokio::task::JoinHandle<Result<(), Cause>> {
        let (lane, stop) = (self.lane.clone(), stop.clone());
        tokio::spawn(async move { lane.run(&stop).await })
    }

    async fn run_until_settled(&self, most: usize) {
        let stop = CancellationToken::new();
        let running = self.spawn(&stop);
        self.source.until_settled(most).await;
        stop.cancel();
        running.await.unwrap().unwrap();
    }

    async fn stop_while_the_sink_takes(&self, delay: Duration) {
        *self.sink.delay.lock().unwrap() = delay;
        let stop = CancellationToken::new();
        let running = self.spawn(&stop);
        until(|| self.sink.offered.load(Ordering::SeqCst) >= 1).await;
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

struct Paused(tokio::time::Instant);

#[async_trait]
impl Clock for Paused {
    fn now(&self) -> Millis {
        Millis(0) + self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[derive(Default)]
struct Script {
    batches: Mutex<VecDeque<Vec<Claim>>>,
    settled: Mutex<Vec<Settlement>>,
    claimed: AtomicUsize,
    /// How many were settled when each claim was made that claimed something.
    settled_by_claim: Mutex<Vec<usize>>,
    claim_takes: Mutex<Duration>,
    settle_takes: Mutex<Duration>,
    fail_settling: AtomicUsize,
    broken: AtomicBool,
    released: AtomicBool,
}

impl Script {
    fn outcomes(&self) -> Vec<Outcome> {
        self.settled.lock().unwrap().iter().map(|end| end.outcome.clone()).collect()
    }

    fn settled_by_claim(&self) -> Vec<usize> {
        self.settled_by_claim.lock().unwrap().clone()
    }

    async fn until_settled(&self, count: usize) {
        until(|| self.settled.lock().unwrap().len() >= count).await;
    }
}

#[async_trait]
impl Source for Script {
    async fn claim(&self, _: &Want) -> Result<Vec<Claim>, StoreError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::Broken(cause(Code::SchemaMissing)));
        }
        let batch = self.batches.lock().unwrap().pop_front().unwrap_or_default();
        self.claimed.fetch_add(usize::from(!batch.is_empty()), Ordering::SeqCst);
        if !batch.is_empty() {
            let settled = self.settled.lock().unwrap().len();
            self.settled_by_claim.lock().unwrap().push(settled);
        }
        let takes = *self.claim_takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        Ok(batch)
    }

    async fn settle(&self, ends: &[Settlement]) -> Result<Settled, StoreError> {
        let left = self.fail_settling.load(Ordering::SeqCst);
        if left > 0 {
            self.fail_settling.store(left - 1, Ordering::SeqCst);
            return Err(StoreError::Down(cause(Code::StoreDown)));
        }
        let takes = *self.settle_takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        self.settled.lock().unwrap().extend_from_slice(ends);
        Ok(Settled { settled: ends.len(), stale: Vec::new() })
    }

    async fn wait(&self, at_most: Duration) {
        tokio::time::sleep(at_most).await;
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.released.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[derive(Default)]
struct Destination {
    answers: Mutex<VecDeque<Answer>>,
    delay: Mutex<Duration>,
    offered: AtomicUsize,
    probed: AtomicUsize,
    up: AtomicBool,
}

impl Destination {
    fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    async fn until_probed(&self, count: usize) {
        until(|| self.probed.load(Ordering::SeqCst) >= count).await;
    }
}

#[async_trait]
impl Sink for Destination {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        self.offered.fetch_add(events.len(), Ordering::SeqCst);
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        let mut answers = self.answers.lock().unwrap();
        let fine = || Ok(Receipt { broker_id: None });
        events.iter().map(|_| answers.pop_front().unwrap_or_else(fine)).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        self.probed.fetch_add(1, Ordering::SeqCst);
        let up = self.up.load(Ordering::SeqCst);
        if up { Ok(()) } else { Err(Refusal::Down(cause(Code::SinkDown))) }
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
    Cause::new(code, "scripted")
}
