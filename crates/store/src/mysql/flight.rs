//! The hot rows in flight as a lease row names them: ` seq:until seq:until `, each between spaces.

use std::fmt::Write as _;

use event::Millis;

/// Writes which rows are in flight, and until when.
pub(super) fn write(rows: &[(i64, Millis)]) -> String {
    let mut text = String::with_capacity(rows.len() * 24);
    for (seq, until) in rows {
        write!(text, " {seq}:{}", until.0).expect("a text takes whatever is written");
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text
}

/// Reads which rows are in flight, and until when.
pub(super) fn read(text: &str) -> Vec<(i64, Millis)> {
    let row = |word: &str| {
        let (seq, until) = word.split_once(':')?;
        Some((seq.parse().ok()?, Millis(until.parse().ok()?)))
    };
    text.split_ascii_whitespace().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_read_as_it_was_written() {
        let rows = [(7, Millis(10)), (12, Millis(-1))];
        assert_eq!(write(&rows), " 7:10 12:-1 ");
        assert_eq!(read(&write(&rows)), rows);
        assert_eq!((write(&[]), read("")), (String::new(), vec![]));
    }
}
