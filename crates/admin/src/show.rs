//! Figures and moments as people read them.

use std::time::Duration;

use event::{Millis, Status};

/// A moment: exact for machines and tooltips, relative for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// RFC 3339, UTC.
    pub(crate) exact: String,
    /// Relative to now.
    pub(crate) ago: String,
}

impl Stamp {
    /// Shows a moment as seen now.
    pub(crate) fn new(moment: Millis, now: Millis) -> Stamp {
        let ago = if moment > now {
            format!("in {}", rough(moment.since(now)))
        } else {
            match now.since(moment) {
                gone if gone < Duration::from_secs(2) => "just now".to_string(),
                gone => format!("{} ago", rough(gone)),
            }
        };
        Stamp { exact: moment.to_string(), ago }
    }

    /// Returns the exact moment as a table shows it, in UTC.
    pub(crate) fn clock(&self) -> String {
        self.exact.replacen('T', " ", 1).trim_end_matches('Z').to_string()
    }
}

/// Shows a span with its two largest units at the most.
pub(crate) fn span(span: Duration) -> String {
    let (millis, secs) = (span.as_millis(), span.as_secs());
    match secs {
        0 => format!("{millis} ms"),
        1..10 => format!("{}.{} s", secs, millis % 1000 / 100),
        10..60 => format!("{secs} s"),
        60..3600 => two(secs / 60, "min", secs % 60, "s"),
        3600..86_400 => two(secs / 3600, "h", secs / 60 % 60, "min"),
        _ => two(secs / 86_400, "d", secs / 3600 % 24, "h"),
    }
}

/// Shows a span with its largest unit.
fn rough(span: Duration) -> String {
    match span.as_secs() {
        secs @ 0..60 => format!("{secs} s"),
        secs @ 60..3600 => format!("{} min", secs / 60),
        secs @ 3600..86_400 => format!("{} h", secs / 3600),
        secs => format!("{} d", secs / 86_400),
    }
}

fn two(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    }
}

/// Shows a number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Tells whether a count is to be called an estimate: nothing is nothing.
pub(crate) fn is_estimate(exact: bool, count: u64) -> bool {
    !exact && count > 0
}

/// Shows a count, and that it is an estimate if it is.
pub(crate) fn about(exact: bool, count: u64) -> String {
    format!("{}{}", if is_estimate(exact, count) { "about " } else { "" }, number(count))
}

/// Shows how many a second: with one decimal where that says more.
pub(crate) fn rate(count: u64, seconds: u64) -> String {
    match (count * 10).checked_div(seconds) {
        None => "–".to_string(),
        Some(tenths) if tenths < 100 && tenths % 10 > 0 => {
            format!("{}.{}", tenths / 10, tenths % 10)
        }
        Some(tenths) => number(tenths / 10),
    }
}

/// Shows a size.
pub(crate) fn bytes(size: usize) -> String {
    match size {
        1 => "1 byte".to_string(),
        0..1000 => format!("{size} bytes"),
        1000..1_000_000 => format!("{}.{} kB", size / 1000, size % 1000 / 100),
        _ => format!("{}.{} MB", size / 1_000_000, size % 1_000_000 / 100_000),
    }
}

/// Returns a noun for a number of things: `1 event`, `2 events`.
pub(crate) fn things(count: u64, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {one}{ending}", number(count))
}

/// Returns the style of a status.
pub(crate) fn tone(status: Status) -> &'static str {
    match status {
        Status::New => "calm",
        Status::Dispatching => "busy",
        Status::Retry => "warn",
        Status::Sent => "good",
        Status::Dead => "bad",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_spans_and_figures_read_well() {
        let now = Millis(1_000_000_000_000);
        let stamp = |ago: i64| Stamp::new(Millis(now.0 - ago), now).ago;
        assert_eq!(stamp(500), "just now");
        assert_eq!(stamp(12_000), "12 s ago");
        assert_eq!(stamp(184_000), "3 min ago");
        assert_eq!(stamp(-7_200_000), "in 2 h");
        assert_eq!(span(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(span(Duration::from_secs(184)), "3 min 4 s");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(number(999), "999");
        let counts = [about(true, 1_000), about(false, 1_000), about(false, 0)];
        assert_eq!(counts, ["1,000", "about 1,000", "0"]);
        let rates = [rate(0, 0), rate(0, 10), rate(16, 10), rate(20, 10), rate(12_345, 10)];
        assert_eq!(rates, ["–", "0", "1.6", "2", "1,234"]);
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(2_345), "2.3 kB");
        assert_eq!(things(1, "event"), "1 event");
        assert_eq!(things(1000, "event"), "1,000 events");
    }
}
