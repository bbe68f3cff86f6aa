//! What a destination promises, how full it is, and what a person should know of it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

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
    /// Makes a finding.
    pub fn new(grade: Grade, what: impl Into<String>, detail: impl Into<String>) -> Finding {
        Finding { grade, what: what.into(), detail: detail.into() }
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
}
