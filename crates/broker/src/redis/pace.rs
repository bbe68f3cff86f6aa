//! How long the server was at an event: what tells whether it groans.
//!
//! It takes one pipeline after another, and waits for its disk once for many events: neither what a
//! pipeline waits for those before it nor its length is a sign of load. Nor is what a lone event
//! takes by a slow disk or a long way, which many share.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::least::Least;

/// As many events take about as long as one.
const FEW: usize = 16;

/// The pace of one server.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the last pipeline was answered.
    last: Mutex<Option<Instant>>,
    /// About the least that a few events were waited for which had the server to themselves.
    least: Least,
}

impl Pace {
    /// Learns that a pipeline of so many events, which was written then, is answered now; whether
    /// any was taken, for a refusal waits for no disk. Returns for how long the server was at each
    /// of them.
    pub(super) fn answered(
        &self,
        began: Instant,
        now: Instant,
        events: usize,
        taken: bool,
    ) -> Duration {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        let before = last.filter(|last| *last > began);
        let waited = now - began;
        if before.is_none() && events <= FEW && taken {
            self.least.note(waited);
        }
        let busy = now.saturating_duration_since(before.unwrap_or(began));
        share(busy, waited, events, self.least.now())
    }
}

/// Returns the part of each event. It is never less than the least that a few were waited for,
/// because neither the way nor the disk is shared out.
fn share(busy: Duration, waited: Duration, events: usize, least: Option<Duration>) -> Duration {
    let share = busy / u32::try_from(events).unwrap_or(u32::MAX).max(1);
    least.map_or(share, |least| share.max(least.min(waited)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::width::{Signal, Width};

    const MOST: usize = 256;
    const AT_ONCE: usize = 4;

    /// A server, as the test says, and who publishes to it.
    struct World {
        pace: Pace,
        width: Width,
        now: Instant,
        /// What the way and the disk take, and what each event takes.
        whole: Duration,
        each: Duration,
    }

    impl World {
        fn new(whole: Duration, each: Duration) -> World {
            let (pace, width, now) = (Pace::default(), Width::new(MOST), Instant::now());
            World { pace, width, now, whole, each }
        }

        /// Publishes pipelines at once, of as many events as may be in one.
        fn burst(&mut self) {
            let (began, events) = (self.now, self.width.now().div_ceil(AT_ONCE));
            self.now += self.whole;
            for _ in 0..AT_ONCE {
                self.now += self.each * u32::try_from(events).unwrap();
                self.answer(began, events, events * AT_ONCE);
            }
        }

        /// Publishes one event while nobody else does.
        fn lone(&mut self) {
            let began = self.now;
            self.now += self.whole + self.each;
            self.answer(began, 1, 1);
        }

        fn answer(&mut self, began: Instant, events: usize, out: usize) {
            let took = self.pace.answered(began, self.now, events, true);
            self.width.learn(Signal::Good(took), out);
            (1..events).for_each(|_| self.width.learn(Signal::Along, out));
        }

        /// Bursts until it gets as many at once as may be.
        fn widen(&mut self) {
            (0..1000).for_each(|_| self.burst());
            assert_eq!(self.width.now(), MOST);
        }
    }

    const MICROS: Duration = Duration::from_micros(20);
    const SLOW: Duration = Duration::from_millis(12);

    #[test]
    fn light_load_on_a_slow_disk_or_a_long_way_leaves_the_width_for_the_next_burst() {
        for whole in [Duration::from_millis(1), SLOW, SLOW * 8] {
            let mut world = World::new(whole, MICROS);
            world.widen();
            (0..1000).for_each(|_| world.lone());
            assert_eq!(world.width.now(), MOST, "{whole:?}");
            world.burst();
            assert_eq!(world.width.now(), MOST, "{whole:?}");
        }
    }

    #[test]
    fn refusals_which_wait_for_no_disk_do_not_make_it_look_slow_afterwards() {
        let mut world = World::new(SLOW, MICROS);
        world.widen();
        world.lone();
        let began = world.now;
        world.pace.answered(began, began + MICROS, 1, false);
        world.now += MICROS;
        (0..1000).for_each(|_| world.lone());
        assert_eq!(world.width.now(), MOST);
    }

    #[test]
    fn a_slow_disk_does_not_hold_down_who_gets_few_after_it_groaned() {
        let mut world = World::new(SLOW * 8, MICROS);
        world.widen();
        (0..20).for_each(|_| world.width.learn(Signal::Overloaded, 1));
        assert_eq!(world.width.now(), 1);
        (0..200).for_each(|_| world.burst());
        assert!(world.width.now() > 8, "{}", world.width.now());
    }

    #[test]
    fn a_server_that_grows_slow_gets_fewer_whether_many_come_or_few() {
        let slow = |each| {
            let mut world = World::new(Duration::from_millis(1), MICROS);
            world.widen();
            world.each = each;
            world
        };
        let mut many = slow(Duration::from_millis(50));
        (0..16).for_each(|_| many.burst());
        assert!(many.width.now() < MOST, "{}", many.width.now());
        let mut few = slow(Duration::from_millis(200));
        (0..400).for_each(|_| few.lone());
        assert!(few.width.now() < MOST, "{}", few.width.now());
    }

    #[test]
    fn what_waits_for_those_before_it_is_not_slow() {
        let (pace, began) = (Pace::default(), Instant::now());
        let at = |waited| pace.answered(began, began + waited, 64, true);
        assert_eq!(at(MICROS * 640), MICROS * 10);
        assert_eq!(at(MICROS * 1280), MICROS * 10);
    }
}
