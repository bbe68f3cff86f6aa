//! A statement with places for what it is given, of which there may be many.
//!
//! These servers take no arrays. So a statement says where a list, or a table of rows, stands in
//! it, and is written out for as many as there are. Only placeholders are ever put there:
//!
//! - `$1` is a value, or a list of values;
//! - `{rows: a SIGNED, b CHAR}` is a table of the rows given;
//! - `{tuples: $1, #1, #2}` is what follows VALUES: one tuple for each row, `#1` its first cell;
//! - `{each}` before all of it repeats it for each row, as one UNION ALL.

use std::iter::repeat_n;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

macro_rules! value {
    ($($from:ty => $to:expr),+ $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Value {
                $to(value)
            }
        })+
    };
}

value! {
    i64 => |value| Value::Int(Some(value)),
    u16 => |value| Value::Int(Some(i64::from(value))),
    i32 => |value| Value::Int(Some(i64::from(value))),
    bool => |value| Value::Int(Some(i64::from(value))),
    Option<i64> => Value::Int,
    &str => |value: &str| Value::Text(Some(value.to_owned())),
    String => |value| Value::Text(Some(value)),
    Option<String> => Value::Text,
    Option<&str> => |value: Option<&str>| Value::Text(value.map(str::to_owned)),
    Option<Vec<u8>> => Value::Bytes,
}

/// A part of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What was given under a number, from 0 on.
    Given(usize),
    /// A cell of the row at hand.
    Cell(usize),
    /// A table of rows: the casts of its columns, and their names.
    Rows(Vec<(String, String)>),
    Tuples(Vec<Piece>),
}

/// A statement, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pieces: Vec<Piece>,
    each: bool,
}

/// What stands at the places of a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Filling {
    pub(super) given: Vec<Vec<Value>>,
    pub(super) rows: Vec<Vec<Value>>,
}

impl Template {
    /// Takes a statement apart.
    pub(super) fn parse(text: &str) -> Template {
        let (each, text) = match text.trim_start().strip_prefix("{each}") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Template { pieces: pieces(text.trim()), each }
    }

    /// Returns how many values it takes, and how many cells of each row.
    pub(super) fn takes(&self) -> (usize, usize) {
        fn most(pieces: &[Piece], (given, cells): (usize, usize)) -> (usize, usize) {
            pieces.iter().fold((given, cells), |(given, cells), piece| match piece {
                Piece::Text(_) => (given, cells),
                Piece::Given(at) => (given.max(at + 1), cells),
                Piece::Cell(at) => (given, cells.max(at + 1)),
                Piece::Rows(columns) => (given, cells.max(columns.len())),
                Piece::Tuples(pieces) => most(pieces, (given, cells)),
            })
        }
        most(&self.pieces, (0, 0))
    }

    /// Tells whether a value says how many rows are read: such a one must be a number.
    pub(super) fn limits(&self, given: usize) -> bool {
        let after = |pair: &[Piece]| match pair {
            [Piece::Text(text), Piece::Given(at)] if *at == given => {
                text.ends_with("LIMIT ") || text.ends_with("OFFSET ")
            }
            _ => false,
        };
        self.pieces.windows(2).any(after)
    }

    /// Writes the statement out. Returns its text, and its values in their order.
    pub(super) fn write<'a>(&self, filling: &'a Filling) -> Written<'a> {
        let mut out = (String::new(), Vec::new());
        if !self.each {
            write(&self.pieces, filling, &[], &mut out);
            return out;
        }
        for (at, row) in filling.rows.iter().enumerate() {
            out.0 += if at == 0 { "(" } else { "\nUNION ALL (" };
            write(&self.pieces, filling, row, &mut out);
            out.0 += ")";
        }
        out
    }
}

/// A statement as it is written out, and its values in their order.
type Written<'a> = (String, Vec<&'a Value>);

fn write<'a>(pieces: &[Piece], filling: &'a Filling, row: &'a [Value], out: &mut Written<'a>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.0 += text,
            Piece::Given(at) => {
                let given = &filling.given[*at];
                out.0 += &vec!["?"; given.len()].join(", ");
                out.1.extend(given);
            }
            Piece::Cell(at) => {
                out.0 += "?";
                out.1.push(&row[*at]);
            }
            Piece::Rows(columns) => {
                for (at, row) in filling.rows.iter().enumerate() {
                    out.0 += if at == 0 { "(SELECT " } else { " UNION ALL SELECT " };
                    let cell = |(cast, name): &(String, String)| match at {
                        0 => format!("{cast} AS {name}"),
                        _ => cast.clone(),
                    };
                    out.0 += &columns.iter().map(cell).collect::<Vec<_>>().join(", ");
                    out.1.extend(row);
                }
                out.0 += ")";
            }
            Piece::Tuples(pieces) => {
                for (at, row) in filling.rows.iter().enumerate() {
                    out.0 += if at == 0 { "(" } else { ", (" };
                    write(pieces, filling, row, out);
                    out.0 += ")";
                }
            }
        }
    }
}

/// Takes a text apart.
fn pieces(mut text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while let Some(at) = text.find(['$', '#', '{']) {
        let (before, rest) = text.split_at(at);
        let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[1..=digits].parse::<usize>().ok().filter(|number| *number > 0);
        let (piece, end) = match (rest.as_bytes()[0], number) {
            (b'$', Some(number)) => (Piece::Given(number - 1), digits + 1),
            (b'#', Some(number)) => (Piece::Cell(number - 1), digits + 1),
            (b'{', _) => table(rest),
            _ => (Piece::Text(rest[..1].to_owned()), 1),
        };
        pieces.push(Piece::Text(before.to_owned()));
        pieces.push(piece);
        text = &rest[end..];
    }
    pieces.push(Piece::Text(text.to_owned()));
    pieces
}

/// Reads a table of rows, or tuples, and how long its text is.
fn table(text: &str) -> (Piece, usize) {
    let end = text.find('}').expect("a brace is closed");
    let (kind, inner) = text[1..end].split_once(':').expect("a table says what it is");
    let piece = match kind {
        "rows" => Piece::Rows(inner.split(',').map(column).collect()),
        "tuples" => Piece::Tuples(self::pieces(inner.trim())),
        _ => panic!("{kind} is no table"),
    };
    (piece, end + 1)
}

/// Reads a column: its name and what it is cast to.
fn column(text: &str) -> (String, String) {
    let (name, kind) = text.trim().split_once(' ').expect("a column has a name and a kind");
    let cast = match kind {
        // Compared with identities as the tables have them, by their index.
        "ID" => "CAST(? AS CHAR(36) CHARACTER SET ascii) COLLATE ascii_bin".to_owned(),
        _ => format!("CAST(? AS {kind})"),
    };
    (cast, name.to_owned())
}

impl Filling {
    /// Gives a value.
    pub(super) fn give(&mut self, value: impl Into<Value>) {
        self.given.push(vec![value.into()]);
    }

    /// Gives a list. It is filled up by its last value to a few lengths, so that few statements
    /// are prepared; an empty one is a NULL, which nothing is equal to.
    pub(super) fn list<T: Into<Value>>(&mut self, values: impl IntoIterator<Item = T>) {
        let mut list: Vec<Value> = values.into_iter().map(Into::into).collect();
        let last = list.last().cloned().unwrap_or(Value::Int(None));
        let missing = list.len().next_power_of_two().max(1) - list.len();
        list.extend(repeat_n(last, missing));
        self.given.push(list);
    }

    /// Gives the rows of a table, which is filled up by rows of NULL in the same way: they join
    /// nothing.
    pub(super) fn fill_up(&mut self) {
        let missing = self.rows.len().next_power_of_two() - self.rows.len();
        let Some(last) = self.rows.last() else { return };
        let null = |value: &Value| match value {
            Value::Int(_) => Value::Int(None),
            Value::Text(_) => Value::Text(None),
            Value::Bytes(_) => Value::Bytes(None),
        };
        let empty: Vec<Value> = last.iter().map(null).collect();
        self.rows.extend(repeat_n(empty, missing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_rows_are_written_out_as_placeholders() {
        let template = Template::parse("a IN ($2) b = $1 {rows: n SIGNED, t CHAR} '$[' #");
        assert_eq!(template.takes(), (2, 2));
        let mut filling = Filling::default();
        filling.give(7);
        filling.list([1, 2, 3]);
        filling.rows = vec![vec![1.into(), "x".into()]; 3];
        filling.fill_up();
        let (text, values) = template.write(&filling);
        let row = "CAST(? AS SIGNED), CAST(? AS CHAR)";
        let first = "CAST(? AS SIGNED) AS n, CAST(? AS CHAR) AS t";
        let rows = format!("(SELECT {first}{})", format!(" UNION ALL SELECT {row}").repeat(3));
        assert_eq!(text, format!("a IN (?, ?, ?, ?) b = ? {rows} '$[' #"));
        let seven = Value::from(7);
        assert_eq!((values.len(), values[3], values[4]), (13, &3.into(), &seven));
        assert_eq!(values[11], &Value::Int(None), "a row that joins nothing");
    }

    #[test]
    fn a_statement_is_repeated_for_each_row_and_a_tuple_too() {
        let mut filling = Filling { rows: vec![vec![1.into()], vec![2.into()]], given: vec![] };
        filling.give(9);
        let (text, values) = Template::parse("{each}\nSELECT #1, $1").write(&filling);
        assert_eq!(text, "(SELECT ?, ?)\nUNION ALL (SELECT ?, ?)");
        assert_eq!(values, [&1.into(), &9.into(), &2.into(), &9.into()]);
        let (text, _) = Template::parse("VALUES {tuples: $1, #1}").write(&filling);
        assert_eq!(text, "VALUES (?, ?), (?, ?)");
    }

    #[test]
    fn a_limit_is_known_to_be_one() {
        let template = Template::parse("a > $1 LIMIT $2 OFFSET $3");
        assert_eq!([0, 1, 2].map(|at| template.limits(at)), [false, true, true]);
    }
}
