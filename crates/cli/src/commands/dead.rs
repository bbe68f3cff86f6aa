//! `postbox dead list|show|requeue|export`: what was given up, and giving it another life.

use clap::{Args, Subcommand};
use event::Status;

use super::listing::{self, List, Narrow, Show};
use crate::args::{Global, Which};
use crate::failure::End;
use crate::out::Out;
use crate::outboxes;
use crate::rows;

mod requeue;

/// Look at dead events, requeue or export them.
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// List dead events, newest first.
    List(List),
    /// Show one dead event and why it was given up.
    #[command(after_help = "Exit codes: 0 found, 1 not found, or not dead.")]
    Show(Show),
    Requeue(requeue::Requeue),
    /// Write dead events with their payloads, one JSON document a line.
    #[command(after_help = "Example:\n  postbox dead export --code sink-refused > refused.ndjson")]
    Export(Export),
}

/// Which dead events.
#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    narrow: Narrow,
    #[command(flatten)]
    which: Which,
}

impl Dead {
    /// Does what is asked.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        match self {
            Dead::List(list) => list.answer(Some(Status::Dead), global, out).await,
            Dead::Show(show) => show.answer(Some(Status::Dead), global, out).await,
            Dead::Requeue(requeue) => requeue.answer(global, out).await,
            Dead::Export(export) => export.answer(global, out).await,
        }
    }
}

impl Export {
    async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let opened = outboxes::open_one(global, &self.which).await?;
        let filter = self.narrow.filter(Some(Status::Dead));
        let exported = listing::walk(&opened, &filter, true, |events| {
            for listed in &events {
                out.value(&rows::json_with_payload(&opened.name, listed))?;
            }
            Ok(())
        });
        exported.await?;
        opened.outbox.close().await;
        Ok(End::Fine)
    }
}
