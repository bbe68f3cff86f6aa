//! Which refusals a log has told: the first of each cause, and again once a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use event::Code;

/// How long one line stands for all refusals of its cause.
const STANDS: Duration = Duration::from_secs(60);

/// When each cause was told.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<HashMap<Code, Instant>>);

impl Troubles {
    /// Tells whether a cause is worth a line now; then it has one.
    pub(crate) fn is_news(&self, code: Code, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = told.get(&code).is_some_and(|at| now.duration_since(*at) < STANDS);
        if !stands {
            told.insert(code, now);
        }
        !stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_at_once_and_then_once_a_minute() {
        let (troubles, now) = (Troubles::default(), Instant::now());
        assert!(troubles.is_news(Code::SinkBroken, now));
        assert!(!troubles.is_news(Code::SinkBroken, now + STANDS / 2));
        assert!(troubles.is_news(Code::TooLarge, now + STANDS / 2), "another cause");
        assert!(troubles.is_news(Code::SinkBroken, now + STANDS));
        assert!(!troubles.is_news(Code::SinkBroken, now + STANDS * 3 / 2));
    }
}
