//! The business side of a measurement.

use anyhow::Result;

use super::Run;
use crate::ROUNDS;
use crate::drain::drain;
use crate::report::Report;

/// How many transactions each measurement commits.
pub(super) const TRANSACTIONS: usize = 1200;

/// Returns a key of an event.
pub(super) fn key() -> String {
    fastrand::u32(..1000).to_string()
}

/// Returns the payload of an event.
pub(crate) fn payload() -> String {
    format!("{{\"x\":\"{}\"}}", "y".repeat(super::bed::SIZE - 8))
}

impl Run<'_> {
    /// What the event costs the business transaction.
    pub(super) async fn producers(&self, report: &mut Report) -> Result<()> {
        let url = self.bed.outbox(0, 0).await?;
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let without = self.bed.produce(&url, false).await?;
            let with = self.bed.produce(&url, true).await?;
            drain(&url, TRANSACTIONS, self.how(true)).await?;
            let (relayed, drained) = tokio::join!(
                self.bed.produce(&url, true),
                drain(&url, TRANSACTIONS, self.how(true)),
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
