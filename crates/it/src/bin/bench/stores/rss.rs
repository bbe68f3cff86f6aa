//! The memory of a relay process while it drains.

use anyhow::Result;

use super::Run;
use crate::ROUNDS;
use crate::process;
use crate::report::{Figure, Report};

impl Run<'_> {
    /// The most memory that the program, which was built before, had in any round.
    pub(super) async fn rss(&self, report: &mut Report) -> Result<()> {
        let mut most: f64 = 0.0;
        for _ in 0..ROUNDS {
            let (url, folder) = (self.bed.outbox(self.events, 0).await?, tempfile::tempdir()?);
            most = most.max(process::peak_memory(folder.path(), &url, self.events).await?);
        }
        report.figure(Figure {
            name: self.named("rss_mib"),
            what: "most memory of the program while draining to stdout, MiB",
            value: most / 1024.0 / 1024.0,
            unit: 1.0,
        });
        Ok(())
    }
}
