//! Reading one section: typed values, and problems for everything that does not fit.

use std::collections::BTreeMap;
use std::time::Duration;

use super::duration;
use super::place::{At, Place, Problems};
use super::sealed::{Origin, SecretOrigin};
use super::tree::{Node, Table, Value};
use crate::nearest::suggestion;

/// One section of a config while it is read.
pub(crate) struct Section<'a> {
    title: String,
    place: Place,
    table: Table,
    asked: Vec<&'static str>,
    wrong: Vec<&'static str>,
    problems: &'a mut Problems,
}

/// What is left of a section once it is read.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Where it begins.
    pub(crate) place: Place,
    /// Keys that are there, but not as they should be, which was told already.
    pub(crate) wrong: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Opens a section. Something else in its place is a problem, and reads as an empty one.
    pub(crate) fn open(title: String, node: Node, problems: &'a mut Problems) -> Section<'a> {
        let table = match node.value {
            Value::Table(table) => table,
            _ => {
                problems.add(&node.place, format!("{title} is a section, not a value"));
                Table::new()
            }
        };
        let (asked, wrong) = (Vec::new(), Vec::new());
        Section { title, place: node.place, table, asked, wrong, problems }
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Node) -> Result<T, String>,
    ) -> Option<At<T>> {
        self.asked.push(key);
        let node = self.table.remove(key)?;
        match read(&node) {
            Ok(value) => Some(At { value, place: node.place }),
            Err(wrong) => {
                let title = &self.title;
                self.problems.add(&node.place, format!("`{key}` in {title}: {wrong}"));
                self.wrong.push(key);
                None
            }
        }
    }

    /// Reads a text.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<At<String>> {
        self.take(key, text)
    }

    /// Reads a whole number, 0 or more.
    pub(crate) fn count(&mut self, key: &'static str) -> Option<At<usize>> {
        self.take(key, |node| {
            let number = match &node.value {
                Value::Number(number) => usize::try_from(*number).ok(),
                Value::Loose(text) => text.trim().replace('_', "").parse().ok(),
                _ => None,
            };
            number.ok_or_else(|| "it takes a whole number, for example 100".to_owned())
        })
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(&mut self, key: &'static str) -> Option<At<bool>> {
        self.take(key, |node| match &node.value {
            Value::Flag(flag) => Ok(*flag),
            Value::Loose(text) if text == "true" || text == "false" => Ok(text == "true"),
            _ => Err("it takes true or false".to_owned()),
        })
    }

    /// Reads a duration.
    pub(crate) fn duration(&mut self, key: &'static str) -> Option<At<Duration>> {
        self.take(key, |node| match &node.value {
            Value::Text(text) | Value::Loose(text) => duration::parse(text),
            _ => Err("it takes a duration in quotes, for example \"30s\"".to_owned()),
        })
    }

    /// Reads one of a few words.
    pub(crate) fn word(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Option<At<&'static str>> {
        self.take(key, |node| {
            let written = text(node)?;
            let found = words.iter().find(|word| **word == written);
            found.copied().ok_or_else(|| {
                let list: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                let near = suggestion(&written, words.iter().copied());
                format!("{written:?} is not one of {}{near}", list.join(", "))
            })
        })
    }

    /// Reads a list of texts. The environment separates them by commas.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<At<Vec<String>>> {
        self.take(key, |node| match &node.value {
            Value::List(list) => list.iter().map(text).collect(),
            Value::Loose(all) => {
                let parts = all.split(',').map(str::trim).filter(|part| !part.is_empty());
                Ok(parts.map(str::to_owned).collect())
            }
            _ => Err("it takes a list of texts, for example [\"a\", \"b\"]".to_owned()),
        })
    }

    /// Reads one secret.
    pub(crate) fn secret(&mut self, key: &'static str) -> Option<At<SecretOrigin>> {
        self.take(key, secret)
    }

    /// Reads one secret, or a list of them.
    pub(crate) fn secrets(&mut self, key: &'static str) -> Option<At<Vec<SecretOrigin>>> {
        self.take(key, |node| match &node.value {
            Value::List(list) => list.iter().map(secret).collect(),
            _ => Ok(vec![secret(node)?]),
        })
    }

    /// Reads named secrets.
    pub(crate) fn named_secrets(
        &mut self,
        key: &'static str,
    ) -> Option<At<Vec<(String, SecretOrigin)>>> {
        self.take(key, |node| {
            let wrong = || "it takes named values, for example { X-Name = \"value\" }".to_owned();
            let Value::Table(table) = &node.value else { return Err(wrong()) };
            table.iter().map(|(name, node)| Ok((name.clone(), secret(node)?))).collect()
        })
    }

    /// Returns a value that must be there. One that is missing is a problem, unless what stands
    /// there was one already.
    pub(crate) fn need<T>(&mut self, key: &'static str, value: Option<At<T>>) -> Option<T> {
        if value.is_none() && !self.wrong.contains(&key) {
            self.problems.add(&self.place, format!("{} needs `{key}`", self.title));
        }
        value.map(|at| at.value)
    }

    /// Returns what a value that must be there means. One that means nothing is a problem.
    pub(crate) fn mean<T, M>(
        &mut self,
        key: &'static str,
        value: Option<At<T>>,
        mean: impl FnOnce(&T) -> Result<M, String>,
    ) -> Option<M> {
        let place = value.as_ref().map(|at| at.place.clone());
        let value = self.need(key, value)?;
        match mean(&value) {
            Ok(meant) => Some(meant),
            Err(wrong) => {
                self.refuse(key, place.as_ref(), &wrong);
                None
            }
        }
    }

    /// Says that a value that was read does not fit.
    pub(crate) fn refuse(&mut self, key: &'static str, place: Option<&Place>, wrong: &str) {
        let text = format!("`{key}` in {}: {wrong}", self.title);
        self.problems.add(place.map_or(&self.place, |place| place.or(&self.place)), text);
    }

    /// Returns where the values stand that were not read yet.
    pub(crate) fn places(&self) -> BTreeMap<String, Place> {
        self.table.iter().map(|(key, node)| (key.clone(), node.place.clone())).collect()
    }

    /// Returns a duration without reading it: nothing is told if it is none.
    pub(crate) fn glance(&self, key: &'static str) -> Option<At<Duration>> {
        let node = self.table.get(key)?;
        let (Value::Text(text) | Value::Loose(text)) = &node.value else { return None };
        let value = duration::parse(text).ok()?;
        Some(At { value, place: node.place.clone() })
    }

    /// Hands out a subsection for reading elsewhere.
    pub(crate) fn inner(&mut self, key: &'static str) -> Option<Node> {
        self.asked.push(key);
        self.table.remove(key)
    }

    /// Hands out named subsections for reading elsewhere.
    pub(crate) fn named(&mut self, key: &'static str) -> Table {
        let mut sections = Table::new();
        let nodes = match self.inner(key) {
            None => return sections,
            Some(Node { value: Value::Table(table), .. }) => table,
            Some(node) => Table::from([(String::new(), node)]),
        };
        for (name, node) in nodes {
            if matches!(node.value, Value::Table(_)) {
                sections.insert(name, node);
            } else {
                let text = format!("[{key}] has no name: write [{key}.NAME]");
                self.problems.add(&node.place, text);
            }
        }
        sections
    }

    /// Hands out a list of subsections for reading elsewhere.
    pub(crate) fn list(&mut self, key: &'static str) -> Vec<Node> {
        match self.inner(key) {
            None => Vec::new(),
            Some(Node { value: Value::List(list), .. }) => list,
            Some(node) => {
                let text = format!("`{key}` may stand more than once: write [[{key}]]");
                self.problems.add(&node.place, text);
                Vec::new()
            }
        }
    }

    /// Ends the reading: every name that nobody asked for is a problem.
    pub(crate) fn end(self) -> Head {
        self.end_telling(|_| None)
    }

    /// Ends the reading; of a name that nobody asked for, more may be known than what is near it.
    pub(crate) fn end_telling(self, tell: impl Fn(&str) -> Option<String>) -> Head {
        for (name, node) in &self.table {
            let within =
                if self.title.is_empty() { String::new() } else { format!(" in {}", self.title) };
            let near = || suggestion(name, self.asked.iter().copied());
            let more = tell(name).map_or_else(near, |told| format!("; {told}"));
            self.problems.add(&node.place, format!("unknown key `{name}`{within}{more}"));
        }
        Head { place: self.place, wrong: self.wrong }
    }

    /// Ends the reading of something of which nothing is known: no name in it is a problem.
    pub(crate) fn leave(self) -> Head {
        Head { place: self.place, wrong: self.wrong }
    }

    /// Returns the names that were asked for.
    pub(crate) fn asked(&self) -> &[&'static str] {
        &self.asked
    }
}

fn text(node: &Node) -> Result<String, String> {
    match &node.value {
        Value::Text(text) | Value::Loose(text) => Ok(text.clone()),
        _ => Err("it takes a text in quotes".to_owned()),
    }
}

fn secret(node: &Node) -> Result<SecretOrigin, String> {
    let wrong = || {
        "a secret is a text in quotes, { file = \"/run/secrets/x\" } or { env = \"NAME\" }"
            .to_owned()
    };
    let origin = match &node.value {
        Value::Text(text) | Value::Loose(text) => Origin::Inline(text.clone()),
        Value::Table(table) => {
            let mut entries = table.iter();
            match (entries.next(), entries.next()) {
                (Some((kind, node)), None) if kind == "file" => Origin::File(text(node)?.into()),
                (Some((kind, node)), None) if kind == "env" => Origin::Variable(text(node)?),
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    };
    Ok(SecretOrigin(origin))
}
