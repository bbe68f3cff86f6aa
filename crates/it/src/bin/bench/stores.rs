//! Each store beside bare loops on the same server, in the same run, one after the other.
//!
//! Rows are counted at the end of every loop. The shapes are how others build a queue in SQL: a
//! row is claimed by an UPDATE that skips locked rows, and then deleted or marked as sent.

mod bed;
mod drains;
mod flat;
mod latency;
mod mysql;
mod parts;
mod postgres;
mod producers;
mod rss;
mod server;
mod shapes;
mod snapshot;
mod sqlite;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::drain::How;
use crate::report::Report;
pub(crate) use bed::Bed;
use mysql::MySql;
pub(crate) use parts::Part;
use postgres::Postgres;
pub(crate) use producers::payload;
use server::Server;
use store::Strategy;

/// How many events one turn takes here, as in most published figures.
const BATCH: usize = 100;
/// How many turns, or bare loops, run at once.
const WIDTH: usize = 4;

/// How many events each drain has, unless it is said: enough for a second or more, so that it is
/// not over before the server has to write anything down.
pub(crate) const EVENTS: usize = 100_000;
const EVENTS_OF_POSTGRES: usize = 400_000;

/// How much is measured.
pub(crate) struct Sizes {
    /// How many events each drain has, if it is said.
    pub(crate) events: Option<usize>,
    /// How many rows are much, if not as many as each part says.
    pub(crate) behind: Option<usize>,
}

/// Measures parts of every store that is named, or of all.
pub(crate) async fn measure(names: &[String], parts: &[Part], sizes: &Sizes) -> Result<Report> {
    let mut report = Report::default();
    let all = ["sqlite", "postgres", "mysql", "mariadb"].map(str::to_owned);
    for name in if names.is_empty() { &all[..] } else { names } {
        let bed: Box<dyn Bed> = match name.as_str() {
            "sqlite" => Box::new(sqlite::File::new()?),
            "postgres" | "postgres-18" => Box::new(Server::<Postgres>::start(name).await?),
            "mysql" | "mariadb" => Box::new(Server::<MySql>::start(name).await?),
            // It has no SKIP LOCKED.
            "mariadb-10.5" => Box::new(Server::<MySql>::start(name).await?.without_shapes()),
            other => bail!("no bench is set up for {other:?}"),
        };
        let usual = if name.starts_with("postgres") { EVENTS_OF_POSTGRES } else { EVENTS };
        let run = Run { bed: &*bed, name, events: sizes.events.unwrap_or(usual), sizes };
        for part in parts {
            part.measure(&run, &mut report).await?;
        }
    }
    Ok(report)
}

/// Starts a PostgreSQL with which something else is measured.
pub(crate) async fn postgres() -> Result<impl Bed> {
    Server::<Postgres>::start("postgres").await
}

/// The measurement of one store. Each part of it is a method, beside what it needs.
struct Run<'a> {
    bed: &'a dyn Bed,
    name: &'a str,
    events: usize,
    sizes: &'a Sizes,
}

impl Run<'_> {
    fn how(&self, history: bool) -> How {
        let (turns, strategy) = (self.bed.width(), Strategy::Own);
        How { batch: BATCH, turns, history, strategy, relays: 1 }
    }

    fn named(&self, what: &str) -> String {
        format!("{}_{what}", self.name.replace('-', "_"))
    }
}

/// Returns the value at a share of the sorted ones, in milliseconds.
fn at(sorted: &[Duration], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(place).copied().unwrap_or_default().as_secs_f64() * 1e3
}
