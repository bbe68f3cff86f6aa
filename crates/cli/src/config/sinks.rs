//! The kinds of sinks. Each has one file: its keys, what they mean, how they print, and the sink
//! that they make.
//!
//! To add a kind, write its file, name it in `kinds!` and show it in `postbox.default.toml`.

mod address;
pub(crate) mod common;
mod posting;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use broker::gate::Gates;
use event::{Cause, Durability, Sink, Topics};
use tokio_util::sync::CancellationToken;
use toml::{Table, Value};

use super::place::{Place, Problems};
use super::sealed::{Sealed, Url};
use super::section::Section;
use super::tree::{self, Node};

/// The classes of durability, as a config writes them.
pub(crate) const CLASSES: &[&str] = &{
    let mut names = [""; Durability::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Durability::ALL[at].as_str();
        at += 1;
    }
    names
};

/// Declares the kinds: the file, which is named as a config writes the kind, and its type.
macro_rules! kinds {
    ($($name:ident $Kind:ident,)+) => {
        $(pub(crate) mod $name;)+

        /// The names of the kinds, as a config writes them.
        pub(crate) const KINDS: &[&str] = &[$(stringify!($name),)+];

        /// A sink of one of the kinds.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = concat!("`", stringify!($name), "`.")] $Kind($name::$Kind),)+
        }

        impl Kind {
            /// Reads the keys of a kind. `None` only if a problem was added.
            fn read_keys(name: &str, section: &mut Section<'_>) -> Option<Kind> {
                match name {
                    $(stringify!($name) => $name::$Kind::read(section).map(Kind::$Kind),)+
                    _ => unreachable!("the section takes only names of kinds"),
                }
            }

            /// Returns the name, as a config writes it.
            pub(crate) fn name(&self) -> &'static str {
                match self { $(Kind::$Kind(_) => stringify!($name),)+ }
            }

            fn inner(&self) -> &dyn Destination {
                match self { $(Kind::$Kind(inner) => inner,)+ }
            }
        }
    };
}

kinds! {
    rocketmq RocketMq,
    kafka Kafka,
    rabbitmq RabbitMq,
    nats Nats,
    redis Redis,
    http Http,
    stdout Stdout,
}

/// What the rest of the program asks of a kind.
trait Destination {
    /// Reads the keys. `None` only if a problem was added.
    fn read(section: &mut Section<'_>) -> Option<Self>
    where
        Self: Sized;

    /// Writes down what is in force, without secrets.
    fn print(&self, table: &mut Table);

    /// Returns the secrets.
    fn secrets(&self) -> Vec<&Sealed> {
        Vec::new()
    }

    /// Returns the urls, which may hold secrets.
    fn urls(&self) -> Vec<&Url> {
        Vec::new()
    }

    /// Makes the sink. Nothing is connected yet.
    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause>;
}

/// What the sinks of one process share, and whose events they get.
pub(crate) struct Wiring<'a> {
    /// The gates before destinations.
    pub(crate) gates: &'a Gates,
    /// Standard output, which there is one of.
    pub(crate) stdout: &'a broker::stdout::Stdout,
    /// When nothing new is offered any more.
    pub(crate) stop: &'a CancellationToken,
    /// The outbox.
    pub(crate) outbox: &'a str,
    /// Which topics lead there, for each outbox that it is about.
    pub(crate) topics: &'a [Topics],
}

impl Kind {
    /// Reads the keys of a kind, and ends the section: a key of another kind is told as such.
    /// `None` only if a problem was added.
    pub(super) fn read(
        name: &'static str,
        mut section: Section<'_>,
    ) -> (Option<Kind>, super::section::Head) {
        let places = section.places();
        let mut kind = Kind::read_keys(name, &mut section);
        if let Some(Err(cause)) = kind.as_ref().map(Kind::try_out) {
            // It begins with the key that it is about, if it is about one.
            let told = cause.detail.split_once(": ");
            let key = |(key, _): &(&str, &str)| section.asked().iter().copied().find(|k| k == key);
            let (key, wrong) = match told.and_then(|it| Some((key(&it)?, it.1))) {
                Some(told) => told,
                None => ("url", cause.detail.as_str()),
            };
            section.refuse(key, places.get(key), wrong);
            kind = None;
        }
        let head = section.end_telling(|key| {
            let owners = KINDS.iter().filter(|kind| keys(kind).contains(&key));
            let owners: Vec<String> = owners.map(|kind| format!("{kind:?}")).collect();
            let list = owners.join(", ");
            (!list.is_empty()).then(|| format!("it is a key of kind {list}, and this is {name:?}"))
        });
        (kind, head)
    }

    /// Makes the sink once, so that what its room refuses is told with the config. What it takes to
    /// post over HTTP was asked for key by key, and reads certificates.
    fn try_out(&self) -> Result<(), Cause> {
        if matches!(self, Kind::Http(_)) {
            return Ok(());
        }
        let (gates, stop) = (Gates::default(), CancellationToken::new());
        let stdout = broker::stdout::Stdout::new("", stop.clone());
        let (gates, stdout, stop) = (&gates, &stdout, &stop);
        let wiring = Wiring { gates, stdout, stop, outbox: "check", topics: &[] };
        self.sink(&wiring).map(drop)
    }

    /// Returns what is in force, without secrets.
    pub(super) fn print(&self) -> Table {
        let mut table = Table::from_iter([("kind".to_owned(), Value::from(self.name()))]);
        self.inner().print(&mut table);
        table
    }

    /// Returns the files that hold a secret; the config is one of them if it holds any.
    pub(crate) fn secret_files<'a>(&'a self, config: &'a Path) -> Vec<&'a Path> {
        let (secrets, urls) = (self.inner().secrets(), self.inner().urls());
        let own = secrets.into_iter().filter_map(|secret| secret.file(config));
        own.chain(urls.into_iter().flat_map(|url| url.files(config))).collect()
    }

    /// Makes the sink. Nothing is connected yet.
    pub(crate) fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        self.inner().sink(wiring)
    }
}

/// Returns the keys of a kind: those that it asks an empty section for.
fn keys(kind: &str) -> Vec<&'static str> {
    let nobody =
        Node { place: Place::File("".into()), value: tree::Value::Table(tree::Table::new()) };
    let mut unheard = Problems::default();
    let mut section = Section::open(String::new(), nobody, &mut unheard);
    Kind::read_keys(kind, &mut section);
    section.asked().to_vec()
}
