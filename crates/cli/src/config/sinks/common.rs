//! What the brokers' kinds have in common: an address, the broker's name for a topic, and a pace.

use std::time::Duration;

use broker::manner::{Manner, Naming};
use event::Secret;
use toml::{Table, Value};

use super::super::place::Place;
use super::super::print::{number, sealed, time};
use super::super::sealed::{Sealed, Url};
use super::super::section::Section;
use super::Wiring;
use super::address::Address;

/// How long an event may take, and how many may be out at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) timeout: Duration,
    pub(crate) concurrency: usize,
}

impl Pace {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Pace> {
        let timeout = section.duration("timeout");
        let timeout = section.mean("timeout", timeout, |timeout| match timeout.is_zero() {
            true => Err("it must be longer than 0s".to_owned()),
            false => Ok(*timeout),
        });
        let concurrency = section.count("concurrency");
        let concurrency = section.mean("concurrency", concurrency, |count| match count {
            0 => Err("it must be at least 1".to_owned()),
            _ => Ok(*count),
        });
        Some(Pace { timeout: timeout?, concurrency: concurrency? })
    }

    pub(super) fn print(&self, table: &mut Table) {
        table.insert("timeout".to_owned(), time(self.timeout));
        table.insert("concurrency".to_owned(), number(self.concurrency));
    }
}

/// What every broker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) url: Url,
    pub(crate) topic: String,
    pub(crate) pace: Pace,
}

impl Common {
    pub(super) fn read(section: &mut Section<'_>, address: &Address) -> Option<Common> {
        let url = section.text("url");
        let url = section.mean("url", url, |text| {
            let url = Url::read(text)?;
            address.check(url.reveal())?;
            Ok(url)
        });
        let topic = section.text("topic");
        let topic = section.mean("topic", topic, |topic| {
            Naming::new(topic)?;
            Ok(topic.clone())
        });
        let pace = Pace::read(section);
        Some(Common { url: url?, topic: topic?, pace: pace? })
    }

    pub(super) fn print(&self, table: &mut Table) {
        table.insert("url".to_owned(), Value::from(self.url.to_string()));
        table.insert("topic".to_owned(), Value::from(self.topic.clone()));
        self.pace.print(table);
    }

    /// Returns the url, which may hold a password.
    pub(super) fn secret_url(&self) -> Secret {
        Secret::new(self.url.reveal())
    }

    pub(super) fn naming(&self) -> Naming {
        Naming::new(&self.topic).expect("a topic was read as a pattern before")
    }

    pub(super) fn manner(&self, wiring: &Wiring<'_>) -> Manner {
        Manner {
            timeout: self.pace.timeout,
            concurrency: self.pace.concurrency,
            stop: wiring.stop.clone(),
            gates: wiring.gates.clone(),
            topics: wiring.topics.to_vec(),
            ..Manner::new(wiring.outbox)
        }
    }
}

/// Reads a secret; an empty one is none. Outside, `None` only if a problem was added.
pub(super) fn secret(section: &mut Section<'_>, key: &'static str) -> Option<Option<Sealed>> {
    let origin = section.secret(key);
    section.mean(key, origin, |origin| {
        let secret = Sealed::read(origin)?;
        Ok((!secret.value.reveal().is_empty()).then_some(secret))
    })
}

/// Reads a text; an empty one is none. Outside, `None` only if a problem was added.
pub(super) fn text(section: &mut Section<'_>, key: &'static str) -> Option<Option<String>> {
    let text = section.text(key);
    section.need(key, text).map(|text| (!text.is_empty()).then_some(text))
}

/// A name and the secret that goes with it, such as user and password.
pub(crate) type Login = Option<(String, Sealed)>;

/// Reads a name and its secret: both, or neither. Outside, `None` only if a problem was added.
pub(super) fn login(
    section: &mut Section<'_>,
    name: &'static str,
    word: &'static str,
) -> Option<Login> {
    let (who, origin) = (section.text(name), section.secret(word));
    let places = (place(&who), place(&origin));
    let who = section.need(name, who).filter(|who| !who.is_empty());
    let shown = section.mean(word, origin, Sealed::read)?;
    let shown = (!shown.value.reveal().is_empty()).then_some(shown);
    match (who, shown) {
        (Some(who), Some(shown)) => Some(Some((who, shown))),
        (None, None) => Some(None),
        (Some(_), None) => {
            section.refuse(name, places.0.as_ref(), &format!("it needs `{word}` too"));
            None
        }
        (None, Some(_)) => {
            section.refuse(word, places.1.as_ref(), &format!("it needs `{name}` too"));
            None
        }
    }
}

fn place<T>(value: &Option<super::super::place::At<T>>) -> Option<Place> {
    value.as_ref().map(|at| at.place.clone())
}

/// Writes a login down, without its secret.
pub(super) fn print_login(table: &mut Table, keys: (&str, &str), login: &Login) {
    let name = login.as_ref().map_or("", |(name, _)| name);
    table.insert(keys.0.to_owned(), Value::from(name));
    table.insert(keys.1.to_owned(), print_secret(login.as_ref().map(|(_, secret)| secret)));
}

/// Writes down where a secret is.
pub(super) fn print_secret(secret: Option<&Sealed>) -> Value {
    secret.map_or_else(|| Value::from(""), sealed)
}

/// Returns a login as a broker takes it.
pub(super) fn reveal(login: &Login) -> Option<(String, Secret)> {
    login.as_ref().map(|(name, secret)| (name.clone(), secret.value.clone()))
}
