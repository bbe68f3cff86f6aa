//! The command line of a server with its data folder and port left open.
//!
//! The world starts its instance by it, and tells it to tests: one that must kill its server
//! starts an instance of its own.

use std::path::Path;
use std::process::Child;

use anyhow::{Context, Result};

use super::place::{MORE, Nobody, Place};

/// What stands for the folder of the data in a recipe.
pub(super) const DATA: &str = "{data}";

/// What stands for the port in a recipe.
pub(super) const PORT: &str = "{port}";

/// What stands for further ports in a recipe, where a server listens at several.
pub(super) const PORTS: [&str; MORE] = ["{port2}", "{port3}", "{port4}", "{port5}", "{port6}"];

/// The words of a command. Its process is the server itself, as a user that is not root.
pub(super) struct Recipe(Vec<String>);

impl Recipe {
    pub(super) fn new(program: &Path) -> Result<Recipe> {
        let mut words = Vec::new();
        if let Some(nobody) = Nobody::if_root()? {
            words.extend(nobody.setpriv());
        }
        words.push(program.display().to_string());
        Ok(Recipe(words))
    }

    /// Adds words.
    pub(super) fn with<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Recipe {
        self.0.extend(words.into_iter().map(Into::into));
        self
    }

    /// Starts an instance on its data.
    pub(super) fn spawn(&self, data: &Path, place: &Place<'_>) -> Result<Child> {
        let (data, port) = (data.display().to_string(), place.address.port().to_string());
        let fill = |word: &String| {
            let filled = word.replace(DATA, &data).replace(PORT, &port);
            let more = PORTS.iter().zip(place.more);
            more.fold(filled, |word, (name, port)| word.replace(name, &port.to_string()))
        };
        let words: Vec<_> = self.0.iter().map(fill).collect();
        let (program, args) = words.split_first().context("a recipe begins with a program")?;
        place.command(program)?.args(args).spawn().context("the server does not start")
    }

    /// Returns the words as tests read them.
    pub(super) fn told(&self) -> Result<String> {
        serde_json::to_string(&self.0).context("a recipe")
    }
}
