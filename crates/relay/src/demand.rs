//! What a route demands of its destination: nothing is published to one whose receipts are worth
//! less, however it came about.
//!
//! A destination that was never asked, or has been out of reach since, is asked before it gets
//! anything. It is never asked in a turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use event::{Answer, Cause, Code, Durability, Event, Inspection, Refusal, Sink};

/// A sink that publishes only what its destination keeps as safely as is demanded.
pub struct Demanding {
    sink: Arc<dyn Sink>,
    demand: Durability,
    known: Mutex<Known>,
}

/// What the destination said when it was last asked.
enum Known {
    Nothing,
    /// It did not answer.
    Silent(Cause),
    /// It answered, and this is what is missing.
    Asked(Result<(), Cause>),
}

impl Demanding {
    /// Wraps a sink.
    pub fn new(sink: Arc<dyn Sink>, demand: Durability) -> Demanding {
        Demanding { sink, demand, known: Mutex::new(Known::Nothing) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn met(&self) -> Result<(), Refusal> {
        match &*self.known() {
            Known::Asked(met) => met.clone().map_err(Refusal::Down),
            Known::Silent(cause) => Err(Refusal::Down(cause.clone())),
            Known::Nothing => {
                let demand = self.demand;
                let detail = format!("a route demands {demand}, and nobody has asked yet");
                Err(Refusal::Down(Cause::new(Code::DurabilityTooLow, detail)))
            }
        }
    }

    fn learn(&self, asked: &Result<Inspection, Refusal>) {
        let mut known = self.known();
        match asked {
            Ok(seen) => *known = Known::Asked(seen.meets(self.demand)),
            // To ask may fail where to publish does not: what was said before still counts.
            Err(_) if matches!(*known, Known::Asked(_)) => {}
            Err(refusal) => {
                *known = refusal.cause().cloned().map_or(Known::Nothing, Known::Silent);
            }
        }
    }
}

#[async_trait]
impl Sink for Demanding {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        if let Err(refusal) = self.met() {
            return vec![Err(refusal); events.len()];
        }
        let answers = self.sink.publish(events).await;
        let down = |answer: &Answer| match answer {
            Err(Refusal::Down(cause)) => Some(cause.clone()),
            _ => None,
        };
        if let Some(cause) = answers.iter().find_map(down) {
            // It may come back as another than it was.
            *self.known() = Known::Silent(cause);
        }
        answers
    }

    async fn probe(&self) -> Result<(), Refusal> {
        self.sink.probe().await?;
        if self.met().is_err() {
            self.worth().await?;
        }
        self.met()
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let asked = self.sink.inspect().await;
        self.learn(&asked);
        asked
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        let asked = self.sink.worth().await;
        self.learn(&asked);
        asked
    }

    async fn close(&self) {
        self.sink.close().await;
    }
}

#[cfg(test)]
mod tests {
    use event::Receipt;

    use super::*;

    /// A destination whose settings are turned by hand.
    #[derive(Default)]
    struct Fake(Mutex<Option<Durability>>);

    impl Fake {
        fn is(&self, class: Option<Durability>) {
            *self.0.lock().unwrap() = class;
        }

        fn now(&self) -> Result<Durability, Refusal> {
            let down = || Refusal::Down(Cause::new(Code::SinkDown, "as the test says"));
            self.0.lock().unwrap().ok_or_else(down)
        }
    }

    #[async_trait]
    impl Sink for Fake {
        async fn publish(&self, events: &[Event]) -> Vec<Answer> {
            events.iter().map(|_| self.now().map(|_| Receipt { broker_id: None })).collect()
        }

        async fn probe(&self) -> Result<(), Refusal> {
            self.now().map(drop)
        }

        async fn inspect(&self) -> Result<Inspection, Refusal> {
            self.now().map(Inspection::of)
        }
    }

    fn demanding() -> (Arc<Fake>, Demanding) {
        let fake = Arc::<Fake>::default();
        (fake.clone(), Demanding::new(fake, Durability::Durable))
    }

    async fn offer(sink: &Demanding) -> Result<(), Code> {
        let answers = sink.publish(&[Event::new("t", "T", "{}")]).await;
        match &answers[0] {
            Ok(_) => Ok(()),
            Err(Refusal::Down(cause)) => Err(cause.code),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn nothing_is_published_before_the_destination_was_asked() {
        let (fake, sink) = demanding();
        fake.is(Some(Durability::Durable));
        assert_eq!(offer(&sink).await, Err(Code::DurabilityTooLow));
        sink.probe().await.unwrap();
        assert_eq!(offer(&sink).await, Ok(()));
    }

    #[tokio::test]
    async fn a_destination_that_was_down_at_the_start_is_asked_when_it_is_back() {
        let (fake, sink) = demanding();
        assert!(sink.inspect().await.is_err());
        assert_eq!(offer(&sink).await, Err(Code::SinkDown), "it says why it does not know");
        assert!(sink.probe().await.is_err());
        fake.is(Some(Durability::BestEffort));
        let Err(Refusal::Down(cause)) = sink.probe().await else {
            panic!("it is worth too little")
        };
        assert_eq!(cause.code, Code::DurabilityTooLow);
        assert_eq!(offer(&sink).await, Err(Code::DurabilityTooLow));
        fake.is(Some(Durability::Replicated));
        sink.probe().await.unwrap();
        assert_eq!(offer(&sink).await, Ok(()));
    }

    #[tokio::test]
    async fn one_that_comes_back_weaker_gets_nothing() {
        let (fake, sink) = demanding();
        fake.is(Some(Durability::Durable));
        sink.inspect().await.unwrap();
        assert_eq!(offer(&sink).await, Ok(()));
        fake.is(None);
        assert_eq!(offer(&sink).await, Err(Code::SinkDown));
        fake.is(Some(Durability::BestEffort));
        assert_eq!(offer(&sink).await, Err(Code::SinkDown), "it was not asked again yet");
        assert!(sink.probe().await.is_err());
        assert_eq!(offer(&sink).await, Err(Code::DurabilityTooLow));
    }

    #[tokio::test]
    async fn a_look_that_finds_weaker_settings_stops_it_and_a_failed_one_does_not() {
        let (fake, sink) = demanding();
        fake.is(Some(Durability::Durable));
        sink.inspect().await.unwrap();
        fake.is(None);
        assert!(sink.inspect().await.is_err());
        fake.is(Some(Durability::Durable));
        assert_eq!(offer(&sink).await, Ok(()));
        fake.is(Some(Durability::BestEffort));
        sink.inspect().await.unwrap();
        assert_eq!(offer(&sink).await, Err(Code::DurabilityTooLow));
    }

    /// A destination whose levels nobody has the time for.
    struct Slow;

    #[async_trait]
    impl Sink for Slow {
        async fn publish(&self, events: &[Event]) -> Vec<Answer> {
            vec![Ok(Receipt { broker_id: None }); events.len()]
        }

        async fn probe(&self) -> Result<(), Refusal> {
            Ok(())
        }

        async fn inspect(&self) -> Result<Inspection, Refusal> {
            panic!("it was asked for its levels")
        }

        async fn worth(&self) -> Result<Inspection, Refusal> {
            Ok(Inspection::of(Durability::Durable))
        }
    }

    #[tokio::test]
    async fn who_must_know_the_class_waits_for_no_levels() {
        let sink = Demanding::new(Arc::new(Slow), Durability::Durable);
        sink.probe().await.unwrap();
        assert_eq!(offer(&sink).await, Ok(()));
    }
}
