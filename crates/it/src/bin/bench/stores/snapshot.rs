//! A drain while somebody else keeps a snapshot open, so that the server can clean nothing up.

use anyhow::Result;

use super::Run;
use crate::ROUNDS;
use crate::drain::drain;
use crate::report::{Report, say};

/// How many events, or how many times as many as were asked for: it takes a while until it shows.
const EVENTS: usize = 600_000;
const TIMES: usize = 6;

impl Run<'_> {
    /// The last full second of a drain beside the first.
    pub(super) async fn snapshot(&self, report: &mut Report) -> Result<()> {
        let events = self.sizes.events.map_or(EVENTS, |events| TIMES * events);
        let name = self.named("snapshot");
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let url = self.bed.outbox(events, 0).await?;
            let held = self.bed.snapshot(&url).await?;
            let seconds = drain(&url, events, self.how(true)).await?.seconds();
            drop(held);
            say(&format!("{name}: rows of each full second {seconds:?}"));
            if let [first, .., last] = seconds[..] {
                rounds.push((first as f64, last as f64));
            }
        }
        if rounds.is_empty() {
            say(&format!("{name}: {events} rows are gone in less than two full seconds"));
            return Ok(());
        }
        let what = format!("last full second of {events} rows with a snapshot open, beside first");
        report.pair(name, &what, &rounds);
        Ok(())
    }
}
