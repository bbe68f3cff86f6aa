//! The config: defaults that are compiled in, the operator's file over them, the environment over
//! both.
//!
//! It is typed twice: `Written` is what stands there, `Config` is what it means. All problems are
//! told at once, each with its line. Nothing here opens a database or a connection.

mod budget;
mod check;
pub(crate) mod duration;
mod environment;
mod meant;
mod place;
mod print;
mod sealed;
mod section;
mod series;
pub(crate) mod sinks;
#[cfg(test)]
mod tests;
mod tree;
mod written;

use std::path::Path;

pub(crate) use meant::{Chores, Config, Outbox, Route, Sink};
use place::{DEFAULT_NAME, Place};
pub(crate) use place::{Problem, Problems};
pub(crate) use print::document;
pub(crate) use sealed::Url;
use tree::{Table, Value};
use written::Written;

/// The defaults, the reference and the example, in one file.
pub(crate) const DEFAULT: &str = include_str!("../../../postbox.default.toml");

/// How a config file is called.
const USUAL: &str = "postbox.toml";

/// Loads the config of a file, with the environment over it.
pub(crate) fn load(file: &Path) -> Result<Config, Problems> {
    let name = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => parse(&name, &text, std::env::vars()),
        Err(error) => {
            let mut problems = Problems::default();
            let text = match file.is_dir() {
                true => format!("is a folder; name the file: {}", file.join(USUAL).display()),
                false => format!("cannot be read: {error}; give the config with --config FILE"),
            };
            problems.add(&Place::File(name.into()), text);
            Err(problems)
        }
    }
}

/// Gives the config that a text and variables mean.
pub(crate) fn parse(
    name: &str,
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, Problems> {
    let file = Place::File(name.into());
    let mut problems = Problems::default();
    let mut user = tree::parse(name, text, &mut problems);
    if !problems.0.is_empty() {
        return problems.or(None);
    }
    environment::lay(variables, &mut user, &mut problems);
    let written = Written::read(&file, over_defaults(user), &mut problems);
    check::check(&written, &file, &mut problems);
    let config = Config::of(&written, &mut problems);
    problems.or(config)
}

/// Lays a tree over the defaults. The example's sections are what every section of its kind starts
/// from; its routes and limits, and what has no default, are left out.
fn over_defaults(mut user: Table) -> Table {
    let mut defaults = tree::parse(DEFAULT_NAME, DEFAULT, &mut Problems::default());
    defaults.remove("route");
    defaults.remove("limit");
    for section in ["outbox", "sink"] {
        let templates = templates(&mut defaults, section);
        let Some(Value::Table(sections)) = user.get_mut(section).map(|node| &mut node.value) else {
            continue;
        };
        for section in sections.values_mut() {
            let Value::Table(given) = &mut section.value else { continue };
            let kind = kind_of(given);
            let fits = |(of, _): &&(Option<String>, Table)| of.is_none() || *of == kind;
            if let Some((_, template)) = templates.iter().find(fits) {
                let mut merged = template.clone();
                tree::lay(std::mem::take(given), &mut merged);
                *given = merged;
            }
        }
    }
    tree::lay(user, &mut defaults);
    defaults
}

/// Takes the example's sections out of the defaults, by their kind, as far as they are defaults.
fn templates(defaults: &mut Table, section: &str) -> Vec<(Option<String>, Table)> {
    let sections = defaults.remove(section).map(|node| node.value);
    let Some(Value::Table(sections)) = sections else { return Vec::new() };
    let template = |node: tree::Node| {
        let Value::Table(mut template) = node.value else { return None };
        let kind = kind_of(&template);
        template.remove("kind");
        template.remove("url");
        Some((kind, template))
    };
    sections.into_values().filter_map(template).collect()
}

/// Returns the kind of a sink; an outbox has none.
fn kind_of(section: &Table) -> Option<String> {
    match &section.get("kind")?.value {
        Value::Text(text) | Value::Loose(text) => Some(text.clone()),
        _ => None,
    }
}
