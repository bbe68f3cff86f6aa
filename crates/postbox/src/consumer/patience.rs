//! How often work on an event may fail, and how long to wait in between.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use event::{Backoff, Cause, Code, EventId, Nack};

/// How many events it remembers that failed. Beyond that, those that fail now count anew.
const REMEMBERED: usize = 10_000;

/// Of this many times more nobody lived to say what became of it before the event is blamed.
const CRASHES: u32 = 20;

/// The rule, and what it remembers of brokers that do not count.
#[derive(Debug)]
pub(super) struct Patience {
    attempts: u32,
    backoff: Backoff,
    failed: Mutex<HashMap<EventId, u32>>,
}

impl Patience {
    pub(super) fn new(attempts: u32, backoff: Backoff) -> Patience {
        Patience { attempts: attempts.max(1), backoff, failed: Mutex::default() }
    }

    /// Says, before any work, whether an event is what kills its consumers.
    pub(super) fn spent(&self, attempt: u32) -> Option<Cause> {
        (attempt > self.attempts.saturating_add(CRASHES)).then(|| {
            let detail = format!("handed out {attempt} times, and nobody said what became of it");
            Cause::new(Code::CrashLoop, detail)
        })
    }

    /// Judges a failure. `attempt` is the broker's count, 1 where it does not count; `chance` is in
    /// 0..1.
    pub(super) fn judge(&self, id: EventId, attempt: u32, cause: Cause, chance: f64) -> Nack {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= REMEMBERED {
            failed.clear();
        }
        let count = failed.entry(id).or_insert(0);
        *count += 1;
        let attempt = attempt.max(*count);
        if attempt < self.attempts {
            return Nack::Again(self.backoff.pick(attempt, chance));
        }
        failed.remove(&id);
        let detail = format!("{attempt} of {} attempts; the last: {cause}", self.attempts);
        Nack::Dead(Cause::new(Code::AttemptsSpent, detail))
    }

    /// Forgets an event that ended.
    pub(super) fn forget(&self, id: EventId) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
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
        let patience = patience();
        assert_eq!(patience.spent(23), None);
        assert_eq!(patience.spent(24).map(|cause| cause.code), Some(Code::CrashLoop));
    }
}
