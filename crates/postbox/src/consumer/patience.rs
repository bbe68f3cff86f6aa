//! How often work on an event may fail, and how long to wait in between.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::{Backoff, Cause, Code, EventId, Nack};

/// How many events it remembers. Beyond that, those that are not in hand count anew.
const REMEMBERED: usize = 10_000;

/// Of this many times more nobody lived to say what became of it before the event is blamed.
const CRASHES: u32 = 20;

/// The rule, and what it remembers of the events that came.
#[derive(Debug)]
pub(super) struct Patience {
    attempts: u32,
    backoff: Backoff,
    known: Mutex<HashMap<EventId, Known>>,
}

/// What is known of one event.
#[derive(Debug, Default)]
struct Known {
    /// How often work on it failed here.
    failed: u32,
    /// How many copies of it are in hand here.
    in_hand: u32,
    /// How often it was handed out though it was in hand here: its holder lives.
    copies: u32,
}

impl Patience {
    pub(super) fn new(attempts: u32, backoff: Backoff) -> Patience {
        Patience { attempts: attempts.max(1), backoff, known: Mutex::default() }
    }

    /// Takes note of an event that came; says, before any work, whether it kills its consumers.
    /// `attempt` is the broker's count, 1 where it does not count.
    pub(super) fn came(&self, id: EventId, attempt: u32) -> Option<Cause> {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.retain(|_, known| known.in_hand > 0);
        }
        let known = known.entry(id).or_default();
        known.copies += u32::from(known.in_hand > 0);
        known.in_hand += 1;
        let silent = attempt.saturating_sub(known.copies);
        (silent > self.attempts.saturating_add(CRASHES)).then(|| {
            let detail = format!("handed out {silent} times, and nobody said what became of it");
            Cause::new(Code::CrashLoop, detail)
        })
    }

    /// Takes note that an event that came is no longer in hand.
    pub(super) fn went(&self, id: EventId) {
        let mut all = self.known();
        let Some(known) = all.get_mut(&id) else { return };
        known.in_hand = known.in_hand.saturating_sub(1);
        if known.in_hand == 0 && known.failed == 0 {
            all.remove(&id);
        }
    }

    /// Judges a failure. `attempt` is the broker's count, 1 where it does not count; `chance` is in
    /// 0..1.
    pub(super) fn judge(&self, id: EventId, attempt: u32, cause: Cause, chance: f64) -> Nack {
        let mut known = self.known();
        let known = known.entry(id).or_default();
        known.failed += 1;
        let attempt = attempt.saturating_sub(known.copies).max(known.failed);
        if attempt < self.attempts {
            return Nack::Again(self.backoff.pick(attempt, chance));
        }
        let detail = format!("{attempt} of {} attempts; the last: {cause}", self.attempts);
        Nack::Dead(Cause::new(Code::AttemptsSpent, detail))
    }

    /// Forgets the failures of an event that ended.
    pub(super) fn forget(&self, id: EventId) {
        if let Some(known) = self.known().get_mut(&id) {
            known.failed = 0;
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<EventId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn patience() -> Patience {
        Patience::new(3, Backoff { base: SECOND, cap: 60 * SECOND })
    }

    fn cause() -> Cause {
        Cause::new(Code::ConsumerFailed, "no stock")
    }

    fn is_spent(nack: &Nack) -> bool {
        matches!(nack, Nack::Dead(cause) if cause.code == Code::AttemptsSpent
            && cause.detail.contains("no stock"))
    }

    #[test]
    fn waits_double_and_the_last_attempt_is_the_end_whoever_counts() {
        let (patience, uncounted) = (patience(), EventId::new());
        let judge = |attempt| patience.judge(uncounted, attempt, cause(), 1.0);
        assert_eq!(judge(1), Nack::Again(SECOND));
        assert_eq!(judge(1), Nack::Again(2 * SECOND));
        assert!(is_spent(&judge(1)));
        assert!(is_spent(&judge(1)), "nobody heard that it is dead");
        patience.forget(uncounted);
        assert_eq!(judge(1), Nack::Again(SECOND), "it was forgotten with its end");
        let counted = patience.judge(EventId::new(), 3, cause(), 0.5);
        assert!(is_spent(&counted));
    }

    #[test]
    fn what_ended_well_counts_anew() {
        let (patience, id) = (patience(), EventId::new());
        patience.judge(id, 1, cause(), 1.0);
        patience.forget(id);
        assert_eq!(patience.judge(id, 1, cause(), 1.0), Nack::Again(SECOND));
    }

    #[test]
    fn an_event_that_nobody_survives_is_blamed_at_last() {
        let (patience, id) = (patience(), EventId::new());
        assert_eq!(patience.came(id, 23), None);
        patience.went(id);
        assert_eq!(patience.came(id, 24).map(|cause| cause.code), Some(Code::CrashLoop));
    }

    #[test]
    fn a_copy_of_what_is_in_hand_blames_nobody() {
        let (patience, id) = (patience(), EventId::new());
        assert!((1..=60).all(|attempt| patience.came(id, attempt).is_none()));
        assert_eq!(patience.judge(id, 60, cause(), 1.0), Nack::Again(SECOND));
        (0..60).for_each(|_| patience.went(id));
        assert!(patience.came(id, 83).is_some(), "nobody had it in hand 24 times");
    }

    #[test]
    fn nothing_is_remembered_of_what_went_well() {
        let (patience, id) = (patience(), EventId::new());
        patience.came(id, 1);
        patience.judge(id, 1, cause(), 1.0);
        patience.went(id);
        assert_eq!(patience.known().len(), 1);
        patience.came(id, 2);
        patience.forget(id);
        patience.went(id);
        assert_eq!(patience.known().len(), 0);
    }
}
