//! A site: one outbox, and a folder in which relays are started on it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use event::{Counts, Event, Filter, Listed, Page};
use store::{Outbox, Setup};
use tempfile::TempDir;

use crate::process::Process;
use crate::receiver::Arrival;

/// How often the database is looked at while waiting for a fact in it.
const LOOK: Duration = Duration::from_millis(20);

/// How the relays of a site are set up.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How long a claim lasts.
    pub lease: &'static str,
    /// How long the destination may take.
    pub timeout: &'static str,
    /// Further lines of `[outbox.orders]`.
    pub outbox: &'static str,
    /// Further lines of its `[[route]]`.
    pub route: &'static str,
    /// The lines of `[policy]`.
    pub policy: &'static str,
    /// The lines of `[admin]`.
    pub admin: &'static str,
}

impl Default for Rules {
    fn default() -> Rules {
        let (policy, admin) = ("backoff = \"200ms\"", "off = true");
        Rules { lease: "2s", timeout: "900ms", outbox: "", route: "", policy, admin }
    }
}

/// One outbox, migrated and empty.
pub struct Site {
    folder: TempDir,
    url: String,
    /// This process's own handle on the outbox.
    pub outbox: Arc<dyn Outbox>,
}

impl Site {
    /// Makes a site with a SQLite file.
    pub async fn new() -> Result<Site> {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite:{}", folder.path().join("orders.sqlite3").display());
        let outbox = store::open(&Setup::new(&*url)).await?;
        outbox.migrate().await?;
        Ok(Site { folder, url, outbox })
    }

    /// Makes a site in the database of a server that may just be starting.
    pub async fn on(url: &str, at_most: Duration) -> Result<Site> {
        let (folder, outbox) = (tempfile::tempdir()?, store::open(&Setup::new(url)).await?);
        let until = Instant::now() + at_most;
        while let Err(error) = outbox.migrate().await {
            ensure!(Instant::now() < until, "after {at_most:?}: {error}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(Site { folder, url: url.to_owned(), outbox })
    }

    /// Returns the database file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("orders.sqlite3")
    }

    /// Starts a relay that posts to `destination`.
    pub fn relay(&self, name: &str, destination: &str, rules: &Rules) -> Result<Process> {
        let sink = format!("kind = \"http\"\nurl = \"{destination}\"\nallow_private = true");
        self.relay_to(name, &sink, "order.*", rules)
    }

    /// Starts a relay from these topics to a sink of which these are the lines.
    pub fn relay_to(&self, name: &str, sink: &str, topic: &str, rules: &Rules) -> Result<Process> {
        let config = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&config, config_of(&self.url, sink, topic, rules)?)?;
        let config = config.to_str().context("a temporary folder has a plain name")?;
        Process::start(self.folder.path(), name, &["run", "-c", config])
    }

    /// Puts events over some keys, numbered in their payloads, and returns them.
    pub async fn put(&self, count: usize, keys: usize) -> Result<Vec<Event>> {
        let event = |n| {
            let payload = format!("{{\"n\":{n}}}");
            Event::new("order.paid", "OrderPaid", payload).key(format!("k{}", n % keys))
        };
        let events: Vec<Event> = (0..count).map(event).collect();
        for part in events.chunks(100) {
            self.outbox.put(part, None).await?;
        }
        Ok(events)
    }

    /// Counts.
    pub async fn counts(&self) -> Result<Counts> {
        Ok(self.outbox.catalog().count().await?)
    }

    /// Lists everything.
    pub async fn rows(&self) -> Result<Vec<Listed>> {
        let page = Page { limit: 100_000, after: None, payloads: false };
        Ok(self.outbox.catalog().find(&Filter::default(), &page).await?.events)
    }

    /// Waits until the counts are as asked.
    pub async fn until(
        &self,
        what: &str,
        at_most: Duration,
        ask: impl Fn(&Counts) -> bool,
    ) -> Result<Counts> {
        let until = Instant::now() + at_most;
        loop {
            let counts = self.counts().await?;
            if ask(&counts) {
                return Ok(counts);
            }
            ensure!(Instant::now() < until, "after {at_most:?}: not {what}: {counts:?}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn config_of(url: &str, sink: &str, topic: &str, rules: &Rules) -> Result<String> {
    let Rules { lease, timeout, outbox, route, policy, admin } = rules;
    let mut text = String::new();
    writeln!(text, "[outbox.orders]\nurl = \"{url}\"")?;
    writeln!(text, "lease = \"{lease}\"\nidle = \"200ms\"\n{outbox}")?;
    writeln!(text, "[sink.stock]\n{sink}\ntimeout = \"{timeout}\"")?;
    writeln!(text, "[[route]]\ntopic = \"{topic}\"\nsink = \"stock\"\n{route}")?;
    writeln!(text, "[policy]\nrest = \"200ms\"\n{policy}")?;
    writeln!(text, "[admin]\n{admin}")?;
    Ok(text)
}

/// Checks that each key's events came first in the order in which they were put.
pub fn in_order(events: &[Event], arrivals: &[Arrival]) -> Result<()> {
    let mut came = std::collections::HashMap::<&str, Vec<&str>>::new();
    for arrival in crate::receiver::first(arrivals) {
        let key = arrival.key.as_deref().context("every event of a site has a key")?;
        came.entry(key).or_default().push(&arrival.id);
    }
    let ids: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
    let mut wanted = std::collections::HashMap::<&str, Vec<&str>>::new();
    for (event, id) in events.iter().zip(&ids) {
        let key = event.key.as_deref().context("every event of a site has a key")?;
        wanted.entry(key).or_default().push(id);
    }
    ensure!(came == wanted, "events of a key came out of order, or not at all");
    Ok(())
}
