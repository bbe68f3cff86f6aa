//! Whether the whole destination is away, or a broker of it.
//!
//! For the whole, the lane rests. For a part it does not: events that have their place there back
//! off, and all others go on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Answer, Code, Refusal};
use tokio::time::Instant;

/// How long a receipt shows that a broker is there.
const LATELY: Duration = Duration::from_secs(10);

/// How long misses may be apart that are of one outage: a name server needs two minutes to let go
/// of a broker whose machine is lost.
const OUTAGE: Duration = Duration::from_secs(120);

/// Takes what is away for a part: it backs off, and holds nobody but its key.
pub(super) fn of_part(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Down(cause) if is_of_one(cause.code) => Refusal::Retry(cause, None),
        refusal => refusal,
    }
}

/// Takes what is away for the whole.
pub(super) fn of_whole(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Retry(cause, None) if is_of_one(cause.code) => Refusal::Down(cause),
        refusal => refusal,
    }
}

/// Takes it so in all answers. What was held by it is out of reach as well.
pub(super) fn all_of_whole(answers: Vec<Answer>) -> Vec<Answer> {
    let away = answers.iter().find_map(|answer| answer.as_ref().err().filter(|it| is_away(it)));
    let away = away.cloned().map_or(Refusal::Held, of_whole);
    let whole = |refusal| match refusal {
        Refusal::Held => away.clone(),
        refusal => of_whole(refusal),
    };
    answers.into_iter().map(|answer| answer.map_err(whole)).collect()
}

/// Tells whether a part is away, and nothing was taken that shows another.
pub(super) fn is_in_doubt(answers: &[Answer]) -> bool {
    let away = |answer: &Answer| answer.as_ref().is_err_and(is_away);
    answers.iter().all(Result::is_err) && answers.iter().any(away)
}

/// Tells whether a refusal is that a part is away.
pub(super) fn is_away(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Retry(cause, None) if is_of_one(cause.code))
}

/// Tells whether a cause speaks of one broker. Who is not let in, or asks for what is too old, is
/// so everywhere.
fn is_of_one(code: Code) -> bool {
    matches!(code, Code::SinkDown | Code::BrokerFull | Code::NotKept)
}

/// What a proxy's answers show of the brokers behind it: it does not tell which of them is there.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<Moments>);

#[derive(Debug, Default)]
struct Moments {
    /// The last receipt.
    taken: Option<Instant>,
    /// The first and the last miss of an outage.
    missed: Option<(Instant, Instant)>,
}

impl Shown {
    /// A broker took something.
    pub(super) fn taken(&self) {
        self.moments().taken = Some(Instant::now());
    }

    /// A broker was away.
    pub(super) fn missed(&self) {
        let (now, mut moments) = (Instant::now(), self.moments());
        let first = moments.missed.filter(|(_, last)| now - *last < OUTAGE);
        moments.missed = Some((first.map_or(now, |(first, _)| first), now));
    }

    /// Tells whether a broker took something since one was found to be away, and lately. What was
    /// taken before says nothing: it may have been that one.
    pub(super) fn lives(&self) -> bool {
        let moments = self.moments();
        let Some(taken) = moments.taken.filter(|taken| taken.elapsed() < LATELY) else {
            return false;
        };
        moments.missed.is_none_or(|(first, _)| taken >= first)
    }

    fn moments(&self) -> MutexGuard<'_, Moments> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use event::{Cause, Receipt};

    use super::*;

    fn down(code: Code) -> Refusal {
        Refusal::Down(Cause::new(code, "as the test says"))
    }

    #[test]
    fn what_one_broker_is_away_for_is_taken_back_and_what_all_refuse_never_becomes_a_part() {
        for code in [Code::SinkDown, Code::BrokerFull, Code::NotKept] {
            let part = of_part(down(code));
            assert!(matches!(part, Refusal::Retry(_, None)), "{code:?}");
            let answers = vec![Err(Refusal::Held), Err(part.clone())];
            assert!(is_in_doubt(&answers));
            let answers = all_of_whole(answers);
            assert_eq!(answers, [Err(down(code)), Err(down(code))]);
            assert!(!is_in_doubt(&answers));
            assert!(
                !is_in_doubt(&[Err(part), Ok(Receipt { broker_id: None })]),
                "another is there"
            );
        }
        for code in [Code::AuthRefused, Code::ConfigInvalid] {
            assert_eq!(of_part(down(code)), down(code));
        }
        let missing = Refusal::Retry(Cause::new(Code::TopicMissing, "as the test says"), None);
        assert!(!is_in_doubt(&[Err(missing.clone())]));
        assert_eq!(of_whole(missing.clone()), missing);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_receipt_after_the_first_miss_shows_that_another_broker_is_there() {
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let shown = Shown::default();
        assert!(!shown.lives());
        shown.taken();
        pass(1).await;
        shown.missed();
        assert!(!shown.lives(), "it may have been the one that is away");
        pass(1).await;
        shown.taken();
        pass(1).await;
        shown.missed();
        assert!(shown.lives());
        pass(LATELY.as_secs()).await;
        assert!(!shown.lives(), "that was long ago");
        shown.taken();
        shown.missed();
        assert!(shown.lives(), "it is the same outage");
        pass(OUTAGE.as_secs()).await;
        shown.taken();
        pass(1).await;
        shown.missed();
        assert!(!shown.lives(), "it is another outage");
    }
}
