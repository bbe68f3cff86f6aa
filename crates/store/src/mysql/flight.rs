//! The hot rows in flight as a lease row names them: ` seq:until seq:until `, each between spaces.
//! Where relays compete, the fence of its claim follows each: ` seq:until:fence `.

use std::fmt::Write as _;

use event::{Fence, Millis};

use crate::compete::Named;

/// Writes which rows are in flight, and until when.
pub(super) fn write(rows: &[(i64, Millis)]) -> String {
    between(rows, |text, (seq, until)| write!(text, "{seq}:{}", until.0))
}

/// Writes which rows are in flight, until when, and in which claims.
pub(super) fn write_named(rows: &[Named]) -> String {
    between(rows, |text, named| write!(text, "{}:{}:{}", named.seq, named.until.0, named.fence.0))
}

fn between<Row>(rows: &[Row], word: impl Fn(&mut String, &Row) -> std::fmt::Result) -> String {
    let mut text = String::with_capacity(rows.len() * 24);
    for row in rows {
        text.push(' ');
        word(&mut text, row).expect("a text takes whatever is written");
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text
}

/// Reads which rows are in flight, and until when.
pub(super) fn read(text: &str) -> Vec<(i64, Millis)> {
    read_named(text).into_iter().map(|named| (named.seq, named.until)).collect()
}

/// Reads which rows are in flight, until when, and in which claims; 0 where a lease says whose.
pub(super) fn read_named(text: &str) -> Vec<Named> {
    let row = |word: &str| {
        let mut numbers = word.split(':').map(|number| number.parse::<i64>().ok());
        let (seq, until) = (numbers.next()??, Millis(numbers.next()??));
        Some(Named { seq, until, fence: Fence(numbers.next().flatten().unwrap_or(0)) })
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
        let named = rows.map(|(seq, until)| Named { seq, until, fence: Fence(seq + 1) });
        assert_eq!(write_named(&named), " 7:10:8 12:-1:13 ");
        assert_eq!(read_named(&write_named(&named)), named);
        assert_eq!(read(&write_named(&named)), rows);
    }
}
