//! The gauges of an outbox tell what its database last said, or that it says nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::future::pending;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Catalog, Cause, Code, Counts, EventId, Filter, Listing, Millis, Page, Pulse, Requeued,
    StoreError,
};
use postbox_telemetry::Telemetry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Only the first of a process has the metrics page.
static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(Telemetry::install);

const EVERY: Duration = Duration::from_secs(1);

/// Returns one that shares no chart with the others.
fn apart() -> Telemetry {
    LazyLock::force(&TELEMETRY);
    Telemetry::install()
}

#[tokio::test(start_paused = true)]
async fn a_database_that_does_not_answer_leaves_no_number_standing() {
    let (database, telemetry) = (Database::new(Mood::Answers), &*TELEMETRY);
    let (stop, sampling) = database.sampled(telemetry.clone(), "orders");
    assert!(telemetry.answers("orders").is_err(), "nobody asked it yet");

    let known = [
        r#"postbox_outbox_up{outbox="orders"} 1"#,
        r#"postbox_events{outbox="orders",status="NEW"} 7"#,
        r#"postbox_events_estimated{outbox="orders"} 1"#,
        r#"postbox_oldest_due_seconds{outbox="orders"} 3"#,
    ];
    let unknown = [
        r#"postbox_outbox_up{outbox="orders"} 0"#,
        r#"postbox_events{outbox="orders",status="NEW"} NaN"#,
        r#"postbox_events{outbox="orders",status="DEAD"} NaN"#,
        r#"postbox_events_estimated{outbox="orders"} NaN"#,
        r#"postbox_oldest_due_seconds{outbox="orders"} NaN"#,
    ];
    database.until_shown(&known).await;
    telemetry.answers("orders").unwrap();
    for (mood, code) in [(Mood::Fails, Code::StoreDown), (Mood::Sleeps, Code::StoreBusy)] {
        database.is(mood);
        database.until_shown(&unknown).await;
        assert_eq!(telemetry.answers("orders").unwrap_err().code, code);
        let pending = telemetry.beats(1).last().unwrap().pending;
        assert_eq!(pending, 7, "the chart goes on with what was known");
        database.is(Mood::Answers);
        database.until_shown(&known).await;
        telemetry.answers("orders").unwrap();
    }
    stop.cancel();
    sampling.await.unwrap();
}

/// A database that has to look at many rows is asked less often, so that counting costs next to
/// nothing however much there is to count.
#[tokio::test(start_paused = true)]
async fn counting_takes_no_more_than_a_small_part_of_the_time() {
    for (takes, pause) in [(0, 1), (1, 1), (15, 8), (20, 10), (4000, 15)] {
        let (takes, pause) = (Duration::from_millis(takes), Duration::from_secs(pause));
        let database = Database::new(Mood::Takes(takes));
        let (stop, sampling) = database.sampled(apart(), "large");
        database.asked_again().await;
        let first = Instant::now();
        for _ in 0..3 {
            database.asked_again().await;
        }
        let (each, tick) = (first.elapsed() / 3, EVERY);
        assert!(each >= pause && each <= pause + takes + tick, "{takes:?}: every {each:?}");
        stop.cancel();
        sampling.await.unwrap();
    }
}

/// However long a count took, a database that fails is asked again soon: somebody waits for it.
#[tokio::test(start_paused = true)]
async fn a_database_that_fails_is_asked_again_at_once() {
    let database = Database::new(Mood::Sleeps);
    let (stop, sampling) = database.sampled(apart(), "silent");
    database.asked_again().await;
    let first = Instant::now();
    database.asked_again().await;
    assert!(first.elapsed() <= Duration::from_secs(5) + EVERY, "{:?}", first.elapsed());
    stop.cancel();
    sampling.await.unwrap();
}

/// Nobody mends it within a second, and a login that fails often may be locked.
#[tokio::test(start_paused = true)]
async fn a_database_that_is_broken_is_asked_again_seldom() {
    let database = Database::new(Mood::Breaks);
    let (stop, sampling) = database.sampled(apart(), "broken");
    database.asked_again().await;
    let first = Instant::now();
    database.asked_again().await;
    assert!(first.elapsed() >= Duration::from_secs(15), "{:?}", first.elapsed());
    stop.cancel();
    sampling.await.unwrap();
}

#[derive(Clone, Copy)]
enum Mood {
    Answers,
    Takes(Duration),
    Fails,
    Breaks,
    Sleeps,
}

struct Database {
    mood: Mutex<Mood>,
    asked: watch::Sender<u32>,
}

impl Database {
    fn new(mood: Mood) -> Arc<Database> {
        Arc::new(Database { mood: Mutex::new(mood), asked: watch::Sender::new(0) })
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn sampled(
        self: &Arc<Database>,
        telemetry: Telemetry,
        name: &str,
    ) -> (CancellationToken, JoinHandle<()>) {
        let (stop, name, database) = (CancellationToken::new(), name.to_owned(), self.clone());
        let ends = stop.clone();
        let sampling = async move { telemetry.sample(name, database, EVERY, ends).await };
        (stop, tokio::spawn(sampling))
    }

    /// Waits until it is asked once more: what it said before is shown by then.
    async fn asked_again(&self) {
        self.asked.subscribe().changed().await.unwrap();
    }

    /// Waits until the page holds all lines.
    async fn until_shown(&self, lines: &[&str]) {
        for _ in 0..100 {
            self.asked_again().await;
            let page = TELEMETRY.metrics();
            if lines.iter().all(|line| page.contains(line)) {
                return;
            }
        }
        panic!("{lines:?}\nare not all in\n{}", TELEMETRY.metrics());
    }
}

#[async_trait]
impl Catalog for Database {
    async fn count(&self) -> Result<Counts, StoreError> {
        self.asked.send_modify(|asked| *asked += 1);
        let mood = *self.mood.lock().unwrap();
        let (oldest_due, now) = (Some(Millis(1000)), Millis(4000));
        let counts = Counts { new: 7, oldest_due, now, ..Counts::default() };
        match mood {
            Mood::Answers => Ok(counts),
            Mood::Takes(time) => {
                tokio::time::sleep(time).await;
                Ok(counts)
            }
            Mood::Fails => Err(StoreError::Down(Cause::new(Code::StoreDown, "gone"))),
            Mood::Breaks => Err(StoreError::Broken(Cause::new(Code::SchemaMissing, "gone"))),
            Mood::Sleeps => pending().await,
        }
    }

    async fn find(&self, _: &Filter, _: &Page) -> Result<Listing, StoreError> {
        unreachable!("a sample only counts")
    }

    async fn requeue(
        &self,
        _: &[EventId],
        _: Option<&Filter>,
        _: usize,
    ) -> Result<Requeued, StoreError> {
        unreachable!("a sample only counts")
    }
}
