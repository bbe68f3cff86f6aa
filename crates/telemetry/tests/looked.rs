//! The gauges of a destination tell what it last said of itself, or that it says nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::future::pending;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Answer, Cause, Code, Durability, Event, Finding, Gauge, Grade, Inspection, Level, Pulse,
    Refusal, Sink,
};
use postbox_telemetry::Telemetry;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(15);

/// Only the first of a process gets the metrics, so all tests here have the same.
static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(Telemetry::install);

/// A destination that says what it is told to; told nothing, it stays silent.
#[derive(Default)]
struct Fake(Mutex<Option<Result<Inspection, Refusal>>>);

#[async_trait]
impl Sink for Fake {
    async fn publish(&self, _: &[Event]) -> Vec<Answer> {
        unreachable!("it is only looked at")
    }

    async fn probe(&self) -> Result<(), Refusal> {
        unreachable!("it is only looked at")
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let said = self.0.lock().unwrap().clone();
        match said {
            Some(said) => said,
            None => pending().await,
        }
    }
}

fn says(topic: &str, value: f64) -> Option<Result<Inspection, Refusal>> {
    let level = Level { gauge: Gauge::Lag, topic: topic.into(), group: "stock".into(), value };
    let disk = Level { gauge: Gauge::Disk, topic: String::new(), group: String::new(), value: 0.5 };
    let levels = vec![level, disk];
    Some(Ok(Inspection { levels, ..Inspection::of(Durability::Durable) }))
}

#[tokio::test(start_paused = true)]
async fn what_a_destination_no_longer_says_leaves_no_number_standing() {
    let (telemetry, fake) = (&*TELEMETRY, Arc::<Fake>::default());
    let stop = CancellationToken::new();
    let looking = {
        let (telemetry, sink, stop) = (telemetry.clone(), fake.clone(), stop.clone());
        tokio::spawn(async move { telemetry.look("there", vec![sink], EVERY, stop).await })
    };
    let shows = async |said, lines: &[&str]| {
        *fake.0.lock().unwrap() = said;
        let shown = |line: &&str| telemetry.metrics().lines().any(|shown| shown == *line);
        tokio::time::timeout(20 * EVERY, async {
            while !lines.iter().all(shown) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{lines:#?}\n{}", telemetry.metrics()));
    };
    let disk = r#"postbox_broker_disk{sink="there",topic="",group=""} 0.5"#;
    let orders = |value: &str| {
        format!(r#"postbox_broker_lag{{sink="there",topic="orders",group="stock"}} {value}"#)
    };
    let bills = |value: &str| {
        format!(r#"postbox_broker_lag{{sink="there",topic="bills",group="stock"}} {value}"#)
    };
    let class = |value: &str| format!(r#"postbox_sink_durability{{sink="there"}} {value}"#);
    shows(says("orders", 7.0), &[&orders("7"), disk, &class("1")]).await;
    let there = || telemetry.sinks().into_iter().find(|view| view.sink == "there").unwrap();
    let view = there();
    assert_eq!((view.durability, view.levels.len()), (Some(Durability::Durable), 2));
    shows(says("bills", 3.0), &[&orders("NaN"), &bills("3"), disk]).await;
    let down = Refusal::Down(Cause::new(Code::SinkDown, "as the test says"));
    for said in [Some(Err(down)), None] {
        shows(said, &[&orders("NaN"), &bills("NaN"), &class("NaN")]).await;
        let view = there();
        assert!(view.durability.is_none() && view.levels.is_empty() && view.cause.is_some());
        shows(says("orders", 9.0), &[&orders("9"), &bills("NaN"), disk, &class("1")]).await;
    }
    stop.cancel();
    looking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_does_not_work_is_shown_until_it_is_over_and_the_worst_first() {
    let (telemetry, fake) = (&*TELEMETRY, Arc::<Fake>::default());
    let stop = CancellationToken::new();
    let looking = {
        let (telemetry, sink, stop) = (telemetry.clone(), fake.clone(), stop.clone());
        tokio::spawn(async move { telemetry.look("found", vec![sink], EVERY, stop).await })
    };
    let shows = async |findings: Option<&[(Grade, &str)]>, copies: &str, flush: &str| {
        *fake.0.lock().unwrap() = findings.map(|findings| {
            let finding = |(grade, what): &(Grade, &str)| Finding::new(*grade, *what, "as it is");
            let findings = findings.iter().map(finding).collect();
            Ok(Inspection { findings, ..Inspection::of(Durability::Durable) })
        });
        let line = |what: &str, value: &str| {
            format!(r#"postbox_sink_finding{{sink="found",what="{what}"}} {value}"#)
        };
        let lines = [line("copies", copies), line("flush", flush)];
        tokio::time::timeout(20 * EVERY, async {
            while !lines.iter().all(|line| telemetry.metrics().contains(line)) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{lines:#?}\n{}", telemetry.metrics()));
        let views = telemetry.sinks();
        let view = views.into_iter().find(|view| view.sink == "found").unwrap();
        view.findings.into_iter().map(|it| (it.grade, it.what)).collect::<Vec<_>>()
    };
    use Grade::{Bad, Good, Warn};
    let all = [(Good, "disk"), (Warn, "flush"), (Warn, "copies"), (Bad, "copies")];
    let seen = shows(Some(&all), "2", "1").await;
    let expected = [(Bad, "copies"), (Warn, "flush"), (Warn, "copies")];
    assert_eq!(seen, expected.map(|(grade, what)| (grade, what.to_owned())));
    assert_eq!(shows(None, "NaN", "NaN").await, []);
    assert_eq!(shows(Some(&all[..2]), "0", "1").await, [(Warn, "flush".to_owned())]);
    stop.cancel();
    looking.await.unwrap();
}

/// A destination that never ends telling of its load.
struct Slow;

#[async_trait]
impl Sink for Slow {
    async fn publish(&self, _: &[Event]) -> Vec<Answer> {
        unreachable!("it is only looked at")
    }

    async fn probe(&self) -> Result<(), Refusal> {
        unreachable!("it is only looked at")
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        pending().await
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        Ok(Inspection::of(Durability::Durable))
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_slow_to_tell_its_load_still_says_what_it_is_worth() {
    let seen = postbox_telemetry::inspect(&Slow).await.unwrap();
    assert_eq!((seen.durability, seen.levels.len()), (Durability::Durable, 0));
    assert!(seen.findings[0].detail.contains("how full"), "{seen:?}");
}
