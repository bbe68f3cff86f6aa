//! Storms: whole relays at work at once, each lane with several turns, and things go wrong.
//!
//! What happens is drawn from a seed, which every storm prints and `POSTBOX_SEED` gives again; when
//! it happens is left to the machine, so no two storms are alike all the same. What must hold at
//! the end holds whatever happened.
//!
//! The sleeps are the weather: how far apart events, crashes and ticks of the clock fall, and how
//! long a destination is silent. No check counts on what they bring about. The one wait before the
//! checks is for a fact: nothing is pending. Meanwhile time passes slower and slower, so that a
//! machine however busy gets a turn done before its claim is over.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{
    Answer, Backoff, Catalog, Cause, Code, Event, EventId, Filter, Listed, Order, Page, Policy,
    Receipt, Refusal, Sink, Status, Topics,
};
use fastrand::Rng;
use relay::{Lane, Options, SystemClock};
use store::Outbox;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::HandClock;
use crate::ground::Ground;

const EVENTS: usize = 600;
const KEYS: usize = 3;
/// How long a claim lasts, by the store's clock, which runs ten times as fast as the machine's.
const LEASE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(2);
const SPEED: u32 = 10;
/// After how many ticks of calm weather one takes twice as long, thrice, and so on.
const SLOWER: u32 = 200;
/// How long nothing may be settled in calm weather before what waits is said to wait for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Relays die, sleep and wake, the clock jumps both ways, the destination refuses, goes silent and
/// is down; then the weather calms. Every event is published or dead, once, and its key in order.
pub async fn whatever_goes_wrong_nothing_is_lost_and_keys_stay_in_order(ground: &dyn Ground) {
    let (storm, mut chance) = Storm::begin(ground, Weather::Wild).await;
    let mut fleet = Fleet::default();
    for _ in 0..3 {
        fleet.start(ground, &storm).await;
    }
    let (events, ()) = tokio::join!(storm.put(chance.fork()), async {
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(chance.u64(5..60))).await;
            match chance.u8(..6) {
                0..3 => {
                    fleet.kill_one(&mut chance).await;
                    fleet.start(ground, &storm).await;
                }
                3 => ground.clock().advance(2 * LEASE),
                4 => ground.clock().set_back(LEASE.mul_f64(chance.f64())),
                _ => fleet.stop_one(ground, &storm, &mut chance).await,
            }
        }
    });
    storm.calm().await;
    fleet.stop_all().await;
    storm.is_complete(&events).await;
    if ground.traits().ordered {
        storm.is_in_order(&events).await;
    }
}

/// Relays come and go as they should, and the destination refuses now and then: nothing of that is
/// a reason to publish an event twice.
pub async fn without_faults_no_event_is_published_twice(ground: &dyn Ground) {
    let (storm, mut chance) = Storm::begin(ground, Weather::Fair).await;
    let mut fleet = Fleet::default();
    for _ in 0..3 {
        fleet.start(ground, &storm).await;
    }
    let (events, ()) = tokio::join!(storm.put(chance.fork()), async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            fleet.stop_one(ground, &storm, &mut chance).await;
        }
    });
    storm.calm().await;
    fleet.stop_all().await;
    storm.is_complete(&events).await;
    let (rows, arrived, mut seen) = (storm.rows().await, storm.arrived(), HashSet::new());
    if let Some(twice) = arrived.iter().find(|id| !seen.insert(**id)) {
        panic!("published twice: {}", Told(&rows[twice], &arrived));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Wild,
    Fair,
}

/// The destination, the producer, and the time that passes.
struct Storm {
    outbox: Arc<dyn Outbox>,
    catalog: Arc<dyn Catalog>,
    weather: Weather,
    sink: Arc<Destination>,
    /// Passes until the storm is dropped.
    _time: JoinSet<()>,
}

impl Storm {
    /// Begins a storm, and returns what else is drawn from its seed.
    #[expect(clippy::print_stderr, reason = "a test that fails shows what it printed")]
    async fn begin(ground: &dyn Ground, weather: Weather) -> (Storm, Rng) {
        let asked = std::env::var("POSTBOX_SEED").ok().and_then(|text| text.parse().ok());
        let seed = asked.unwrap_or_else(|| fastrand::u64(..1 << 48));
        eprintln!("POSTBOX_SEED={seed} draws this storm again");
        let mut chance = Rng::with_seed(seed);
        let outbox = ground.relay().await;
        let catalog = outbox.catalog();
        let sink = Arc::new(Destination {
            weather,
            calm: false.into(),
            arrived: Mutex::default(),
            chance: Mutex::new(chance.fork()),
        });
        let mut time = JoinSet::new();
        time.spawn(pass(ground.clock().clone(), sink.clone()));
        (Storm { outbox, catalog, weather, sink, _time: time }, chance)
    }

    /// Puts every event, a few at a time.
    async fn put(&self, mut chance: Rng) -> Vec<Event> {
        let mut events = Vec::new();
        for number in 0..EVENTS {
            let topic = if number % 3 == 0 { "a.x" } else { "b.x" };
            let event = Event::new(topic, "T", "{}");
            let key = chance.usize(..KEYS + 1);
            events.push(if key < KEYS { event.key(key.to_string()) } else { event });
        }
        for some in events.chunks(4) {
            self.outbox.put(some, None).await.expect("the store takes events");
            tokio::time::sleep(Duration::from_millis(chance.u64(..4))).await;
        }
        events
    }

    /// Ends all trouble, and waits until nothing is pending.
    async fn calm(&self) {
        self.sink.calm.store(true, Ordering::SeqCst);
        let (mut settled, mut moved) = (0, Instant::now());
        loop {
            let counts = self.catalog.count().await.expect("the store counts");
            if counts.pending() == 0 {
                return;
            }
            if counts.sent + counts.dead > settled {
                (settled, moved) = (counts.sent + counts.dead, Instant::now());
            }
            if moved.elapsed() > PATIENCE {
                panic!("something waits for ever: {counts:?}\n{}", self.waiting().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn arrived(&self) -> Vec<EventId> {
        self.sink.arrived.lock().expect("no recording panics").clone()
    }

    /// Returns every row, by its event.
    async fn rows(&self) -> HashMap<EventId, Listed> {
        let page = Page { limit: 2 * EVENTS, after: None, payloads: false };
        let found = self.catalog.find(&Filter::default(), &page).await.expect("the store lists");
        let mut by_id = HashMap::new();
        for row in found.events {
            if let Some(other) = by_id.insert(row.event.id, row) {
                panic!("an event stands in two places: {other:?} and {:?}", by_id[&other.event.id]);
            }
        }
        by_id
    }

    /// Tells what is known of the first events that wait, and how often any arrived.
    async fn waiting(&self) -> String {
        let (rows, arrived) = (self.rows().await, self.arrived());
        let distinct: HashSet<_> = arrived.iter().collect();
        let told = format!("{} arrivals of {} events", arrived.len(), distinct.len());
        let waits = |row: &&Listed| !matches!(row.status, Status::Sent | Status::Dead);
        let first = rows.values().filter(waits).take(3);
        first.fold(told, |told, row| format!("{told}\n{}", Told(row, &arrived)))
    }

    /// Every event is published or dead, and what is called published has arrived.
    async fn is_complete(&self, events: &[Event]) {
        let (rows, arrived) = (self.rows().await, self.arrived());
        for event in events {
            let Some(row) = rows.get(&event.id) else { panic!("{event:?} was put and is lost") };
            let right = match row.status {
                Status::Sent => arrived.contains(&event.id),
                Status::Dead => self.weather == Weather::Wild,
                _ => false,
            };
            assert!(right, "an event must not end so: {}", Told(row, &arrived));
        }
        let put: HashSet<EventId> = events.iter().map(|event| event.id).collect();
        let strange = rows.values().find(|row| !put.contains(&row.event.id));
        assert!(strange.is_none(), "nobody put {strange:?}");
        let counts = self.catalog.count().await.expect("the store counts");
        let sent = rows.values().filter(|row| row.status == Status::Sent).count();
        assert_eq!(counts.sent, sent as u64, "published by the count, and by the rows: {counts:?}");
    }

    /// What arrived for a key arrived first in the order of its commits, the dead left out.
    async fn is_in_order(&self, events: &[Event]) {
        let rows = self.rows().await;
        let (arrived, mut seen) = (self.arrived(), HashSet::new());
        let first: Vec<EventId> = arrived.iter().copied().filter(|id| seen.insert(*id)).collect();
        for (topic, key) in ["a.x", "b.x"].into_iter().flat_map(|t| (0..KEYS).map(move |k| (t, k)))
        {
            let key = Some(key.to_string());
            let line = events.iter().filter(|event| event.topic == topic && event.key == key);
            let line = line.filter(|event| rows[&event.id].status == Status::Sent);
            let line: Vec<EventId> = line.map(|event| event.id).collect();
            let came: Vec<EventId> = first.iter().filter(|id| line.contains(id)).copied().collect();
            let wrong = line.iter().zip(&came).position(|(next, came)| next != came);
            if let Some(at) = wrong {
                let told = |id: EventId| Told(&rows[&id], &arrived).to_string();
                let (next, came) = (told(line[at]), told(came[at]));
                panic!("{topic} {key:?} came out of order at {at}: not\n{next}\nbut\n{came}");
            }
        }
    }
}

/// What is known of an event: its row, and which of all arrivals were its own.
struct Told<'a>(&'a Listed, &'a [EventId]);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told(row, arrived) = self;
        let at: Vec<usize> = (0..arrived.len()).filter(|at| arrived[*at] == row.event.id).collect();
        write!(f, "{row:?}, which arrived as number {at:?} of {}", arrived.len())
    }
}

/// Passes time: once the weather is calm ever slower, and without end, so that a claim lasts as
/// long as a turn takes here and yet runs out if nobody is left to settle it.
async fn pass(clock: HandClock, sink: Arc<Destination>) {
    let mut calm = 0;
    loop {
        tokio::time::sleep(TICK + TICK * calm / SLOWER).await;
        clock.advance(TICK * SPEED);
        calm += u32::from(sink.calm.load(Ordering::SeqCst));
    }
}

/// A destination that remembers what arrived.
struct Destination {
    weather: Weather,
    calm: AtomicBool,
    arrived: Mutex<Vec<EventId>>,
    chance: Mutex<Rng>,
}

impl Destination {
    async fn answer(&self, event: &Event) -> Answer {
        let cause = || Cause::new(Code::SinkBusy, "so it goes");
        let arrives = || self.arrived.lock().expect("no recording panics").push(event.id);
        let receipt = Receipt { broker_id: None };
        if self.calm.load(Ordering::SeqCst) {
            arrives();
            return Ok(receipt);
        }
        let drawn = self.chance.lock().expect("no drawing panics").u8(..100);
        match (self.weather, drawn) {
            (_, 0..10) => Err(Refusal::Retry(cause(), None)),
            (_, 10..13) => Err(Refusal::Down(cause())),
            (Weather::Wild, 13..15) => Err(Refusal::Reject(cause())),
            (Weather::Wild, 15..18) => {
                arrives();
                Err(Refusal::Unknown(cause()))
            }
            (Weather::Wild, 18..20) => {
                // Longer than the claim lasts: whoever wakes here has lost it.
                tokio::time::sleep(2 * LEASE / SPEED).await;
                arrives();
                Ok(receipt)
            }
            _ => {
                arrives();
                Ok(receipt)
            }
        }
    }
}

#[async_trait]
impl Sink for Destination {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let (mut answers, mut refused): (Vec<Answer>, HashSet<&str>) = Default::default();
        for event in events {
            let held = event.key.as_deref().is_some_and(|key| refused.contains(key));
            let answer = if held { Err(Refusal::Held) } else { self.answer(event).await };
            if let (Some(key), Err(_)) = (event.key.as_deref(), &answer) {
                refused.insert(key);
            }
            answers.push(answer);
        }
        answers
    }

    async fn probe(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The relays at work.
#[derive(Default)]
struct Fleet {
    relays: Vec<(CancellationToken, JoinSet<()>)>,
}

impl Fleet {
    async fn start(&mut self, ground: &dyn Ground, storm: &Storm) {
        let outbox = ground.relay().await;
        let stop = CancellationToken::new();
        let mut lanes = JoinSet::new();
        let a = || "a.*".parse().expect("a pattern");
        for topics in [Topics::of(vec![(a(), true)]), Topics::unrouted([a()])] {
            let source = outbox.lane(store::Lane { topics, order: Order::Hold });
            let lane = Lane {
                outbox: "storm".into(),
                sink_name: "destination".into(),
                source,
                sink: storm.sink.clone(),
                clock: Arc::new(SystemClock),
                policy: policy(),
                options: options(storm.weather),
            };
            let stop = stop.clone();
            lanes.spawn(async move { lane.run(&stop).await.expect("a lane goes on") });
        }
        self.relays.push((stop, lanes));
    }

    /// Ends a relay as a crash does: at once, and with everything in hand. A lane that had ended by
    /// itself fails the storm.
    async fn kill_one(&mut self, chance: &mut Rng) {
        let (_, mut lanes) = self.relays.swap_remove(chance.usize(..self.relays.len()));
        lanes.abort_all();
        while let Some(ended) = lanes.join_next().await {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Ends a relay as it should end, and starts another.
    async fn stop_one(&mut self, ground: &dyn Ground, storm: &Storm, chance: &mut Rng) {
        let (stop, lanes) = self.relays.swap_remove(chance.usize(..self.relays.len()));
        stop.cancel();
        lanes.join_all().await;
        self.start(ground, storm).await;
    }

    async fn stop_all(self) {
        for (stop, lanes) in self.relays {
            stop.cancel();
            lanes.join_all().await;
        }
    }
}

fn policy() -> Policy {
    let backoff = Backoff { base: Duration::from_millis(20), cap: Duration::from_millis(200) };
    Policy { limits: Vec::new(), attempts: 12, backoff, rest: Duration::from_millis(5) }
}

/// In fair weather no claim ever runs out.
fn options(weather: Weather) -> Options {
    let lease = match weather {
        Weather::Wild => LEASE,
        Weather::Fair => 1000 * LEASE,
    };
    let (idle, drain) = (Duration::from_millis(5), Duration::from_secs(30));
    Options { batch: 7, bytes: 1 << 20, lease, idle, turns: 3, drain }
}
