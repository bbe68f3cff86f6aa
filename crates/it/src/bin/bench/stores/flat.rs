//! The same drain with much beside it: rows that were sent, rows that wait behind, and rows that
//! are due at the same moment.

use anyhow::{Result, ensure};

use super::Run;
use crate::ROUNDS;
use crate::drain::{drain, drain_some};
use crate::report::Report;

/// How many rows are much, unless that is said.
const SENT: usize = 1_000_000;
const WAITING: usize = 5_000_000;
const TIED: usize = 1_000_000;

/// When later rows are due, by their number `n`: each at a moment of its own, all at the same one,
/// and all at one that is far ahead.
const APART: &str = "1700000000000 + n";
const AT_ONCE: &str = "1700000000000";
const AHEAD: &str = "4000000000000";

impl Run<'_> {
    /// Little and much history.
    pub(super) async fn history(&self, report: &mut Report) -> Result<()> {
        let behind = self.sizes.behind.unwrap_or(SENT);
        let little = self.bed.outbox(0, 10_000).await?;
        let much = self.bed.outbox(0, behind).await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let mut rates = Vec::new();
            for url in [&little, &much] {
                self.bed.fill(url, self.events).await?;
                rates.push(drain(url, self.events, self.how(true)).await?.rate);
            }
            rounds.push((rates[0], rates[1]));
        }
        let what = format!("with {behind} sent rows behind, beside 10000");
        report.pair(self.named("flat"), &what, &rounds);
        Ok(())
    }

    /// The first events of a long line, beside a line of only as many.
    pub(super) async fn backlog(&self, report: &mut Report) -> Result<()> {
        let behind = self.sizes.behind.unwrap_or(WAITING);
        let (short, long) = (self.bed.outbox(0, 0).await?, self.bed.outbox(0, 0).await?);
        self.bed.fill(&long, behind).await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let mut rates = Vec::new();
            for url in [&short, &long] {
                self.bed.fill(url, self.events).await?;
                rates.push(self.first(url, "outbox").await?);
            }
            rounds.push((rates[0], rates[1]));
        }
        let what = format!("the first {0} with {behind} behind, beside {0} alone", self.events);
        report.pair(self.named("flat_backlog"), &what, &rounds);
        Ok(())
    }

    /// Later rows that are due at the same moment: when it has come, and while it is ahead.
    pub(super) async fn due(&self, report: &mut Report) -> Result<()> {
        let behind = self.sizes.behind.unwrap_or(TIED);
        let (apart, tied) = (self.bed.outbox(0, 0).await?, self.bed.outbox(0, 0).await?);
        self.bed.later(&tied, behind, AT_ONCE).await?;
        let (empty, ahead) = (self.bed.outbox(0, 0).await?, self.bed.outbox(0, 0).await?);
        self.bed.later(&ahead, behind, AHEAD).await?;
        let (mut due, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            self.bed.later(&apart, self.events, APART).await?;
            let alone = self.first(&apart, "outbox_later").await?;
            self.bed.later(&tied, self.events, AT_ONCE).await?;
            due.push((alone, self.first(&tied, "outbox_later").await?));

            let mut rates = Vec::new();
            for url in [&empty, &ahead] {
                self.bed.fill(url, self.events).await?;
                rates.push(self.first(url, "outbox").await?);
            }
            waiting.push((rates[0], rates[1]));
        }
        let events = self.events;
        let what = format!("{events} later rows and {behind} more due at once, beside {events}");
        report.pair(self.named("flat_due"), &what, &due);
        let what = format!("hot rows beside {behind} later ones of one time ahead, beside none");
        report.pair(self.named("flat_due_ahead"), &what, &waiting);
        Ok(())
    }

    /// Drains as many rows of a table as are measured, which may have more, and counts what is
    /// left. Returns rows per second.
    async fn first(&self, url: &str, table: &str) -> Result<f64> {
        let before = self.bed.count(url, table).await?;
        let drained = drain_some(url, self.events, self.how(true)).await?;
        let after = self.bed.count(url, table).await?;
        let (gone, settled) = (before - after, drained.settled);
        ensure!(gone == settled, "{settled} rows were settled, and {gone} are gone");
        Ok(drained.rate)
    }
}
