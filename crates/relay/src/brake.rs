//! How far the consumers of a destination may be behind: nothing more is published while a group is
//! further behind than its route allows.
//!
//! What waits in the outbox can be seen, held and requeued; what waits in a broker fills its disk.
//! The lag is read by the looks at the destination, never in a turn, so what is published between
//! two of them comes on top. Whoever does not tell a lag is not braked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Gauge, Grade, Inspection, Refusal, Sink};
use tokio::time::timeout;

/// How much of what a group may be behind is few enough to go on.
const ENOUGH: f64 = 0.8;

/// How long a look may take while a lane rests.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sink that publishes only while the groups of its destination keep up.
pub struct Braked {
    sink: Arc<dyn Sink>,
    limit: usize,
    /// Who is too far behind.
    behind: Mutex<Option<Cause>>,
}

impl Braked {
    /// Wraps a sink. `limit` is how many events a group may be behind.
    pub fn new(sink: Arc<dyn Sink>, limit: usize) -> Braked {
        Braked { sink, limit, behind: Mutex::new(None) }
    }

    fn behind(&self) -> MutexGuard<'_, Option<Cause>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self) -> Result<(), Refusal> {
        self.behind().clone().map_or(Ok(()), |cause| Err(Refusal::Down(cause)))
    }

    fn learn(&self, seen: &Inspection) {
        let lags = seen.levels.iter().filter(|level| level.gauge == Gauge::Lag);
        let most = lags.max_by(|one, other| one.value.total_cmp(&other.value));
        let mut behind = self.behind();
        let untold = seen.findings.iter().any(|it| it.what == "lag" && it.grade > Grade::Good);
        if behind.is_some() && untold {
            return;
        }
        let limit = self.limit as f64;
        let allowed = if behind.is_some() { limit * ENOUGH } else { limit };
        *behind = most.filter(|level| level.value > allowed).map(|level| {
            let (topic, group, lag) = (&level.topic, &level.group, level.value);
            let detail = format!("group {group} of {topic} is {lag} events behind of {limit}");
            Cause::new(Code::ConsumersBehind, detail)
        });
    }
}

#[async_trait]
impl Sink for Braked {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        match self.free() {
            Ok(()) => self.sink.publish(events).await,
            Err(refusal) => vec![Err(refusal); events.len()],
        }
    }

    async fn probe(&self) -> Result<(), Refusal> {
        self.sink.probe().await?;
        if self.free().is_err() {
            // One that takes longer tells nothing new.
            timeout(PATIENCE, self.inspect()).await.unwrap_or(Err(Refusal::Held))?;
        }
        self.free()
    }

    /// A look that fails, or says that not all of the lag was told, is no news: what was known
    /// still counts.
    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let seen = self.sink.inspect().await?;
        self.learn(&seen);
        Ok(seen)
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        self.sink.worth().await
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}

#[cfg(test)]
mod tests {
    use event::{Durability, Finding, Level, Receipt};

    use super::*;

    /// A destination whose group is as far behind as the test says; it may not tell.
    #[derive(Default)]
    struct Fake(Mutex<Option<f64>>, Mutex<bool>);

    impl Fake {
        fn lag(&self, lag: Option<f64>) {
            *self.0.lock().unwrap() = lag;
        }
    }

    #[async_trait]
    impl Sink for Fake {
        async fn publish(&self, events: &[Event]) -> Vec<Answer> {
            vec![Ok(Receipt { broker_id: None }); events.len()]
        }

        async fn probe(&self) -> Result<(), Refusal> {
            Ok(())
        }

        async fn inspect(&self) -> Result<Inspection, Refusal> {
            let Some(value) = *self.0.lock().unwrap() else { return Err(Refusal::Held) };
            let level = |gauge, group: &str, value| {
                let (topic, group) = ("orders".to_owned(), group.to_owned());
                Level { gauge, topic, group, value }
            };
            let mut seen = Inspection::of(Durability::Durable);
            if *self.1.lock().unwrap() {
                seen.findings.push(Finding::new(Grade::Warn, "lag", "not all was told"));
                return Ok(seen);
            }
            seen.levels = vec![
                level(Gauge::Lag, "idle", 0.0),
                level(Gauge::Lag, "stock", value),
                level(Gauge::Dead, "stock", 1e9),
            ];
            Ok(seen)
        }
    }

    fn braked() -> (Arc<Fake>, Braked) {
        let fake = Arc::<Fake>::default();
        (fake.clone(), Braked::new(fake, 100))
    }

    async fn goes(sink: &Braked) -> bool {
        let answers = sink.publish(&[Event::new("orders", "T", "{}")]).await;
        match &answers[0] {
            Ok(_) => true,
            Err(Refusal::Down(cause)) => {
                assert_eq!(cause.code, Code::ConsumersBehind);
                assert!(cause.detail.contains("stock") && cause.detail.contains("100"), "{cause}");
                false
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn nothing_is_published_while_a_group_is_too_far_behind() {
        let (fake, sink) = braked();
        assert!(goes(&sink).await, "nobody has told a lag");
        fake.lag(Some(100.0));
        sink.inspect().await.unwrap();
        assert!(goes(&sink).await, "so many are allowed");
        fake.lag(Some(101.0));
        sink.inspect().await.unwrap();
        assert!(!goes(&sink).await);
        assert!(matches!(sink.probe().await, Err(Refusal::Down(_))));
    }

    #[tokio::test]
    async fn it_goes_on_by_a_probe_once_the_group_has_caught_up_well() {
        let (fake, sink) = braked();
        fake.lag(Some(500.0));
        sink.inspect().await.unwrap();
        fake.lag(Some(90.0));
        assert!(sink.probe().await.is_err(), "it would stop again at once");
        fake.lag(None);
        assert!(sink.probe().await.is_err() && !goes(&sink).await, "nobody said otherwise");
        fake.lag(Some(0.0));
        *fake.1.lock().unwrap() = true;
        assert!(sink.probe().await.is_err() && !goes(&sink).await, "the lag was not told");
        *fake.1.lock().unwrap() = false;
        fake.lag(Some(80.0));
        sink.probe().await.unwrap();
        assert!(goes(&sink).await);
        fake.lag(Some(90.0));
        sink.inspect().await.unwrap();
        assert!(goes(&sink).await);
    }
}
