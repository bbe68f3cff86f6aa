//! One section for several outboxes: `{0..2}` in its url or in its table stands for each number,
//! and the outboxes are called after them: `orders_0`, `orders_1`, `orders_2`.

use std::ops::RangeInclusive;

use super::place::{Place, Problems};
use super::tree::{Node, Value};

/// How many outboxes one section may stand for.
const MOST: u64 = 1_000;

/// A range as it is written: `{0..2}`, or `{00..15}` for numbers of two digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    text: String,
    numbers: RangeInclusive<u64>,
    digits: usize,
}

/// Returns the outboxes that a section stands for, each with its name.
pub(crate) fn spread(section: &str, node: Node, problems: &mut Problems) -> Vec<(String, Node)> {
    let ranges = match ranges(&node) {
        Ok(ranges) => ranges,
        Err((place, wrong)) => {
            problems.add(&place, format!("{wrong} in [outbox.{section}]"));
            Vec::new()
        }
    };
    let Some(Range { text, numbers, digits }) = ranges.first().cloned() else {
        return vec![(section.to_owned(), node)];
    };
    let each = |number: u64| {
        let number = format!("{number:0digits$}");
        (format!("{section}_{number}"), with(&node, &text, &number))
    };
    numbers.map(each).collect()
}

/// Finds the ranges in a section's url and table. They must be one and the same.
fn ranges(node: &Node) -> Result<Vec<Range>, (Place, String)> {
    let mut found: Vec<Range> = Vec::new();
    let Value::Table(table) = &node.value else { return Ok(found) };
    for key in ["url", "table"] {
        let Some(Node { place, value: Value::Text(text) | Value::Loose(text) }) = table.get(key)
        else {
            continue;
        };
        for range in read(public(text)).map_err(|wrong| (place.clone(), wrong))? {
            if found.first().is_some_and(|first| *first != range) {
                let (a, b) = (&found[0].text, &range.text);
                let wrong = format!("{a} and {b} are different ranges; write the same one");
                return Err((place.clone(), wrong));
            }
            found.push(range);
        }
    }
    Ok(found)
}

/// Returns what follows the user and the password of a url: neither is a range, nor may print.
fn public(text: &str) -> &str {
    let authority = text.find("://").map_or(0, |at| at + 3);
    let end = text[authority..].find('/').map_or(text.len(), |at| authority + at);
    let from = text[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
    &text[from..]
}

/// Reads every range in a text. Other braces, as in `${env:NAME}`, are none.
fn read(text: &str) -> Result<Vec<Range>, String> {
    let mut ranges = Vec::new();
    for part in text.split('{').skip(1) {
        let Some((inside, _)) = part.split_once('}') else { continue };
        let Some((low, high)) = inside.split_once("..") else { continue };
        let text = format!("{{{inside}}}");
        let (Ok(first), Ok(last)) = (low.parse::<u64>(), high.parse::<u64>()) else {
            return Err(format!("{text} is no range; write for example {{0..2}}"));
        };
        if last < first || last - first >= MOST {
            return Err(format!("{text} counts down, or names more than {MOST}"));
        }
        ranges.push(Range { text, numbers: first..=last, digits: low.len() });
    }
    Ok(ranges)
}

/// Puts a number in the place of a range.
fn with(node: &Node, range: &str, number: &str) -> Node {
    let mut node = node.clone();
    if let Value::Table(table) = &mut node.value {
        for key in ["url", "table"] {
            if let Some(Node { value: Value::Text(text) | Value::Loose(text), .. }) =
                table.get_mut(key)
            {
                let secret = text.len() - public(text).len();
                *text = text[..secret].to_owned() + &text[secret..].replace(range, number);
            }
        }
    }
    node
}
