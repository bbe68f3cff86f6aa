//! `postbox events list|show`.

use clap::{Args, Subcommand};
use event::Status;

use super::listing::{List, Show};
use crate::args::Global;
use crate::failure::End;
use crate::out::Out;

/// Look at events.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// List events, newest first.
    #[command(after_help = "\
Examples:
  postbox events list --key 123
  postbox events list --status retry --code sink-busy
  postbox events list --json | jq -r 'select(.id).id'

With --json, a last line {\"next\": …, \"searched_to\": …} says that there is more: hand `next` to
--after.")]
    List(ListEvents),
    /// Show one event: where it is, and what happened to it.
    #[command(after_help = "Exit codes: 0 found, 1 not found.")]
    Show(Show),
}

/// Which events, and how many.
#[derive(Args, Debug)]
pub(crate) struct ListEvents {
    /// Only events of this status: new, dispatching, retry, sent or dead.
    #[arg(long)]
    status: Option<Status>,
    #[command(flatten)]
    list: List,
}

impl Events {
    /// Lists or shows.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        match self {
            Events::List(ListEvents { status, list }) => list.answer(*status, global, out).await,
            Events::Show(show) => show.answer(None, global, out).await,
        }
    }
}
