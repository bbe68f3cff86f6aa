//! Which outboxes a command is about, and opening them.

use std::path::Path;
use std::sync::Arc;

use event::{Cause, Code, StoreError, scrub};
use store::{Home, Outbox, Setup};

use crate::args::{Global, Which};
use crate::config::{self, Config};
use crate::failure::Usage;
use crate::nearest::suggestion;

/// An outbox that was not opened yet.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// Its name in the config, or what stands for one.
    pub(crate) name: String,
    /// How to reach it.
    pub(crate) setup: Setup,
}

/// An open outbox.
pub(crate) struct Opened {
    /// Its name.
    pub(crate) name: String,
    /// The handle.
    pub(crate) outbox: Arc<dyn Outbox>,
    home: Home,
}

impl Chosen {
    /// Returns the outbox of a config.
    pub(crate) fn of(outbox: &config::Outbox) -> Chosen {
        let mut setup = Setup::new(outbox.url.reveal());
        setup.table.clone_from(&outbox.table);
        setup.history = outbox.history;
        setup.strategy = outbox.strategy;
        setup.shards = outbox.shards;
        setup.connections = outbox.connections;
        setup.listen = outbox.listen;
        Chosen { name: outbox.name.clone(), setup }
    }

    /// Makes a handle, even on a database that is not there.
    pub(crate) async fn handle(&self) -> Result<Opened, StoreError> {
        let outbox = store::open(&self.setup).await?;
        Ok(Opened { name: self.name.clone(), outbox, home: store::home(&self.setup.url)? })
    }

    /// Opens it, whatever its schema.
    pub(crate) async fn open(&self) -> Result<Opened, StoreError> {
        if let Home::File(file) = store::home(&self.setup.url)? {
            check_folder(&self.name, &file)?;
        }
        self.handle().await
    }

    /// Opens it, and refuses a schema that this program does not work with.
    pub(crate) async fn open_ready(&self) -> Result<Opened, StoreError> {
        let opened = self.open().await?;
        opened.ready().await?;
        Ok(opened)
    }
}

/// Refuses a file that nobody could make, before the database says so in words that lead nowhere.
fn check_folder(name: &str, file: &Path) -> Result<(), StoreError> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(&file);
    let (shown, place) = (file.display(), folder.display());
    let detail = if file.is_dir() {
        format!("outbox {name}: {shown} is a folder; let the url name a file in it")
    } else if folder.is_dir() {
        return Ok(());
    } else if folder.exists() {
        format!("outbox {name}: {place} is a file, not a folder; correct the url")
    } else {
        format!(
            "outbox {name}: the folder {place} does not exist; make it with `mkdir -p {place}`, or \
             correct the url, then run `postbox migrate`"
        )
    };
    Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)))
}

/// Says that a file is not there, and where it was looked for.
fn missing(name: &str, file: &Path) -> String {
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let follows = match file.is_relative() {
        true => " (a relative path follows the folder in which the command runs)",
        false => "",
    };
    format!(
        "outbox {name}: the file {} does not exist{follows}; correct the url, or run `postbox \
         migrate` to make it",
        whole.display()
    )
}

impl Opened {
    /// Refuses a schema that this program does not work with.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        if let Home::File(file) = &self.home {
            check_folder(&self.name, file)?;
        }
        let store::Schema { found, wanted } = self.outbox.schema().await?;
        let refuse = |code, detail: String| Err(StoreError::Broken(Cause::new(code, detail)));
        match (found, &self.home) {
            (0, Home::File(file)) if !file.exists() => {
                refuse(Code::SchemaMissing, missing(&self.name, file))
            }
            (0, _) => refuse(
                Code::SchemaMissing,
                format!("outbox {} has no tables yet; run `postbox migrate`", self.name),
            ),
            _ if found < wanted => refuse(
                Code::SchemaMissing,
                format!(
                    "outbox {} has schema {found}, this program works with {wanted}; run `postbox \
                     migrate`",
                    self.name
                ),
            ),
            _ if found > wanted => refuse(
                Code::SchemaUnknown,
                format!(
                    "outbox {} has schema {found}, this program knows {wanted}; use a newer \
                     postbox",
                    self.name
                ),
            ),
            _ => Ok(()),
        }
    }
}

/// Returns every outbox that a command is about: that of the url, that of the name, or all.
pub(crate) fn choose(global: &Global, which: &Which) -> anyhow::Result<Vec<Chosen>> {
    Ok(choose_with(global, which)?.0)
}

/// Returns every outbox that a command is about, and the config if one was read.
pub(crate) fn choose_with(
    global: &Global,
    which: &Which,
) -> anyhow::Result<(Vec<Chosen>, Option<Config>)> {
    if let Some(url) = &which.url {
        let read = config::Url::read(url).map_err(|why| Usage(format!("--url: {why}")))?;
        let mut setup = Setup::new(read.reveal());
        if let Some(table) = &which.table {
            setup.table.clone_from(table);
        }
        let usage = |error: StoreError| Usage(error.cause().detail.clone());
        store::home(read.reveal()).map_err(usage)?;
        store::check_table(&setup.table).map_err(usage)?;
        return Ok((vec![Chosen { name: scrub(url), setup }], None));
    }
    if !global.config.exists() {
        let text = "give its path with --config FILE, or only the database with --url URL";
        let file = global.config.display();
        return Err(Usage(format!("there is no config {file}: {text}")).into());
    }
    let config = config::load(&global.config)?;
    let all: Vec<Chosen> = config.outboxes.iter().map(Chosen::of).collect();
    match &which.outbox {
        None => Ok((all, Some(config))),
        Some(name) => match all.into_iter().find(|chosen| chosen.name == *name) {
            Some(chosen) => Ok((vec![chosen], Some(config))),
            None => Err(unknown(name, &config).into()),
        },
    }
}

fn unknown(name: &str, config: &Config) -> Usage {
    let names: Vec<&str> = config.outboxes.iter().map(|outbox| outbox.name.as_str()).collect();
    Usage(strange(name, &names))
}

/// Says that a name is none, which one was probably meant, and which there are.
fn strange(name: &str, names: &[&str]) -> String {
    const MOST: usize = 20;
    let near = suggestion(name, names.iter().copied());
    let some = names[..names.len().min(MOST)].join(", ");
    let more = if names.len() > MOST { ", …" } else { "" };
    format!("the config has no outbox `{name}`{near}; it has {some}{more}")
}

/// Opens the one outbox that a command is about.
pub(crate) async fn open_one(global: &Global, which: &Which) -> anyhow::Result<Opened> {
    let chosen = choose(global, which)?;
    match chosen.as_slice() {
        [one] => Ok(one.open_ready().await?),
        all => {
            let names: Vec<&str> = all.iter().map(|chosen| chosen.name.as_str()).collect();
            let names = names.join(", ");
            Err(Usage(format!("there are several outboxes: name one with --outbox ({names})"))
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_answered_with_those_there_are() {
        let said = strange("nosuch", &["orders", "stock"]);
        assert_eq!(said, "the config has no outbox `nosuch`; it has orders, stock");
        let said = strange("order", &["orders"]);
        assert!(said.contains("did you mean `orders`?; it has orders"), "{said}");
    }
}
