//! Looks at many things in a bounded time: what one round had no time for, the next begins with.
//!
//! What a thing told is remembered until it is asked again, so that a sum over all of them does not
//! jump from round to round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Finding, Grade, Inspection, Level};
use tokio::time::Instant;

/// How long a round may take. Who asks waits for 10 s, and has to learn the class besides.
const ROUND: Duration = Duration::from_secs(4);

/// The rounds of one sink.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Where the last round ended.
    last: Option<String>,
    levels: BTreeMap<String, Vec<Level>>,
}

impl Rounds {
    /// Begins a round over things of these names.
    pub(crate) fn begin(&self, names: BTreeSet<String>) -> Round<'_> {
        let mut known = self.known();
        known.levels.retain(|name, _| names.contains(name));
        let (all, mut left) = (names.len(), Vec::from_iter(names));
        if let Some(last) = &known.last {
            let at = left.partition_point(|name| name <= last);
            left.rotate_left(at % all.max(1));
        }
        left.reverse();
        drop(known);
        Round { rounds: self, left, all, until: Instant::now() + ROUND }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One round.
pub(crate) struct Round<'a> {
    rounds: &'a Rounds,
    /// What is still to be asked, the next last.
    left: Vec<String>,
    all: usize,
    until: Instant,
}

impl Round<'_> {
    /// Returns the next to ask, at the most so many; `None` once all were asked or time is over.
    pub(crate) fn next(&mut self, most: usize) -> Option<Vec<String>> {
        if self.left.is_empty() || self.time().is_zero() {
            return None;
        }
        let mut page = self.left.split_off(self.left.len().saturating_sub(most.max(1)));
        page.reverse();
        self.rounds.known().last = page.last().cloned();
        Some(page)
    }

    /// Returns how much time is left.
    pub(crate) fn time(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Notes what one of them told.
    pub(crate) fn note(&self, name: &str, levels: Vec<Level>) {
        self.rounds.known().levels.insert(name.to_owned(), levels);
    }

    /// Notes what one of them told before it fell silent: of the rest, what it told before counts.
    #[cfg(feature = "nats")]
    pub(crate) fn note_some(&self, name: &str, mut levels: Vec<Level>) {
        let mut known = self.rounds.known();
        let known = known.levels.entry(name.to_owned()).or_default();
        let is = |one: &Level, other: &Level| {
            one.gauge == other.gauge && one.topic == other.topic && one.group == other.group
        };
        known.retain(|before| !levels.iter().any(|now| is(before, now)));
        known.append(&mut levels);
    }

    /// Adds everything that is known, and says how many were not asked.
    pub(crate) fn end(self, what: &str, seen: &mut Inspection) {
        let known = self.rounds.known();
        seen.levels.extend(known.levels.values().flatten().cloned());
        if !self.left.is_empty() {
            let detail = format!(
                "{} of {} {what} were not looked at: it takes too long. Lags are of those that \
                 were; a relay goes on with the others at its next look",
                self.left.len(),
                self.all
            );
            seen.findings.push(Finding::new(Grade::Warn, what, detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{Durability, Gauge};

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn levels(value: f64) -> Vec<Level> {
        let (topic, group) = (String::new(), String::new());
        vec![Level { gauge: Gauge::Lag, topic, group, value }]
    }

    fn end(round: Round<'_>) -> (Option<f64>, Vec<Finding>) {
        let mut seen = Inspection::of(Durability::Durable);
        round.end("topics", &mut seen);
        (Inspection::total(&seen.levels, Gauge::Lag), seen.findings)
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_round_had_no_time_for_the_next_begins_with() {
        let rounds = Rounds::default();
        let mut round = rounds.begin(names(&["a", "b", "c"]));
        assert_eq!(round.next(2), Some(vec!["a".to_owned(), "b".to_owned()]));
        round.note("a", levels(1.0));
        round.note("b", levels(2.0));
        tokio::time::advance(ROUND).await;
        assert_eq!(round.next(2), None, "the time is over");
        let (sum, findings) = end(round);
        assert_eq!(sum, Some(3.0));
        assert!(findings[0].detail.starts_with("1 of 3 topics were not"), "{findings:?}");
        let mut round = rounds.begin(names(&["a", "b", "c"]));
        assert_eq!(round.next(1), Some(vec!["c".to_owned()]));
        round.note("c", levels(4.0));
        tokio::time::advance(ROUND).await;
        assert_eq!(end(round).0, Some(7.0), "what was told before still counts");
        let mut round = rounds.begin(names(&["b"]));
        assert_eq!(round.next(9), Some(vec!["b".to_owned()]));
        round.note("b", levels(8.0));
        assert_eq!((round.next(9), end(round)), (None, (Some(8.0), vec![])), "others are gone");
    }

    #[cfg(feature = "nats")]
    #[tokio::test]
    async fn of_what_one_was_silent_about_what_it_told_before_counts() {
        let (rounds, of) = (Rounds::default(), |group: &str, value| {
            let (gauge, topic, group) = (Gauge::Lag, String::new(), group.to_owned());
            Level { gauge, topic, group, value }
        });
        let round = rounds.begin(names(&["a"]));
        round.note("a", vec![of("g", 1.0), of("h", 2.0)]);
        round.note_some("a", vec![of("g", 5.0), of("i", 1.0)]);
        assert_eq!(rounds.known().levels["a"], [of("h", 2.0), of("g", 5.0), of("i", 1.0)]);
    }
}
