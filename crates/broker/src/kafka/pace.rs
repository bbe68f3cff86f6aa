//! How much of a batch goes out at once: by handfuls, each with its place behind the gate.
//!
//! The library puts events together into requests, so it is handfuls that the gate counts, not
//! events: one always may go, and asks as little of a broker as one event would. It does not know
//! which events go, nor what an answer means for one of them.

use std::sync::Arc;
use std::time::Duration;

use event::{Answer, Refusal};

use super::refusal;
use crate::gate::{Gate, Gates, Looking, Pass};
use crate::least::Least;
use crate::width::Signal;

/// How many events a place is for.
const HANDFUL: usize = 64;
/// As many handfuls take about as long as one.
const TOGETHER: usize = 4;

/// The way to one cluster.
#[derive(Debug)]
pub(super) struct Pace {
    gate: Arc<Gate>,
    handful: usize,
    /// About the least that a few handfuls were waited for.
    least: Least,
}

impl Pace {
    /// Takes the gate of a cluster; never more than `most` events are out.
    pub(super) fn new(gates: &Gates, hosts: &str, most: usize) -> Pace {
        let most = most.max(1);
        let handful = HANDFUL.min(most);
        let gate = gates.of(&format!("kafka://{hosts}"), most / handful);
        Pace { gate, handful, least: Least::default() }
    }

    /// Waits for a place, and takes as many as are free and `events` need. Batches enter one after
    /// another, and whoever did not get all of them asks anew: while it waits for its answers,
    /// places that become free are the next one's.
    pub(super) async fn enter(&self, events: usize) -> Places<'_> {
        let _turn = self.gate.turn().await;
        let wanted = events.div_ceil(self.handful);
        let mut passes = vec![self.gate.enter().await];
        while passes.len() < wanted
            && let Some(pass) = self.gate.try_enter()
        {
            passes.push(pass);
        }
        let (room, out) = (passes.len() * self.handful, self.gate.out());
        Places { pace: self, passes, room, out }
    }

    /// Begins a look at how full the cluster is.
    pub(super) fn look(&self) -> Looking<'_> {
        self.gate.look()
    }

    /// Returns about the least that a few handfuls were waited for.
    pub(super) fn least(&self) -> Option<Duration> {
        self.least.now()
    }
}

/// Places behind the gate. Dropping them gives them back, and tells nothing.
#[derive(Debug)]
pub(super) struct Places<'a> {
    pace: &'a Pace,
    passes: Vec<Pass<'a>>,
    /// How many events they are for.
    pub(super) room: usize,
    /// How many places were taken with them, others' included.
    out: usize,
}

impl Places<'_> {
    /// Keeps those that so many events need, one at the least, and gives the others back.
    pub(super) fn keep(&mut self, events: usize) {
        let (had, handful) = (self.passes.len(), self.pace.handful);
        self.passes.truncate(events.div_ceil(handful).max(1));
        self.room = self.passes.len() * handful;
        self.out -= had - self.passes.len();
    }

    /// Gives them back, with what the answers told, which were waited for this long.
    pub(super) fn leave<'a>(self, answers: impl Iterator<Item = &'a Answer>, waited: Duration) {
        let signal = load(answers, share(waited, self.out, self.pace.least()));
        if self.out <= TOGETHER && matches!(signal, Signal::Good(_)) {
            self.pace.least.note(waited);
        }
        for pass in self.passes {
            pass.leave(signal);
        }
    }
}

/// One request at a time is out to a broker, so what is behind the first ones waits for them, which
/// is no fault of the broker's: returns how long it took without that. It is never less than the
/// least that a few were waited for, because a long way to the broker is not shared.
fn share(waited: Duration, out: usize, least: Option<Duration>) -> Duration {
    let rounds = u32::try_from(out.div_ceil(TOGETHER)).unwrap_or(u32::MAX);
    let share = waited / rounds.max(1);
    least.map_or(share, |least| share.max(least.min(waited)))
}

/// Says what the answers to a wave tell about load: the worst that one of them does.
fn load<'a>(answers: impl Iterator<Item = &'a Answer>, took: Duration) -> Signal {
    let mut told = Signal::Silent;
    for answer in answers {
        let signal = match answer {
            Ok(_) => Signal::Good(took),
            // It ended the producer, so the others say nothing of the broker either.
            Err(Refusal::Reject(_)) => return Signal::Silent,
            Err(refusal) => refusal::load(refusal),
        };
        if rank(signal) > rank(told) {
            told = signal;
        }
    }
    told
}

fn rank(signal: Signal) -> u8 {
    match signal {
        Signal::Silent => 0,
        Signal::Good(_) | Signal::Along => 1,
        Signal::Failed => 2,
        Signal::Overloaded => 3,
    }
}

#[cfg(test)]
mod tests {
    use event::{Cause, Code, Receipt};
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const QUICK: Duration = Duration::from_millis(5);

    fn pace(most: usize) -> Pace {
        Pace::new(&Gates::default(), "127.0.0.1:1", most)
    }

    fn receipt() -> Answer {
        Ok(Receipt { broker_id: None })
    }

    fn unknown(code: Code) -> Answer {
        Err(Refusal::Unknown(Cause::new(code, "as the test says")))
    }

    /// Offers as much at once as there are places for, and gets this answer after so long.
    async fn offer(pace: &Pace, answer: &Answer, waited: Duration, times: usize) {
        for _ in 0..times {
            let places = pace.enter(usize::MAX).await;
            places.leave(std::iter::once(answer), waited);
        }
    }

    #[tokio::test]
    async fn a_batch_gets_places_for_all_of_it_or_those_that_are_free() {
        let pace = pace(10_000);
        let whole = pace.enter(100).await;
        assert_eq!(whole.room, 128);
        let rest = pace.enter(1000).await;
        assert_eq!(rest.room, 128);
        drop((whole, rest));
        assert_eq!(pace.enter(1).await.room, 64);
    }

    #[tokio::test]
    async fn places_that_become_free_are_the_next_ones_while_a_batch_waits_for_its_answers() {
        let pace = pace(10_000);
        let (first, larger) = (pace.enter(128).await, pace.enter(1000).await);
        assert_eq!((first.room, larger.room), (128, 128), "there is no room for all of it");
        drop(first);
        let next = timeout(PATIENCE, pace.enter(1)).await.expect("two places are free");
        assert_eq!((next.room, pace.gate.out()), (64, 3));
    }

    #[tokio::test]
    async fn places_that_are_not_needed_after_all_are_given_back() {
        let pace = pace(10_000);
        let mut places = pace.enter(256).await;
        for (events, kept) in [(256, 4), (129, 3), (65, 2), (64, 1), (0, 1)] {
            places.keep(events);
            let all = (places.passes.len(), places.room / 64, places.out, pace.gate.out());
            assert_eq!(all, (kept, kept, kept, kept), "{events}");
        }
    }

    #[tokio::test]
    async fn never_more_events_are_out_than_were_asked_for_and_one_always_may_go() {
        for (most, room) in [(0, 1), (1, 1), (16, 16), (100, 64), (200, 192), (10_000, 256)] {
            assert_eq!(pace(most).enter(10_000).await.room, room, "{most}");
        }
    }

    #[tokio::test]
    async fn answers_that_grow_slow_narrow_it_and_quick_ones_widen_it_again() {
        let pace = pace(10_000);
        let wide = 16;
        while pace.gate.width() < wide {
            offer(&pace, &receipt(), QUICK, 1).await;
        }
        offer(&pace, &receipt(), QUICK * 100, 100).await;
        assert_eq!(pace.gate.width(), 1);
        offer(&pace, &receipt(), QUICK, 1000).await;
        assert!(pace.gate.width() > wide, "{}", pace.gate.width());
    }

    #[tokio::test]
    async fn whoever_cannot_keep_up_gets_half_down_to_one_handful() {
        let pace = pace(10_000);
        for (width, code) in [(2, Code::SinkBusy), (1, Code::NotKept), (1, Code::SinkTimeout)] {
            offer(&pace, &unknown(code), QUICK, 1).await;
            assert_eq!(pace.gate.width(), width, "{code}");
        }
        assert_eq!(pace.enter(10_000).await.room, 64, "one always may go");
        offer(&pace, &receipt(), QUICK, 100).await;
        assert!(pace.gate.width() > 4, "{}", pace.gate.width());
    }

    #[tokio::test]
    async fn the_fuller_the_cluster_the_fewer_handfuls_it_gets_down_to_one() {
        let pace = pace(10_000);
        for (full, room) in [(0.8, 256), (0.98, 256), (0.99, 256), (0.995, 192), (1.0, 64)] {
            pace.look().tell(Some(full));
            assert_eq!(pace.enter(10_000).await.room, room, "{full}");
        }
        drop(pace.look());
        assert_eq!(pace.enter(10_000).await.room, 256, "nobody tells any more");
    }

    #[test]
    fn a_wave_that_waits_for_those_before_it_is_not_slow() {
        assert_eq!(share(QUICK, 1, None), QUICK);
        assert_eq!(share(QUICK, 4, Some(QUICK * 2)), QUICK);
        assert_eq!(share(QUICK * 8, 32, None), QUICK);
        assert_eq!(share(QUICK * 8, 32, Some(QUICK / 2)), QUICK);
        assert_eq!(share(QUICK * 8, 32, Some(QUICK * 4)), QUICK * 4);
        assert_eq!(share(QUICK * 8, 32, Some(QUICK * 9)), QUICK * 8);
    }

    #[tokio::test]
    async fn a_long_way_to_the_broker_does_not_make_one_handful_look_slow() {
        let (pace, far) = (pace(10_000), Duration::from_millis(100));
        while pace.gate.width() < 32 {
            offer(&pace, &receipt(), far, 1).await;
        }
        offer(&pace, &receipt(), far, 100).await;
        let wide = pace.gate.width();
        for _ in 0..1000 {
            pace.enter(1).await.leave(std::iter::once(&receipt()), far);
        }
        assert_eq!(pace.gate.width(), wide);
    }

    #[test]
    fn a_wave_tells_the_worst_of_its_answers_unless_an_event_was_at_fault() {
        let told = |answers: &[Answer]| load(answers.iter(), QUICK);
        assert_eq!(told(&[]), Signal::Silent);
        assert_eq!(told(&[receipt(), Err(Refusal::Held)]), Signal::Good(QUICK));
        let broken = [receipt(), unknown(Code::SinkBroken)];
        assert_eq!(told(&broken), Signal::Failed);
        let busy = [receipt(), unknown(Code::SinkTimeout), unknown(Code::SinkBroken)];
        assert_eq!(told(&busy), Signal::Overloaded);
        let wrong = Err(Refusal::Reject(Cause::new(Code::SinkRefused, "no key")));
        assert_eq!(told(&[receipt(), wrong, unknown(Code::SinkBusy)]), Signal::Silent);
    }
}
