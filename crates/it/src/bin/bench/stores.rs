//! Each store beside bare loops on the same server, in the same run, one after the other.
//!
//! Rows are counted at the end of every loop. The shapes are how others build a queue in SQL: a
//! row is claimed by an UPDATE that skips locked rows, and then deleted or marked as sent.

mod bed;
mod mysql;
mod postgres;
mod producers;
mod server;
mod shapes;
mod sqlite;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::ROUNDS;
use crate::drain::{How, drain};
use crate::report::{Figure, Report};
use bed::Bed;
use mysql::MySql;
use postgres::Postgres;
use server::Server;
use store::Strategy;

/// How many events one turn takes here, as in most published figures.
const BATCH: usize = 100;
/// How many turns, or bare loops, run at once.
const WIDTH: usize = 4;

/// Measures every store that is named, or all.
pub(crate) async fn measure(names: &[String], events: usize, behind: usize) -> Result<Report> {
    let mut report = Report::new(events);
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
        let run = Run { bed: &*bed, name, events, behind };
        run.drains(&mut report).await?;
        run.strategies(&mut report).await?;
        run.history(&mut report).await?;
        run.relays(&mut report).await?;
        run.producers(&mut report).await?;
    }
    Ok(report)
}

struct Run<'a> {
    bed: &'a dyn Bed,
    name: &'a str,
    events: usize,
    behind: usize,
}

impl Run<'_> {
    fn how(&self, history: bool) -> How {
        let (turns, strategy) = (self.bed.width(), Strategy::Own);
        How { batch: BATCH, turns, history, strategy, relays: 1 }
    }

    async fn relay(&self, how: How) -> Result<crate::drain::Drained> {
        let url = self.bed.outbox(self.events, 0).await?;
        drain(&url, self.events, how).await
    }

    fn named(&self, what: &str) -> String {
        format!("{}_{what}", self.name.replace('-', "_"))
    }

    /// The relay beside the bare owner's loop and beside each shape.
    async fn drains(&self, report: &mut Report) -> Result<()> {
        let shapes = self.bed.shapes();
        let mut rows: Vec<Vec<f64>> = vec![Vec::new(); 3 + shapes.len()];
        let mut claims = Vec::new();
        for _ in 0..ROUNDS {
            let url = self.bed.outbox(self.events, 0).await?;
            rows[0].push(self.bed.raw(&url, self.events).await?);
            rows[1].push(self.relay(self.how(false)).await?.rate);
            let drained = self.relay(self.how(true)).await?;
            rows[2].push(drained.rate);
            claims.extend(drained.claims);
            for (at, shape) in shapes.iter().enumerate() {
                rows[3 + at].push(self.bed.shape(shape, self.events).await?);
            }
        }
        let pair =
            |a: &[f64], b: &[f64]| a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>();
        let (raw, plain, kept) = (&rows[0], &rows[1], &rows[2]);
        let owner = "read and delete by primary key, no lease, no promise";
        report.pair(self.named("own_vs_raw"), owner, &pair(raw, plain));
        report.pair(self.named("own_history_vs_raw"), owner, &pair(raw, kept));
        for (shape, rates) in shapes.iter().zip(&rows[3..]) {
            report.pair(
                self.named(&format!("own_vs_{}", shape.name)),
                shape.what,
                &pair(rates, plain),
            );
            let name = self.named(&format!("own_history_vs_{}", shape.name));
            report.pair(name, shape.what, &pair(rates, kept));
        }
        claims.sort();
        for (name, share) in [("claim_p50_ms", 0.5), ("claim_p99_ms", 0.99)] {
            let what = "how long a claim of up to 100 events takes, ms";
            report.figure(Figure {
                name: self.named(name),
                what,
                value: at(&claims, share),
                unit: 1.0,
            });
        }
        Ok(())
    }

    /// Relays that compete beside one that owns, and beside the first shape.
    async fn strategies(&self, report: &mut Report) -> Result<()> {
        let shape = self.bed.shapes().first();
        for strategy in self.bed.strategies() {
            let (mut owned, mut shaped) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let own = self.relay(self.how(false)).await?.rate;
                let how = How { strategy: *strategy, ..self.how(false) };
                let competing = self.relay(how).await?.rate;
                owned.push((own, competing));
                if let Some(shape) = shape {
                    shaped.push((self.bed.shape(shape, self.events).await?, competing));
                }
            }
            let name = strategy.name();
            report.pair(self.named(&format!("{name}_vs_own")), "own, without history", &owned);
            if let Some(shape) = shape {
                let name = self.named(&format!("{name}_vs_{}", shape.name));
                report.pair(name, shape.what, &shaped);
            }
        }
        Ok(())
    }

    /// The same drain with little and with much history behind it.
    async fn history(&self, report: &mut Report) -> Result<()> {
        let little = self.bed.outbox(0, 10_000).await?;
        let much = self.bed.outbox(0, self.behind).await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let mut rates = Vec::new();
            for url in [&little, &much] {
                self.bed.fill(url, self.events).await?;
                rates.push(drain(url, self.events, self.how(true)).await?.rate);
            }
            rounds.push((rates[0], rates[1]));
        }
        let what = format!("with {} sent rows behind, beside 10000", self.behind);
        report.pair(self.named("flat"), &what, &rounds);
        Ok(())
    }

    /// Several relays beside one.
    async fn relays(&self, report: &mut Report) -> Result<()> {
        if self.bed.width() == 1 {
            return Ok(());
        }
        for relays in [2, 4] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                let one = self.relay(self.how(true)).await?.rate;
                rounds.push((one, self.relay(How { relays, ..self.how(true) }).await?.rate));
            }
            let what = format!("{relays} relays side by side, beside one, history on");
            report.pair(self.named(&format!("relays_{relays}")), &what, &rounds);
        }
        Ok(())
    }

    /// What the event costs the business transaction.
    async fn producers(&self, report: &mut Report) -> Result<()> {
        let url = self.bed.outbox(0, 0).await?;
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let without = self.bed.produce(&url, false).await?;
            let with = self.bed.produce(&url, true).await?;
            drain(&url, producers::TRANSACTIONS, self.how(true)).await?;
            let (relayed, drained) = tokio::join!(
                self.bed.produce(&url, true),
                drain(&url, producers::TRANSACTIONS, self.how(true)),
            );
            drained?;
            alone.push((without, with));
            beside.push((with, relayed?));
        }
        let what = "transactions with a business row and its event, beside the row alone";
        report.pair(self.named("put"), what, &alone);
        let what = "the same while a relay drains, beside none";
        report.pair(self.named("put_beside_relay"), what, &beside);
        Ok(())
    }
}

/// Returns the value at a share of the sorted ones, in milliseconds.
fn at(sorted: &[Duration], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(place).copied().unwrap_or_default().as_secs_f64() * 1e3
}
