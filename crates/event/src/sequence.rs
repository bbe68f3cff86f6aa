//! A row's place in the line of its outbox, which an event keeps through every attempt.
//!
//! It orders the events of one key and counts nothing: there are gaps. It never identifies an
//! event, and says nothing beside the number of another outbox.

use std::fmt;
use std::str::FromStr;

/// The number under which a row stood in the line of its outbox. Of one key, the larger is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(i64);

impl Sequence {
    /// The digits of the largest one: with as many for each, letters sort as the numbers do.
    const DIGITS: usize = 19;

    /// Wraps a row's `seq`. One that never stood in line (it was put with a time) has none.
    pub fn of(seq: i64) -> Option<Sequence> {
        (seq > 0).then_some(Sequence(seq))
    }

    /// Returns the number.
    pub const fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0digits$}", self.0, digits = Sequence::DIGITS)
    }
}

impl FromStr for Sequence {
    type Err = NotOurs;

    fn from_str(text: &str) -> Result<Sequence, NotOurs> {
        let ours = text.len() == Sequence::DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if ours { text.parse().ok() } else { None };
        number.and_then(Sequence::of).ok_or(NotOurs)
    }
}

/// A text that another publisher means as a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOurs;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_sort_as_the_numbers_do_and_come_back() {
        let numbers = [1, 9, 10, 99, 100, 4_294_967_296, i64::MAX - 1, i64::MAX];
        let texts = numbers.map(|number| Sequence::of(number).unwrap().to_string());
        assert!(texts.is_sorted(), "{texts:?}");
        for (number, text) in numbers.into_iter().zip(texts) {
            assert_eq!(text.parse().ok(), Sequence::of(number));
            assert_eq!(text.len(), 19);
        }
    }

    #[test]
    fn what_never_stood_in_line_has_none_and_what_is_not_ours_is_left_alone() {
        assert_eq!((Sequence::of(0), Sequence::of(-1)), (None, None));
        let signed = "+000000000000000007";
        for other in ["", "7", "0000000000000000000", "9999999999999999999", signed] {
            assert_eq!(other.parse::<Sequence>(), Err(NotOurs), "{other:?}");
        }
    }
}
