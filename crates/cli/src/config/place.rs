//! Where a value was written, and what is wrong there.

use std::fmt;
use std::sync::Arc;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A line of a file.
    Line(Arc<str>, usize),
    /// A file as a whole.
    File(Arc<str>),
    /// A variable of the environment.
    Variable(String),
}

/// The name of the file that is compiled in.
pub(crate) const DEFAULT_NAME: &str = "postbox.default.toml";

impl Place {
    /// Returns this place, or the other if nobody wrote this one: it is a default.
    pub(crate) fn or<'a>(&'a self, other: &'a Place) -> &'a Place {
        match self {
            Place::Line(file, _) if **file == *DEFAULT_NAME => other,
            _ => self,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(file, line) => write!(f, "{file}:{line}"),
            Place::File(file) => write!(f, "{file}"),
            Place::Variable(name) => write!(f, "environment {name}"),
        }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it was written.
    pub(crate) place: Place,
}

/// One thing that is wrong with a config. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Where.
    pub(crate) place: Place,
    /// What.
    pub(crate) text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Everything that is wrong with a config, at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    /// Adds one.
    pub(crate) fn add(&mut self, place: &Place, text: impl Into<String>) {
        self.0.push(Problem { place: place.clone(), text: text.into() });
    }

    /// Hands a value over if nothing was wrong, else the problems in the order of their lines.
    pub(crate) fn or<T>(mut self, value: Option<T>) -> Result<T, Problems> {
        self.0.sort();
        self.0.dedup();
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}
