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

    /// Returns the one topic that fits, if no other does.
    pub fn exact(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&self.0)
    }

    /// Tells whether a topic can fit both.
    pub fn meets(&self, other: &Pattern) -> bool {
        let (mine, theirs): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), other.0.chars().collect());
        // For each place in theirs: whether what is left from there on and what is left of mine can
        // be the same.
        let mut met = vec![false; theirs.len() + 1];
        for at in (0..=mine.len()).rev() {
            let mut row = vec![false; theirs.len() + 1];
            for to in (0..=theirs.len()).rev() {
                let after = |row: &[bool]| row.get(to + 1).copied().unwrap_or_default();
                row[to] = match (mine.get(at), theirs.get(to)) {
                    (None, None) => true,
                    (Some('*'), _) | (_, Some('*')) => met[to] || after(&row),
                    (Some(one), Some(other)) => one == other && after(&met),
                    _ => false,
                };
            }
            met = row;
        }
        met[0]
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

    /// Returns the patterns of which it takes topics; it need not take all that fit one of them.
    pub fn patterns(&self) -> Vec<Pattern> {
        let mine = self.routes.iter().filter(|(_, mine)| *mine).map(|(pattern, _)| pattern.clone());
        mine.chain(self.otherwise.then(|| Pattern("*".to_owned()))).collect()
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
        assert_eq!((pattern("a.b").exact(), pattern("a*").exact()), (Some("a.b"), None));
    }

    #[test]
    fn two_patterns_meet_where_a_topic_fits_both() {
        let meets = |one: &str, other: &str| {
            let met = pattern(one).meets(&pattern(other));
            assert_eq!(met, pattern(other).meets(&pattern(one)), "{one} {other}");
            met
        };
        for (one, other) in [
            ("a", "a"),
            ("*", "a"),
            ("a*", "*b"),
            ("a*c", "ab*"),
            ("*", "*"),
            ("a*", "a"),
            ("a*b*c", "*x*"),
            ("a**", "*a"),
            ("order.*", "order.*.dead"),
        ] {
            assert!(meets(one, other), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a", "ab"), ("a*", "b*"), ("*a", "*b"), ("a*b", "a*c")] {
            assert!(!meets(one, other), "{one} {other}");
        }
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
        let named: Vec<String> = of(0).patterns().iter().map(Pattern::to_string).collect();
        assert_eq!(named, ["order.paid", "*.paid"]);
        assert_eq!(rest.patterns(), [pattern("*")]);
        assert_eq!(Topics::default().patterns(), []);
        assert!(of(0).take("order.paid") && of(1).take("order.sent") && rest.take("stranger"));
    }
}
