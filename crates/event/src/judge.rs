//! From a sink's answer to an outcome: the only place that decides to retry, release or give up.

use std::time::Duration;

use crate::{Answer, Cause, Code, Event, Outcome, Pattern, Refusal};

/// How long to wait before another attempt: exponential, capped, with full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first attempt.
    pub base: Duration,
    /// The longest wait ever.
    pub cap: Duration,
}

impl Backoff {
    /// Returns the longest wait after `attempt` (1 is the first).
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(30);
        self.base.saturating_mul(1 << doublings).min(self.cap)
    }

    /// Picks a wait: anything up to the ceiling. `chance` is in 0..1 and comes from outside, so the
    /// rule stays pure. Full jitter keeps the retries of one outage from returning as one wave.
    pub fn pick(&self, attempt: u32, chance: f64) -> Duration {
        self.ceiling(attempt).mul_f64(chance.clamp(0.0, 1.0))
    }
}

/// How much patience one kind of event gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Which topics, if it is about topics.
    pub topic: Option<Pattern>,
    /// Which event types, if it is about types.
    pub kind: Option<Pattern>,
    /// How many attempts before it is dead.
    pub attempts: u32,
    /// How long to wait in between.
    pub backoff: Backoff,
}

impl Limit {
    fn fits(&self, event: &Event) -> bool {
        let fits = |pattern: &Option<Pattern>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches(text))
        };
        fits(&self.topic, &event.topic) && fits(&self.kind, &event.kind)
    }
}

/// How much patience events get: the first limit that fits, else the usual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Limits for some topics or types.
    pub limits: Vec<Limit>,
    /// Attempts for everything else.
    pub attempts: u32,
    /// Waits for everything else.
    pub backoff: Backoff,
    /// How long a lane rests when its destination is down.
    pub rest: Duration,
}

impl Policy {
    /// The longest wait that a destination may ask for.
    const ASKED: Duration = Duration::from_secs(24 * 60 * 60);

    /// How often in a row nobody lives to say what became of an event before it is blamed, however
    /// many attempts its limit allows.
    const CRASHES: u32 = 20;

    /// Returns the attempts and the waits of an event.
    pub fn of(&self, event: &Event) -> (u32, Backoff) {
        let limit = self.limits.iter().find(|limit| limit.fits(event));
        limit.map_or((self.attempts, self.backoff), |limit| (limit.attempts, limit.backoff))
    }

    /// Says, before an event is offered, whether it has already had all its attempts. If nobody
    /// settled the last one, or none of the last twenty, it may be what kills the relay.
    pub fn spent(&self, event: &Event, attempt: u32, unexplained: u32) -> Option<Outcome> {
        let (attempts, _) = self.of(event);
        if attempt > attempts && unexplained == 0 {
            let detail = format!("{} attempts, and the limit is {attempts}", attempt - 1);
            return Some(Outcome::Dead(Cause::new(Code::AttemptsSpent, detail)));
        }
        (attempt > attempts || unexplained >= Policy::CRASHES).then(|| {
            let before = attempt - 1;
            let detail = format!(
                "claimed {before} times; of the last {unexplained}, nobody lived to say what became"
            );
            Outcome::Dead(Cause::new(Code::CrashLoop, detail))
        })
    }

    /// Turns an answer into an outcome. `chance` is in 0..1.
    pub fn judge(&self, event: &Event, attempt: u32, answer: Answer, chance: f64) -> Outcome {
        let (attempts, backoff) = self.of(event);
        let again = |cause: Cause, at_least: Duration, doubt: &str| {
            if attempt >= attempts {
                let detail = format!("{attempt} of {attempts} attempts{doubt}; the last: {cause}");
                return Outcome::Dead(Cause::new(Code::AttemptsSpent, detail));
            }
            Outcome::Retry { after: backoff.pick(attempt, chance).max(at_least), cause }
        };
        match answer {
            Ok(receipt) => Outcome::Done(receipt),
            Err(Refusal::Down(_)) => Outcome::Release { after: self.rest },
            Err(Refusal::Held) => Outcome::Release { after: Duration::ZERO },
            Err(Refusal::Reject(cause)) => Outcome::Dead(cause),
            Err(Refusal::Retry(cause, asked)) => {
                again(cause, asked.unwrap_or_default().min(Policy::ASKED), "")
            }
            Err(Refusal::Unknown(cause)) => again(cause, Duration::ZERO, " (it may have arrived)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Receipt;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> Policy {
        let backoff = Backoff { base: SECOND, cap: 60 * SECOND };
        let patient = Limit {
            topic: Some("slow.*".parse().unwrap()),
            kind: None,
            attempts: 9,
            backoff: Backoff { base: 10 * SECOND, cap: 600 * SECOND },
        };
        Policy { limits: vec![patient], attempts: 3, backoff, rest: 2 * SECOND }
    }

    fn event() -> Event {
        Event::new("order.paid", "OrderPaid", "{}")
    }

    fn cause() -> Cause {
        Cause::new(Code::SinkBusy, "429")
    }

    #[test]
    fn backoff_doubles_up_to_its_cap_and_jitter_takes_any_part_of_it() {
        let backoff = policy().backoff;
        assert_eq!(backoff.ceiling(1), SECOND);
        assert_eq!(backoff.ceiling(4), 8 * SECOND);
        assert_eq!(backoff.ceiling(u32::MAX), 60 * SECOND);
        assert_eq!(backoff.pick(4, 0.5), 4 * SECOND);
    }

    #[test]
    fn each_refusal_has_its_own_reaction() {
        let policy = policy();
        let judge = |answer| policy.judge(&event(), 1, answer, 1.0);
        let receipt = Receipt { broker_id: None };
        assert_eq!(judge(Ok(receipt.clone())), Outcome::Done(receipt));
        let down = judge(Err(Refusal::Down(cause())));
        assert_eq!(down, Outcome::Release { after: 2 * SECOND });
        assert_eq!(judge(Err(Refusal::Held)), Outcome::Release { after: Duration::ZERO });
        assert_eq!(judge(Err(Refusal::Reject(cause()))), Outcome::Dead(cause()));
        let asked = judge(Err(Refusal::Retry(cause(), Some(5 * SECOND))));
        assert_eq!(asked, Outcome::Retry { after: 5 * SECOND, cause: cause() });
        let unknown = judge(Err(Refusal::Unknown(cause())));
        assert_eq!(unknown, Outcome::Retry { after: SECOND, cause: cause() });
    }

    #[test]
    fn the_last_attempt_is_the_last_and_a_timeout_is_never_called_undelivered() {
        let policy = policy();
        let last = policy.judge(&event(), 3, Err(Refusal::Unknown(cause())), 1.0);
        let Outcome::Dead(cause) = last else { panic!("{last:?}") };
        assert_eq!(cause.code, Code::AttemptsSpent);
        assert!(cause.detail.contains("may have arrived"), "{cause}");
    }

    #[test]
    fn an_outage_never_spends_the_last_attempt() {
        let outcome = policy().judge(&event(), 3, Err(Refusal::Down(cause())), 1.0);
        assert_eq!(outcome, Outcome::Release { after: 2 * SECOND });
    }

    #[test]
    fn limits_are_by_topic_or_type_and_a_crash_loop_ends() {
        let policy = policy();
        let slow = Event::new("slow.report", "Report", "{}");
        assert_eq!(policy.of(&slow).0, 9);
        assert_eq!(policy.spent(&slow, 9, 1), None);
        let code = |unexplained| match policy.spent(&event(), 4, unexplained) {
            Some(Outcome::Dead(cause)) => cause.code,
            other => panic!("{other:?}"),
        };
        assert_eq!((code(1), code(0)), (Code::CrashLoop, Code::AttemptsSpent));

        let patient = Policy { attempts: 1000, ..policy };
        assert_eq!(patient.spent(&event(), 21, Policy::CRASHES - 1), None);
        assert!(patient.spent(&event(), 21, Policy::CRASHES).is_some(), "nobody lives to tell");
    }
}
