//! Durations as people write them: `250ms`, `30s`, `5m`, `1h30m`, `7d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration. The error says what one looks like.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is no duration; write for example \"250ms\", \"30s\" or \"7d\"");
    let mut rest = text.trim();
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(*size).ok_or_else(wrong)?;
        millis = millis.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(Duration::from_millis(millis))
}

/// Writes a duration so that `parse` reads it back, to the millisecond.
pub(crate) fn text(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, size) in UNITS.iter().rev() {
        if millis >= *size {
            text += &format!("{}{name}", millis / size);
            millis %= size;
        }
    }
    text
}

/// Writes a duration with its largest unit only, for tables.
pub(crate) fn short(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().rev().find(|(_, size)| millis >= *size);
    unit.map_or_else(|| "0s".to_owned(), |(name, size)| format!("{}{name}", millis / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_and_written_back() {
        for (written, millis) in
            [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("7d", 604_800_000), ("0s", 0)]
        {
            let read = parse(written).unwrap();
            assert_eq!(read, Duration::from_millis(millis), "{written}");
            assert_eq!(text(read), written);
        }
        assert_eq!(short(Duration::from_millis(5_461_000)), "1h");
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        for wrong in ["", "30", "s", "-1s", "1.5s", "5 m", "30x", "99999999999999999999d"] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("\"30s\""), "{wrong}: {error}");
        }
    }
}
