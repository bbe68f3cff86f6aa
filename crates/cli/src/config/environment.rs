//! The environment as a layer: `POSTBOX__OUTBOX__ORDERS__BATCH=50`.

use super::place::{Place, Problems};
use super::tree::{self, Node, Table, Value};
use crate::nearest::suggestion;

/// What every variable of ours begins with.
pub(crate) const PREFIX: &str = "POSTBOX__";

/// Lays variables over a tree. Names of sections are matched without case; `-` and `.` are `_`.
pub(crate) fn lay(
    variables: impl IntoIterator<Item = (String, String)>,
    tree: &mut Table,
    problems: &mut Problems,
) {
    let mut ours: Vec<(String, String)> =
        variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    // A variable that makes a section (`…__URL`, `…__KIND`) comes before those that fill it.
    ours.sort_by_key(|(name, _)| (!makes_section(name), name.clone()));
    for (name, value) in ours {
        if let Err(wrong) = set(tree, &name, &value) {
            problems.add(&Place::Variable(name), wrong);
        }
    }
}

fn makes_section(name: &str) -> bool {
    name.ends_with("__URL") || name.ends_with("__KIND")
}

fn set(tree: &mut Table, name: &str, value: &str) -> Result<(), String> {
    let path: Vec<&str> = name[PREFIX.len()..].split("__").collect();
    let place = Place::Variable(name.to_owned());
    let leaf = || Node { place: place.clone(), value: read(value, &place) };
    let lower = |part: &str| part.to_ascii_lowercase();
    match path.as_slice() {
        ["OUTBOX" | "SINK", section, rest @ ..] if !rest.is_empty() => {
            let kind = lower(path[0]);
            let sections = table(tree, &kind, &place);
            let key = match sections.keys().find(|known| same(known, section)) {
                Some(known) => known.clone(),
                None if makes_section(name) => lower(section),
                None => {
                    let known = sections.keys().map(String::as_str);
                    let near = suggestion(&lower(section), known);
                    return Err(format!("there is no [{kind}.{}]{near}", lower(section)));
                }
            };
            let section = table(sections, &key, &place);
            put(section, rest, leaf(), &place)
        }
        ["ROUTE" | "LIMIT", index, key] => {
            let kind = lower(path[0]);
            let list = tree
                .entry(kind.clone())
                .or_insert_with(|| Node { place: place.clone(), value: Value::List(Vec::new()) });
            let Value::List(list) = &mut list.value else { return Ok(()) };
            let index = index.parse().ok().filter(|index| *index <= list.len());
            let index: usize = index
                .ok_or_else(|| format!("there are {} of [[{kind}]], counted from 0", list.len()))?;
            if index == list.len() {
                list.push(Node { place: place.clone(), value: Value::Table(Table::new()) });
            }
            let Value::Table(entry) = &mut list[index].value else { return Ok(()) };
            entry.insert(lower(key), leaf());
            Ok(())
        }
        [section @ ("POLICY" | "CHORES" | "ADMIN" | "LOG"), rest @ ..] if !rest.is_empty() => {
            put(table(tree, &lower(section), &place), rest, leaf(), &place)
        }
        _ => Err(format!(
            "write {PREFIX}OUTBOX__NAME__KEY, {PREFIX}SINK__NAME__KEY, {PREFIX}ROUTE__0__KEY, \
             {PREFIX}LIMIT__0__KEY, or {PREFIX}POLICY__KEY (CHORES, ADMIN, LOG likewise)"
        )),
    }
}

fn put(section: &mut Table, path: &[&str], leaf: Node, place: &Place) -> Result<(), String> {
    match path {
        [key] => {
            section.insert(key.to_ascii_lowercase(), leaf);
            Ok(())
        }
        ["HEADERS", name] => {
            let headers = table(section, "headers", place);
            let known = headers.keys().find(|known| same(known, name)).cloned();
            headers.insert(known.unwrap_or_else(|| name.replace('_', "-")), leaf);
            Ok(())
        }
        _ => Err("it goes deeper than any setting".to_owned()),
    }
}

fn table<'a>(tree: &'a mut Table, name: &str, place: &Place) -> &'a mut Table {
    let empty = || Node { place: place.clone(), value: Value::Table(Table::new()) };
    let node = tree.entry(name.to_owned()).or_insert_with(empty);
    if !matches!(node.value, Value::Table(_)) {
        *node = empty();
    }
    match &mut node.value {
        Value::Table(table) => table,
        _ => unreachable!("it was made a table above"),
    }
}

fn same(known: &str, written: &str) -> bool {
    known.to_ascii_uppercase().replace(['-', '.'], "_") == written.to_ascii_uppercase()
}

/// Lists and tables are written as in the file; everything else is taken as it stands.
fn read(value: &str, place: &Place) -> Value {
    if value.starts_with(['[', '{']) {
        let mut problems = Problems::default();
        let mut parsed = tree::parse("", &format!("x = {value}"), &mut problems);
        if let (true, Some(mut node)) = (problems.0.is_empty(), parsed.remove("x")) {
            node.replace_places(place);
            return node.value;
        }
    }
    Value::Loose(value.to_owned())
}

impl Node {
    fn replace_places(&mut self, place: &Place) {
        self.place = place.clone();
        match &mut self.value {
            Value::Table(table) => table.values_mut().for_each(|n| n.replace_places(place)),
            Value::List(list) => list.iter_mut().for_each(|n| n.replace_places(place)),
            _ => {}
        }
    }
}
