//! What a destination promises, how full it is, and what a person should know of it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::{Cause, Code, scrub};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, but look at it.
    Warn,
    /// It does not work.
    Bad,
}

impl Grade {
    /// Returns the grade as programs read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Warn => "warn",
            Grade::Bad => "bad",
        }
    }
}

/// One thing that an examination found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What was looked at.
    pub what: String,
    /// What was found, and what to do about it.
    pub detail: String,
}

impl Finding {
    /// Makes a finding. What looks like a secret in its detail is masked.
    pub fn new(grade: Grade, what: impl Into<String>, detail: impl Into<String>) -> Finding {
        Finding { grade, what: what.into(), detail: scrub(&detail.into()) }
    }
}

/// What a receipt is worth. A later one promises more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The destination has it in memory, or does not say: a crash of it may lose the event.
    BestEffort,
    /// It is on the disk of one machine: a crash of the process or of the machine loses nothing.
    Durable,
    /// It is on several machines: the loss of one loses nothing.
    Replicated,
}

impl Durability {
    /// Every class, from the least to the most.
    pub const ALL: [Durability; 3] =
        [Durability::BestEffort, Durability::Durable, Durability::Replicated];

    /// Returns the class as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::BestEffort => "best-effort",
            Durability::Durable => "durable",
            Durability::Replicated => "replicated",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        let known = Durability::ALL.into_iter().find(|class| class.as_str() == text);
        known.ok_or_else(|| format!("{text:?} is none of best-effort, durable, replicated"))
    }
}

/// What is measured of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gauge {
    /// Events that a group has not yet taken in.
    Lag,
    /// Events that wait at the broker to be handed out again.
    Retry,
    /// Events that the broker has given up handing out.
    Dead,
    /// How much of the broker's disk is used, from 0 to 1.
    Disk,
}

impl Gauge {
    /// Every gauge.
    pub const ALL: [Gauge; 4] = [Gauge::Lag, Gauge::Retry, Gauge::Dead, Gauge::Disk];

    /// Returns the name as metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Gauge::Lag => "lag",
            Gauge::Retry => "retry",
            Gauge::Dead => "dead",
            Gauge::Disk => "disk",
        }
    }
}

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// What is measured.
    pub gauge: Gauge,
    /// The broker's name for the topic, stream or queue; empty when it is the broker as a whole.
    pub topic: String,
    /// The consumer group; empty when there is none.
    pub group: String,
    /// The value.
    pub value: f64,
}

/// What a look at a destination brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// What its receipts are worth, by its settings as it tells them now.
    pub durability: Durability,
    /// What a person should know, with what to do about it.
    pub findings: Vec<Finding>,
    /// What it tells of its load.
    pub levels: Vec<Level>,
}

impl Inspection {
    /// Makes one that has nothing to tell but the class.
    pub fn of(durability: Durability) -> Inspection {
        Inspection { durability, findings: Vec::new(), levels: Vec::new() }
    }

    /// Refuses a destination that is worth less than is demanded, with what it hangs on.
    pub fn meets(&self, demand: Durability) -> Result<(), Cause> {
        let durability = self.durability;
        if durability >= demand {
            return Ok(());
        }
        let mut detail = format!("a route demands {demand}, and a receipt is worth {durability}");
        for finding in self.findings.iter().filter(|finding| finding.grade > Grade::Good) {
            detail += &format!("; {}: {}", finding.what, finding.detail);
        }
        Err(Cause::new(Code::DurabilityTooLow, detail))
    }

    /// Adds what another look at the same destination brought, from where other topics are known.
    pub fn join(&mut self, other: Inspection) {
        self.durability = self.durability.min(other.durability);
        for finding in other.findings {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        let of = |level: &Level| (level.gauge, level.topic.clone(), level.group.clone());
        let mut known: BTreeSet<_> = self.levels.iter().map(of).collect();
        self.levels.extend(other.levels.into_iter().filter(|level| known.insert(of(level))));
    }

    /// Returns the sum of a gauge over all topics and groups, or the largest where a sum means
    /// nothing. `None` if the destination does not tell it.
    pub fn total(levels: &[Level], gauge: Gauge) -> Option<f64> {
        let values = levels.iter().filter(|level| level.gauge == gauge).map(|level| level.value);
        values.reduce(|a, b| if gauge == Gauge::Disk { a.max(b) } else { a + b })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_as_it_is_written_and_more_is_greater() {
        for class in Durability::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!(Durability::ALL.is_sorted());
        let wrong = "sure".parse::<Durability>().unwrap_err();
        assert!(wrong.contains("best-effort, durable, replicated"), "{wrong}");
    }
    #[test]
    fn less_than_is_demanded_is_refused_with_what_it_hangs_on() {
        let finding = |grade, what: &str| Finding::new(grade, what, "as the test says");
        let findings = vec![finding(Grade::Good, "disk"), finding(Grade::Warn, "appendfsync")];
        let seen = Inspection { findings, ..Inspection::of(Durability::Durable) };
        assert_eq!(seen.meets(Durability::BestEffort), Ok(()));
        assert_eq!(seen.meets(Durability::Durable), Ok(()));
        let cause = seen.meets(Durability::Replicated).unwrap_err();
        assert_eq!(cause.code, Code::DurabilityTooLow);
        let detail = "a route demands replicated, and a receipt is worth durable; appendfsync: as";
        assert!(cause.detail.starts_with(detail), "{cause}");
    }

    #[test]
    fn two_looks_are_one_that_is_worth_the_less_and_tells_everything_once() {
        let level =
            |value| Level { gauge: Gauge::Lag, topic: "t".into(), group: "g".into(), value };
        let disk = Level { gauge: Gauge::Disk, ..level(0.5) };
        let finding = Finding::new(Grade::Warn, "a", "b");
        let mut one = Inspection {
            durability: Durability::Replicated,
            findings: vec![finding.clone()],
            levels: vec![level(1.0)],
        };
        one.join(Inspection {
            durability: Durability::Durable,
            findings: vec![finding.clone()],
            levels: vec![level(2.0), disk.clone()],
        });
        assert_eq!(one.durability, Durability::Durable);
        assert_eq!((one.findings, one.levels), (vec![finding], vec![level(1.0), disk]));
    }

    #[test]
    fn levels_add_up_but_a_disk_is_as_full_as_its_fullest() {
        let level = |gauge, value| Level { gauge, topic: "t".into(), group: "g".into(), value };
        let levels = [level(Gauge::Lag, 3.0), level(Gauge::Lag, 4.0), level(Gauge::Disk, 0.5)];
        assert_eq!(Inspection::total(&levels, Gauge::Lag), Some(7.0));
        assert_eq!(Inspection::total(&levels, Gauge::Disk), Some(0.5));
        assert_eq!(Inspection::total(&levels, Gauge::Dead), None);
    }
}
