//! The gauges of an outbox tell what its database last said, or that it says nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Catalog, Cause, Code, Counts, EventId, Filter, Listing, Millis, Page, Pulse, Requeued,
    StoreError,
};
use postbox_telemetry::Telemetry;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_database_that_does_not_answer_leaves_no_number_standing() {
    let telemetry = Telemetry::install();
    let database = Arc::new(Database(Mutex::new(Mood::Answers)));
    let stop = CancellationToken::new();
    let sampling = {
        let (telemetry, stop) = (telemetry.clone(), stop.clone());
        let (name, every) = ("orders".to_owned(), Duration::from_secs(1));
        let database = database.clone();
        tokio::spawn(async move { telemetry.sample(name, database, every, stop).await })
    };
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
    until_shown(&telemetry, &known).await;
    telemetry.answers("orders").unwrap();
    for (mood, code) in [(Mood::Fails, Code::StoreDown), (Mood::Sleeps, Code::StoreBusy)] {
        *database.0.lock().unwrap() = mood;
        until_shown(&telemetry, &unknown).await;
        assert_eq!(telemetry.answers("orders").unwrap_err().code, code);
        let pending = telemetry.beats(1).last().unwrap().pending;
        assert_eq!(pending, 7, "the chart goes on with what was known");
        *database.0.lock().unwrap() = Mood::Answers;
        until_shown(&telemetry, &known).await;
        telemetry.answers("orders").unwrap();
    }
    stop.cancel();
    sampling.await.unwrap();
}

/// Waits until the page holds all lines; on the paused clock that takes no time.
async fn until_shown(telemetry: &Telemetry, lines: &[&str]) {
    for _ in 0..1000 {
        let page = telemetry.metrics();
        if lines.iter().all(|line| page.contains(line)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{lines:?}\nare not all in\n{}", telemetry.metrics());
}

#[derive(Clone, Copy)]
enum Mood {
    Answers,
    Fails,
    Sleeps,
}

struct Database(Mutex<Mood>);

#[async_trait]
impl Catalog for Database {
    async fn count(&self) -> Result<Counts, StoreError> {
        let mood = *self.0.lock().unwrap();
        match mood {
            Mood::Answers => Ok(Counts {
                new: 7,
                oldest_due: Some(Millis(1000)),
                now: Millis(4000),
                ..Counts::default()
            }),
            Mood::Fails => Err(StoreError::Down(Cause::new(Code::StoreDown, "gone"))),
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
