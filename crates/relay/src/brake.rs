//! How far the consumers of a destination may be behind: nothing more is published while a group is
//! further behind than its route allows.
//!
//! What waits in the outbox can be seen, held and requeued; what waits in a broker fills its disk.
//! The lag is read by the looks at the destination. What was published since the last one counts as
//! not yet taken in, and once there is no room left by that, the next turn looks anew. So near the
//! limit as much is published as is taken in. Whoever does not tell a lag is not braked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Gauge, Grade, Inspection, Refusal, Sink};
use tokio::time::{Instant, sleep_until, timeout};

/// How much of what a group may be behind is few enough to go on.
const ENOUGH: f64 = 0.8;

/// How long a look may take while a lane rests, and in a turn, whose events are claimed already.
const PATIENCE: Duration = Duration::from_secs(10);
const IN_A_TURN: Duration = Duration::from_secs(1);

/// How long after another one a look in a turn comes at the earliest: looks are no small matter to
/// a broker whose consumers are slow.
const PAUSE: Duration = Duration::from_millis(500);

/// A sink that publishes only while the groups of its destination keep up.
pub struct Braked {
    sink: Arc<dyn Sink>,
    limit: f64,
    room: Mutex<Room>,
    /// Whose turn it is to look because there is no room left.
    looking: tokio::sync::Mutex<()>,
}

/// How many more events may be published.
#[derive(Default)]
struct Room {
    /// Who is too far behind.
    behind: Option<Cause>,
    /// How far the group is behind that is furthest, and its name; none if nobody tells.
    lag: Option<(f64, String)>,
    /// How many of a topic were published or are on the way, and how many the lag knows of.
    given: HashMap<String, u64>,
    known: HashMap<String, u64>,
    looks: Looks,
}

/// The looks, by their numbers: one that began before another tells nothing after it.
#[derive(Default)]
struct Looks {
    begun: u64,
    taken: u64,
    last: Option<Instant>,
}

impl Braked {
    /// Wraps a sink. `limit` is how many events a group may be behind.
    pub fn new(sink: Arc<dyn Sink>, limit: usize) -> Braked {
        let limit = limit as f64;
        Braked { sink, limit, room: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self) -> Result<(), Refusal> {
        self.room().behind.clone().map_or(Ok(()), |cause| Err(Refusal::Down(cause)))
    }

    /// Finds room for the first of these events. Once there is none for all, it looks anew how far
    /// consumers are; without news it goes by the looks alone.
    async fn make_room(&self, events: &[Event]) -> Result<usize, Refusal> {
        self.free()?;
        let first = self.room().take(events, self.limit);
        if first == events.len() {
            return Ok(first);
        }
        let looked = timeout(IN_A_TURN, self.look_again()).await.is_ok_and(|looked| looked);
        let mut room = self.room();
        if !looked {
            room.lag = None;
        }
        let fit = first + room.take(&events[first..], self.limit);
        if fit == 0 && room.behind.is_none() {
            room.behind = room.lag.as_ref().map(|(_, who)| cause(who, self.limit));
        }
        drop(room);
        if fit == 0 {
            self.free()?;
        }
        Ok(fit)
    }

    /// Looks once for all turns that found no room. Tells whether there are news.
    async fn look_again(&self) -> bool {
        let asked = self.room().looks.taken;
        let _turn = self.looking.lock().await;
        let last = {
            let room = self.room();
            if room.looks.taken > asked {
                return true;
            }
            room.looks.last
        };
        if let Some(last) = last {
            sleep_until(last + PAUSE).await;
        }
        self.inspect().await.is_ok()
    }

    /// Learns from the look of this number, before which so much was published.
    fn learn(&self, seen: &Inspection, number: u64, before: HashMap<String, u64>) {
        let lags = seen.levels.iter().filter(|level| level.gauge == Gauge::Lag);
        let most = lags.max_by(|one, other| one.value.total_cmp(&other.value));
        let mut room = self.room();
        if number <= room.looks.taken {
            return;
        }
        room.looks.taken = number;
        let untold = seen.findings.iter().any(|it| it.what == "lag" && it.grade > Grade::Good);
        if room.behind.is_some() && untold {
            return;
        }
        let allowed = if room.behind.is_some() { self.limit * ENOUGH } else { self.limit };
        room.lag = most.map(|level| {
            let (topic, group, lag) = (&level.topic, &level.group, level.value);
            (lag, format!("group {group} of {topic} is {lag} events behind"))
        });
        room.known = before;
        let behind = room.lag.as_ref().filter(|(lag, _)| *lag > allowed);
        room.behind = behind.map(|(_, who)| cause(who, self.limit));
    }
}

fn cause(who: &str, limit: f64) -> Cause {
    Cause::new(Code::ConsumersBehind, format!("{who} of {limit}"))
}

impl Room {
    /// Takes room for as many of these as there is.
    fn take(&mut self, events: &[Event], limit: f64) -> usize {
        let Some((lag, _)) = &self.lag else { return self.give(events) };
        let lag = *lag;
        let full = |room: &Room, topic: &str| {
            let given = room.given.get(topic).copied().unwrap_or_default();
            let known = room.known.get(topic).copied().unwrap_or_default();
            lag + given.saturating_sub(known) as f64 >= limit
        };
        let fits = |event: &&Event| {
            let fits = !full(self, &event.topic);
            if fits {
                self.give(std::slice::from_ref(*event));
            }
            fits
        };
        events.iter().take_while(fits).count()
    }

    /// Counts these as published.
    fn give(&mut self, events: &[Event]) -> usize {
        for event in events {
            *self.given.entry(event.topic.clone()).or_default() += 1;
        }
        events.len()
    }
}

#[async_trait]
impl Sink for Braked {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let fit = match self.make_room(events).await {
            Ok(fit) => fit,
            Err(refusal) => return vec![Err(refusal); events.len()],
        };
        let mut answers = self.sink.publish(&events[..fit]).await;
        answers.resize(events.len(), Err(Refusal::Held));
        answers
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
        // What is on the way may not be told yet; it is few, beside what a look leaves out.
        let (number, before) = {
            let mut room = self.room();
            room.looks.begun += 1;
            room.looks.last = Some(Instant::now());
            (room.looks.begun, room.given.clone())
        };
        let seen = self.sink.inspect().await?;
        self.learn(&seen, number, before);
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
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;

    /// A destination whose group is as far behind as the test says; it may not tell. It counts what
    /// it was given and how often it was looked at. A look may be held up after it has read.
    #[derive(Default)]
    struct Fake(
        Mutex<Option<f64>>,
        Mutex<bool>,
        Mutex<(usize, usize)>,
        Mutex<Option<Receiver<()>>>,
    );

    impl Fake {
        fn lag(&self, lag: Option<f64>) {
            *self.0.lock().unwrap() = lag;
        }
    }

    #[async_trait]
    impl Sink for Fake {
        async fn publish(&self, events: &[Event]) -> Vec<Answer> {
            self.2.lock().unwrap().0 += events.len();
            vec![Ok(Receipt { broker_id: None }); events.len()]
        }

        async fn probe(&self) -> Result<(), Refusal> {
            Ok(())
        }

        async fn inspect(&self) -> Result<Inspection, Refusal> {
            self.2.lock().unwrap().1 += 1;
            let Some(value) = *self.0.lock().unwrap() else { return Err(Refusal::Held) };
            let level = |gauge, group: &str, value| {
                let (topic, group) = ("orders".to_owned(), group.to_owned());
                Level { gauge, topic, group, value }
            };
            let held = self.3.lock().unwrap().take();
            if let Some(held) = held {
                held.await.unwrap();
            }
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
        fake.lag(Some(99.0));
        sink.inspect().await.unwrap();
        assert!(goes(&sink).await, "one more is allowed");
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

    /// Publishes so many events of a topic at once. Returns how many were taken.
    async fn give(sink: &Braked, topic: &str, count: usize) -> usize {
        let events: Vec<Event> = (0..count).map(|_| Event::new(topic, "T", "{}")).collect();
        let answers = sink.publish(&events).await;
        assert_eq!(answers.len(), count);
        let taken = answers.iter().take_while(|answer| answer.is_ok()).count();
        assert!(answers[taken..].iter().all(Result::is_err), "one passed those before it");
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_published_since_the_last_look_counts_until_the_next_one() {
        let (fake, sink) = braked();
        let told = || *fake.2.lock().unwrap();
        fake.lag(Some(30.0));
        sink.inspect().await.unwrap();
        assert_eq!(give(&sink, "orders", 60).await, 60);
        assert_eq!(told(), (60, 1), "there was room for them without a look");
        // Consumers keep up: the look that there is no room without finds it.
        assert_eq!(give(&sink, "orders", 60).await, 60);
        assert_eq!(told(), (120, 2));
        // They have stopped.
        fake.lag(Some(95.0));
        assert_eq!(give(&sink, "orders", 60).await, 25, "by what was known, and then by the news");
        fake.lag(Some(100.0));
        assert_eq!(give(&sink, "orders", 60).await, 0);
        assert!(!goes(&sink).await);
        assert_eq!(told().0, 145, "and nothing reached the destination");
        fake.lag(Some(60.0));
        sink.probe().await.unwrap();
        assert_eq!(give(&sink, "orders", 10).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn without_news_it_goes_by_the_looks_alone() {
        let (fake, sink) = braked();
        fake.lag(Some(90.0));
        sink.inspect().await.unwrap();
        fake.lag(None);
        assert_eq!(give(&sink, "orders", 500).await, 500);
        assert_eq!(give(&sink, "orders", 500).await, 500);
        assert_eq!(fake.2.lock().unwrap().1, 2, "it does not look at every turn");
        fake.lag(Some(101.0));
        sink.inspect().await.unwrap();
        assert!(!goes(&sink).await);
    }

    #[tokio::test(start_paused = true)]
    async fn each_topic_has_the_room_of_its_own() {
        let (fake, sink) = braked();
        fake.lag(Some(0.0));
        sink.inspect().await.unwrap();
        assert_eq!(give(&sink, "orders", 100).await, 100);
        assert_eq!(give(&sink, "bills", 100).await, 100);
        assert_eq!(fake.2.lock().unwrap().1, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_older_look_has_read_is_forgotten_after_a_newer_one() {
        let (fake, sink) = braked();
        fake.lag(Some(30.0));
        let (go_on, held) = oneshot::channel();
        *fake.3.lock().unwrap() = Some(held);
        let mut old = std::pin::pin!(sink.inspect());
        assert!(timeout(Duration::ZERO, &mut old).await.is_err(), "it has read, and is held up");
        fake.lag(Some(100.0));
        sink.inspect().await.unwrap();
        assert_eq!(give(&sink, "orders", 10).await, 0);
        go_on.send(()).unwrap();
        old.await.unwrap();
        assert_eq!(give(&sink, "orders", 10).await, 0, "30 was before");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_without_room_look_together_and_not_at_once_again() {
        let (fake, sink) = braked();
        fake.lag(Some(90.0));
        sink.inspect().await.unwrap();
        let began = Instant::now();
        let turns = (0..4).map(|_| give(&sink, "orders", 20));
        let taken: usize = futures_util::future::join_all(turns).await.into_iter().sum();
        assert_eq!(taken, 20, "10 by what was known, and 10 by the news");
        assert_eq!(fake.2.lock().unwrap().1, 2, "all of them by one look");
        assert!(Instant::now() - began >= PAUSE);
    }
}
