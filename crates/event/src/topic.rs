//! Which topics a route takes.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A topic pattern: `*` stands for any run of characters, everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// Why a text is no pattern.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("topic pattern {0:?} is empty or holds a control character; write for example \"order.*\"")]
pub struct PatternError(String);

impl Pattern {
    /// Tells whether a topic fits.
    pub fn matches(&self, topic: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().expect("split yields at least one part");
        let Some(mut rest) = topic.strip_prefix(first) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(PatternError(text.escape_default().collect()));
        }
        Ok(Pattern(text.to_owned()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The topics that one lane takes: what its routes name, less what earlier routes already took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    routes: Vec<(Pattern, bool)>,
    otherwise: bool,
}

impl Topics {
    /// Takes every topic.
    pub fn all() -> Topics {
        Topics { routes: Vec::new(), otherwise: true }
    }

    /// Takes what the routes flagged `true` name; the first route that fits a topic decides.
    pub fn of(routes: Vec<(Pattern, bool)>) -> Topics {
        Topics { routes, otherwise: false }
    }

    /// Takes what none of the routes names, so that nothing waits unseen.
    pub fn unrouted(routes: impl IntoIterator<Item = Pattern>) -> Topics {
        let routes = routes.into_iter().map(|pattern| (pattern, false)).collect();
        Topics { routes, otherwise: true }
    }

    /// Tells whether this lane takes a topic.
    pub fn take(&self, topic: &str) -> bool {
        let decided = self.routes.iter().find(|(pattern, _)| pattern.matches(topic));
        decided.map_or(self.otherwise, |(_, mine)| *mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (text, fits, not) in [
            ("order.*", "order.paid", "orders.paid"),
            ("*", "anything", ""),
            ("*.paid", "order.paid", "order.paid.late"),
            ("a*b*c", "a1b2c", "a1c2b"),
            ("order.paid", "order.paid", "order.paid2"),
        ] {
            assert!(pattern(text).matches(fits), "{text} {fits}");
            assert!(text == "*" || !pattern(text).matches(not), "{text} {not}");
        }
        assert!("".parse::<Pattern>().is_err());
    }

    #[test]
    fn every_topic_goes_to_exactly_one_lane() {
        let routes = [("order.paid", 0), ("order.*", 1), ("*.paid", 0)];
        let of = |sink| {
            Topics::of(routes.iter().map(|(text, to)| (pattern(text), *to == sink)).collect())
        };
        let rest = Topics::unrouted(routes.iter().map(|(text, _)| pattern(text)));
        for topic in ["order.paid", "order.sent", "bill.paid", "stranger", ""] {
            let takers = [of(0).take(topic), of(1).take(topic), rest.take(topic)];
            assert_eq!(takers.iter().filter(|taken| **taken).count(), 1, "{topic}: {takers:?}");
        }
        assert!(of(0).take("order.paid") && of(1).take("order.sent") && rest.take("stranger"));
    }
}
