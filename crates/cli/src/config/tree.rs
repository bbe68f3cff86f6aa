//! A config before anyone asks what it means: names, values and the lines they stand on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::place::{Place, Problems};

/// A table of the tree.
pub(crate) type Table = BTreeMap<String, Node>;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Where.
    pub(crate) place: Place,
    /// What.
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Named values.
    Table(Table),
    /// A list.
    List(Vec<Node>),
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
    /// Text of the environment, which has no types: it becomes what is asked for.
    Loose(String),
    /// Something that no setting takes: a float, a date, a number out of range.
    Other,
}

impl PartialEq for Node {
    /// Compares values, wherever they were written.
    fn eq(&self, other: &Node) -> bool {
        self.value == other.value
    }
}

/// Reads TOML. What cannot be read is a problem; the rest is still returned.
pub(crate) fn parse(file: &str, text: &str, problems: &mut Problems) -> Table {
    let lines = Lines { file: file.into(), text };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let place = lines.place(error.span().unwrap_or_default());
        problems.add(&place, error.message().to_owned());
    }
    lines.table(table.get_ref())
}

struct Lines<'a> {
    file: Arc<str>,
    text: &'a str,
}

impl Lines<'_> {
    fn place(&self, span: Range<usize>) -> Place {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Place::Line(self.file.clone(), line)
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let node = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            let place = self.place(key.span());
            (name.to_string(), Node { place, value: self.value(value.get_ref()) })
        };
        table.iter().map(node).collect()
    }

    fn value(&self, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                parsed.map_or(Value::Other, Value::Number)
            }
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Array(list) => {
                let node = |item: &Spanned<DeValue<'_>>| Node {
                    place: self.place(item.span()),
                    value: self.value(item.get_ref()),
                };
                Value::List(list.iter().map(node).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
            DeValue::Float(_) | DeValue::Datetime(_) => Value::Other,
        }
    }
}

/// Lays one table over another: tables are merged, everything else is replaced.
pub(crate) fn lay(over: Table, under: &mut Table) {
    for (name, node) in over {
        match (under.get_mut(&name), node) {
            (
                Some(Node { place: shown, value: Value::Table(below) }),
                Node { place, value: Value::Table(above) },
            ) => {
                *shown = place;
                lay(above, below);
            }
            (_, node) => {
                under.insert(name, node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_lines_and_the_upper_layer_wins() {
        let mut problems = Problems::default();
        let mut under = parse("under", "[a]\nx = 1\ny = 2\nl = [1, 2]\n", &mut problems);
        let over = parse("over", "[a]\n\ny = 3\nl = [9]\n", &mut problems);
        lay(over, &mut under);
        let Value::Table(a) = &under["a"].value else { panic!("{under:?}") };
        assert_eq!(a["x"].place.to_string(), "under:2");
        assert_eq!(a["y"].place.to_string(), "over:3");
        assert_eq!(a["y"].value, Value::Number(3));
        assert!(matches!(&a["l"].value, Value::List(items) if items.len() == 1));
        assert!(problems.0.is_empty());
    }

    #[test]
    fn text_that_is_no_toml_is_a_problem_with_its_line() {
        let mut problems = Problems::default();
        parse("broken", "[a]\nx = \n", &mut problems);
        assert_eq!(problems.0[0].place.to_string(), "broken:2", "{problems}");
    }
}
