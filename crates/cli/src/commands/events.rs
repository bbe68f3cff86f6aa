//! `postbox events list|show`, and what `dead` shares with it.

use clap::{Args, Subcommand};
use event::{Cursor, EventId, Filter, Listed, Page, Status};
use serde_json::Value;

use crate::args::{Global, Which};
use crate::failure::End;
use crate::out::Out;
use crate::outboxes::{self, Opened};
use crate::rows;
use crate::table::Tone;

/// Look at events.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// List events, newest first.
    #[command(after_help = "\
Examples:
  postbox events list --key 123
  postbox events list --status retry --code sink-busy
  postbox events list --json | jq -r .id")]
    List(List),
    /// Show one event: where it is, and what happened to it.
    #[command(after_help = "Exit codes: 0 found, 1 not found.")]
    Show(Show),
}

/// Which events, and how many.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only events of this status: new, dispatching, retry, sent or dead.
    #[arg(long)]
    status: Option<Status>,
    #[command(flatten)]
    narrow: Narrow,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    which: Which,
}

/// Which events.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Narrow {
    /// Only the event with this id.
    #[arg(long)]
    id: Option<EventId>,
    /// Only events with this business key.
    #[arg(long)]
    key: Option<String>,
    /// Only events of this type.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only events whose newest trouble has this code.
    #[arg(long)]
    code: Option<String>,
}

impl Narrow {
    /// Returns the filter, of one status or of any.
    pub(crate) fn filter(&self, status: Option<Status>) -> Filter {
        let Narrow { id, key, kind, topic, code } = self.clone();
        Filter { id, key, kind, topic, status, code }
    }

    /// Tells whether everything is meant.
    pub(crate) fn is_all(&self) -> bool {
        self.filter(None) == Filter::default()
    }
}

/// Which part of a list.
#[derive(Args, Debug)]
pub(crate) struct Part {
    /// How many at the most.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Where to go on: what the list before said.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// One event.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Its id.
    id: EventId,
    /// Show the payload as well.
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    which: Which,
}

impl Events {
    /// Lists or shows.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        match self {
            Events::List(List { status, narrow, part, which }) => {
                list(&narrow.filter(*status), part, which, global, out).await
            }
            Events::Show(show) => show.answer(None, global, out).await,
        }
    }
}

/// Lists what a filter finds, page by page, up to the limit.
pub(crate) async fn list(
    filter: &Filter,
    part: &Part,
    which: &Which,
    global: &Global,
    out: Out,
) -> anyhow::Result<End> {
    const PAGE: usize = 500;
    let opened = outboxes::open_one(global, which).await?;
    let catalog = opened.outbox.catalog();
    let mut after = part.after.clone().map(Cursor);
    let mut events: Vec<Listed> = Vec::new();
    let mut left = part.limit;
    while left > 0 {
        let page = Page { limit: left.min(PAGE), after: after.take(), payloads: false };
        let listing = catalog.find(filter, &page).await?;
        left = left.saturating_sub(listing.events.len());
        if out.json {
            for listed in &listing.events {
                out.value(&Value::Object(rows::json(&opened.name, listed)))?;
            }
        }
        events.extend(listing.events);
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    if events.is_empty() {
        out.aside(Tone::Dim, "No events.");
    } else if !out.json {
        out.table(&rows::table(&events))?;
    }
    if let Some(Cursor(next)) = after {
        out.aside(Tone::Dim, format!("There are more: --after {next}"));
    }
    opened.outbox.close().await;
    Ok(End::Fine)
}

impl Show {
    /// Shows an event, if it has the status that is asked for.
    pub(crate) async fn answer(
        &self,
        status: Option<Status>,
        global: &Global,
        out: Out,
    ) -> anyhow::Result<End> {
        let opened = outboxes::open_one(global, &self.which).await?;
        let found = find(&opened, self.id, self.payload).await?;
        opened.outbox.close().await;
        let Some(listed) = found else {
            out.aside(Tone::Bad, format!("postbox: there is no event {}", self.id));
            return Ok(End::Wrong);
        };
        if let Some(wanted) = status.filter(|wanted| *wanted != listed.status) {
            let text = format!("postbox: event {} is {}, not {wanted}", self.id, listed.status);
            out.aside(Tone::Bad, text);
            return Ok(End::Wrong);
        }
        match (out.json, self.payload) {
            (true, true) => out.value(&rows::json_with_payload(&opened.name, &listed))?,
            (true, false) => out.value(&Value::Object(rows::json(&opened.name, &listed)))?,
            (false, payload) => rows::page(out, &opened.name, &listed, payload)?,
        }
        Ok(End::Fine)
    }
}

async fn find(opened: &Opened, id: EventId, payloads: bool) -> anyhow::Result<Option<Listed>> {
    let filter = Filter { id: Some(id), ..Filter::default() };
    let page = Page { limit: 1, after: None, payloads };
    Ok(opened.outbox.catalog().find(&filter, &page).await?.events.pop())
}
