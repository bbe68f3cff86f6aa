//! How many offers a destination gets at once: more while it answers quickly, half when it groans.
//!
//! It groans when it says so or stays silent (one such answer is enough), when its answers grow
//! slow, and when most of a window of answers are failures. A failure alone may be the fault of the
//! one event that was offered, so it says nothing. One that is nearly full gets fewer, before it
//! has to refuse.
//!
//! The rule is pure: it reads no clock, makes nobody wait, and does not know what is offered.

use std::time::Duration;

/// What one answer tells about the destination's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It took the event in after this long.
    Good(Duration),
    /// It took the event in with another, for which it has told how long that took.
    Along,
    /// It said that it is overloaded or cannot be reached behind its gateway, or did not answer in
    /// time.
    Overloaded,
    /// It failed, which may be its fault or the event's.
    Failed,
    /// Nothing about its load.
    Silent,
}

/// The rule: twice as many after each window of quick answers until it first groans, then one more
/// per window; half on overload or when answers grow slow.
#[derive(Clone, Debug)]
pub struct Width {
    now: usize,
    most: usize,
    /// How many relays share what the destination gets.
    relays: usize,
    /// Whether it has never groaned, nor grown slower: how much it can take is not known yet.
    fresh: bool,
    /// How much of the most the destination gets while it is as full as it was last seen.
    left: f64,
    /// Answers to offers made before the last cut: they tell of the old width, so they are skipped.
    stale: usize,
    window: Window,
    faults: Faults,
    floor: Floor,
}

#[derive(Clone, Debug, Default)]
struct Window {
    answers: usize,
    /// How many of them told how long they took, and how long all these took together.
    timed: u32,
    total: Duration,
    /// Whether the width was ever in the way: one that nobody needs does not grow.
    full: bool,
}

/// The answers of a window of their own, because those that failed say nothing about latency.
#[derive(Clone, Debug, Default)]
struct Faults {
    answers: usize,
    failed: usize,
}

impl Width {
    const START: usize = 4;
    /// Fewer times than this are too few to judge by: their mean is chance.
    const WINDOW: usize = 16;
    /// Latency differences below this say nothing about load.
    const SLACK: Duration = Duration::from_millis(10);
    /// How full a destination is when it gets fewer at once.
    const NEAR: f64 = 0.8;

    /// Starts at 4, or lower if `most` is lower; `most` is at least 1.
    pub fn new(most: usize) -> Width {
        let most = most.max(1);
        let now = Width::START.min(most);
        let (window, faults, floor) = (Window::default(), Faults::default(), Floor::default());
        Width { now, most, relays: 1, fresh: true, left: 1.0, stale: 0, window, faults, floor }
    }

    /// Never grows beyond `most` from now on, at least 1.
    pub fn cap(&mut self, most: usize) {
        self.most = self.most.min(most.max(1));
        self.now = self.now.min(self.part());
    }

    /// Leaves other relays their part: this is one of so many.
    pub fn share(&mut self, relays: usize) {
        self.relays = relays;
        self.now = self.now.min(self.part());
    }

    /// Learns how full the destination is, where 1 is full: the nearer to that, the fewer it gets,
    /// down to one.
    pub fn press(&mut self, full: f64) {
        self.left = ((1.0 - full) / (1.0 - Width::NEAR)).clamp(0.0, 1.0);
    }

    /// Returns how many offers may be out now.
    pub fn now(&self) -> usize {
        let room = (self.part() as f64 * self.left) as usize;
        self.now.min(room.max(1))
    }

    /// Returns what this relay may have of the most.
    fn part(&self) -> usize {
        (self.most / self.relays.max(1)).max(1)
    }

    /// Takes one answer in; `out` offers were out, this one included.
    pub fn learn(&mut self, signal: Signal, out: usize) {
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        match signal {
            Signal::Silent => {}
            Signal::Overloaded => self.cut(out),
            Signal::Failed => self.count(true, out),
            Signal::Good(latency) => {
                self.window.timed += 1;
                self.window.total += latency;
                self.take_in(out);
            }
            Signal::Along => self.take_in(out),
        }
    }

    fn take_in(&mut self, out: usize) {
        self.window.answers += 1;
        self.window.full |= out >= self.now;
        self.count(false, out);
        let Window { answers, timed, .. } = self.window;
        if answers >= self.now && timed as usize >= Width::WINDOW {
            self.close(out);
        }
    }

    fn count(&mut self, failed: bool, out: usize) {
        self.faults.answers += 1;
        self.faults.failed += usize::from(failed);
        if self.faults.answers >= self.now.max(Width::WINDOW) {
            let Faults { answers, failed } = std::mem::take(&mut self.faults);
            if failed * 2 > answers {
                self.cut(out);
            }
        }
    }

    fn close(&mut self, out: usize) {
        let Window { timed, total, full, .. } = std::mem::take(&mut self.window);
        let mean = total / timed;
        self.floor.note(mean);
        let floor = self.floor.least();
        let quick = mean <= floor * 2 + Width::SLACK;
        self.fresh &= quick;
        if mean > floor * 4 + Width::SLACK {
            self.cut(out);
        } else if full && quick {
            let more = if self.fresh { self.now } else { 1 };
            self.now = (self.now + more).min(self.part());
        }
    }

    fn cut(&mut self, out: usize) {
        self.fresh = false;
        self.now = (self.now / 2).max(1);
        self.stale = out.saturating_sub(1);
        (self.window, self.faults) = (Window::default(), Faults::default());
    }
}

/// The moving minimum of the windows' mean latencies: the least of this generation and the one
/// before, so that a destination which became slower for good is not held against its past for
/// ever. Single answers do not count: one that came from a cache is no measure for the others.
#[derive(Clone, Debug, Default)]
struct Floor {
    before: Option<Duration>,
    current: Option<Duration>,
    windows: u32,
}

impl Floor {
    const GENERATION: u32 = 32;

    fn note(&mut self, mean: Duration) {
        if self.windows == Floor::GENERATION {
            *self = Floor { before: self.current, current: None, windows: 0 };
        }
        self.windows += 1;
        self.current = Some(self.current.map_or(mean, |least| least.min(mean)));
    }

    fn least(&self) -> Duration {
        self.before.into_iter().chain(self.current).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUICK: Signal = Signal::Good(Duration::from_millis(20));
    const SLOW: Signal = Signal::Good(Duration::from_millis(500));

    fn learn(width: &mut Width, signal: Signal, times: usize) {
        for _ in 0..times {
            width.learn(signal, width.now());
        }
    }

    #[test]
    fn it_starts_at_four_and_doubles_with_every_window_up_to_the_most() {
        let mut width = Width::new(20);
        for (answers, before, after) in [(16, 4, 8), (16, 8, 16), (16, 16, 20), (20, 20, 20)] {
            learn(&mut width, QUICK, answers - 1);
            assert_eq!(width.now(), before);
            learn(&mut width, QUICK, 1);
            assert_eq!(width.now(), after);
        }
        assert_eq!(Width::new(0).now(), 1);
    }

    #[test]
    fn once_it_groaned_or_grew_slower_it_grows_by_one_per_window() {
        const SLOWER: Signal = Signal::Good(Duration::from_millis(60));
        for (signal, times, after) in [(Signal::Overloaded, 1, 4), (SLOWER, 16, 8)] {
            let mut width = Width::new(64);
            learn(&mut width, QUICK, 16);
            for _ in 0..times {
                width.learn(signal, 1);
            }
            assert_eq!(width.now(), after, "{signal:?}");
            learn(&mut width, QUICK, 16);
            assert_eq!(width.now(), after + 1, "{signal:?}");
        }
    }

    #[test]
    fn one_wave_of_overload_halves_once_and_the_next_again() {
        let mut width = Width::new(64);
        learn(&mut width, QUICK, 1000);
        let before = width.now();
        for out in (1..=before).rev() {
            width.learn(Signal::Overloaded, out);
        }
        assert_eq!(width.now(), before / 2);
        width.learn(Signal::Overloaded, 1);
        assert_eq!(width.now(), before / 4);
        learn(&mut width, Signal::Overloaded, 1000);
        assert_eq!(width.now(), 1);
        learn(&mut width, QUICK, 1000);
        assert!(width.now() > 8, "it recovers: {}", width.now());
    }

    #[test]
    fn answers_that_grow_slow_halve_it_and_a_new_normal_is_learnt() {
        let mut width = Width::new(64);
        learn(&mut width, QUICK, 500);
        let before = width.now();
        learn(&mut width, SLOW, before);
        assert_eq!(width.now(), before / 2);
        learn(&mut width, SLOW, 3000);
        assert!(width.now() > before / 2, "slow for good is not overload: {}", width.now());
    }

    #[test]
    fn latencies_that_vary_without_overload_do_not_hold_it_down() {
        for millis in [[5, 100, 5, 100], [20, 300, 580, 850]] {
            let mut width = Width::new(16);
            for at in 0..4000 {
                let signal = Signal::Good(Duration::from_millis(millis[at % 4]));
                width.learn(signal, width.now());
            }
            assert_eq!(width.now(), 16, "{millis:?}");
        }
    }

    #[test]
    fn what_came_with_another_counts_for_the_width_and_not_for_its_time() {
        const STALL: Signal = Signal::Good(Duration::from_millis(300));
        let learn = |width: &mut Width, first: Signal| {
            let out = width.now();
            width.learn(first, out);
            (1..out).for_each(|less| width.learn(Signal::Along, out - less));
        };
        let mut width = Width::new(64);
        (0..16 * 4).for_each(|_| learn(&mut width, QUICK));
        assert_eq!(width.now(), 64);
        for _ in 0..100 {
            learn(&mut width, STALL);
            (0..15).for_each(|_| learn(&mut width, QUICK));
        }
        assert_eq!(width.now(), 64, "one of sixteen is chance, however many came with it");
        (0..16).for_each(|_| learn(&mut width, STALL));
        assert_eq!(width.now(), 32);
    }

    #[test]
    fn a_width_that_nobody_needs_does_not_grow() {
        let mut width = Width::new(64);
        for _ in 0..1000 {
            width.learn(QUICK, 1);
        }
        assert_eq!(width.now(), 4);
    }

    #[test]
    fn a_failure_alone_says_nothing_and_a_window_of_them_halves_it() {
        let mut width = Width::new(64);
        learn(&mut width, QUICK, 500);
        let before = width.now();
        for at in 0..3000 {
            width.learn(if at % 3 == 0 { Signal::Failed } else { QUICK }, width.now());
        }
        assert_eq!(width.now(), 64, "a third of the answers are not most of them: {before}");
        learn(&mut width, Signal::Failed, 2 * 64);
        assert_eq!(width.now(), 32);
        learn(&mut width, Signal::Failed, 1000);
        assert_eq!(width.now(), 1);
        learn(&mut width, QUICK, 1000);
        assert!(width.now() > 8, "it recovers: {}", width.now());
    }

    #[test]
    fn one_that_is_nearly_full_gets_fewer_and_has_its_width_back_when_there_is_room() {
        let mut width = Width::new(64);
        learn(&mut width, QUICK, 3000);
        for (full, now) in [(0.5, 64), (0.8, 64), (0.9, 32), (0.99, 3), (1.0, 1), (1.5, 1)] {
            width.press(full);
            assert_eq!(width.now(), now, "{full}");
        }
        learn(&mut width, Signal::Overloaded, 1);
        width.press(0.1);
        assert_eq!(width.now(), 32, "what its answers told still counts");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_and_never_more_than_doubles_or_halves(
            most in 0usize..40,
            answers in prop::collection::vec((0u8..5, 0u64..2000, 1usize..50), 0..500),
        ) {
            let mut width = Width::new(most);
            for (kind, millis, out) in answers {
                let before = width.now();
                let signal = match kind {
                    0 => Signal::Good(Duration::from_millis(millis)),
                    1 => Signal::Overloaded,
                    2 => Signal::Failed,
                    3 => Signal::Along,
                    _ => Signal::Silent,
                };
                width.learn(signal, out);
                prop_assert!((1..=most.max(1)).contains(&width.now()));
                prop_assert!((before / 2..=before * 2).contains(&width.now()));
            }
        }
    }
}
