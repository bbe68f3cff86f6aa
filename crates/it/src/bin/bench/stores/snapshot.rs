//! A drain while somebody else keeps a snapshot open, so that the server can clean nothing up.

use anyhow::Result;

use super::Run;
use crate::ROUNDS;
use crate::drain::drain;
use crate::report::{Report, say};

/// How many times as many events as elsewhere: it takes a while until it shows.
const TIMES: usize = 6;

impl Run<'_> {
    /// The last full second of a drain beside the first.
    pub(super) async fn snapshot(&self, report: &mut Report) -> Result<()> {
        let (name, events) = (self.named("snapshot"), TIMES * self.events);
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
