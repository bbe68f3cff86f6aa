//! `postbox dead requeue`: by ids, or everything that a filter finds.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use event::{EventId, Filter, Requeued, Status};
use serde_json::json;

use super::super::listing::{self, Narrow};
use crate::args::{Global, Which};
use crate::failure::{End, Usage};
use crate::out::Out;
use crate::outboxes::{self, Opened};
use crate::rows;
use crate::table::Tone;

/// Give dead events a new life: the same event, with all its attempts again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  postbox dead requeue 0198c0de-0000-7000-8000-000000000001
  postbox dead requeue --code sink-refused --dry-run
  postbox dead requeue --topic order.paid --yes
  postbox dead requeue --all

Events that are named by id are requeued at once; a filter, or --all, asks first.
Exit codes:
  0  requeued, or nothing was found
  1  some of the events named are not dead, or you answered no
  2  it was not said which events, or --yes is missing where nobody can be asked")]
pub(crate) struct Requeue {
    /// The events, by id.
    #[arg(value_name = "ID", value_parser = listing::id)]
    ids: Vec<EventId>,
    /// Every dead event.
    #[arg(long)]
    all: bool,
    /// Show which events, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    narrow: Narrow,
    #[command(flatten)]
    which: Which,
}

impl Requeue {
    /// Requeues what was named or found.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let usage = match (self.ids.is_empty(), self.all, self.narrow.is_all()) {
            (true, false, true) => "say which: event ids, a filter such as --code, or --all",
            (false, true, _) | (false, _, false) => "name events by id, or by a filter; not both",
            _ => "",
        };
        if !usage.is_empty() {
            return Err(Usage(usage.to_owned()).into());
        }
        let opened = outboxes::open_one(global, &self.which).await?;
        let end = self.requeue(&opened, out).await;
        opened.outbox.close().await;
        end
    }

    async fn requeue(&self, opened: &Opened, out: Out) -> anyhow::Result<End> {
        let filter = self.narrow.filter(Some(Status::Dead));
        let named = !self.ids.is_empty();
        let ids = match (named, self.dry_run) {
            (true, false) => self.ids.clone(),
            (true, true) => self.find_named(opened, out).await?,
            (false, show) => find(opened, &filter, out, show).await?,
        };
        if self.dry_run {
            out.aside(Tone::Dim, format!("{}; nothing was changed.", counted(ids.len())));
            return Ok(End::Fine);
        }
        if !named && !ids.is_empty() && !self.yes && !confirmed(&opened.name, ids.len())? {
            out.aside(Tone::Dim, "Nothing was changed.");
            return Ok(End::Wrong);
        }
        let mut done = Requeued::default();
        for some in ids.chunks(500) {
            let step = opened.outbox.catalog().requeue(some, None, some.len()).await?;
            done.requeued.extend(step.requeued);
            done.skipped.extend(step.skipped);
        }
        opened.outbox.ring();
        say(&done, opened, out)?;
        let missed = named && !done.skipped.is_empty();
        Ok(if missed { End::Wrong } else { End::Fine })
    }

    async fn find_named(&self, opened: &Opened, out: Out) -> anyhow::Result<Vec<EventId>> {
        let mut ids = Vec::new();
        for id in &self.ids {
            let filter = Filter { id: Some(*id), status: Some(Status::Dead), ..Filter::default() };
            ids.extend(find(opened, &filter, out, true).await?);
        }
        Ok(ids)
    }
}

/// Collects what a filter finds now, so that exactly this is requeued, and not what dies meanwhile.
async fn find(
    opened: &Opened,
    filter: &Filter,
    out: Out,
    show: bool,
) -> anyhow::Result<Vec<EventId>> {
    let mut ids = Vec::new();
    let found = listing::walk(opened, filter, false, |events| {
        if show && out.json {
            for listed in &events {
                out.value(&rows::json(&opened.name, listed).into())?;
            }
        } else if show && !events.is_empty() {
            out.table(&rows::table(&events))?;
        }
        ids.extend(events.iter().map(|listed| listed.event.id));
        Ok(())
    });
    found.await?;
    Ok(ids)
}

fn counted(count: usize) -> String {
    format!("{count} dead {}", if count == 1 { "event" } else { "events" })
}

fn confirmed(name: &str, count: usize) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let text = format!("{} would be requeued: say --yes to do it", counted(count));
        return Err(Usage(text).into());
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "Requeue {} of {name}? [y/N] ", counted(count))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn say(done: &Requeued, opened: &Opened, out: Out) -> anyhow::Result<()> {
    if out.json {
        let (requeued, skipped) = (&done.requeued, &done.skipped);
        out.value(&json!({ "outbox": opened.name, "requeued": requeued, "skipped": skipped }))?;
        return Ok(());
    }
    for id in &done.skipped {
        out.aside(Tone::Warn, format!("! {id} is no dead event; nothing was changed for it"));
    }
    let (mark, tone, text) = match (done.requeued.len(), done.skipped.is_empty()) {
        (0, true) => ("✓", Tone::Good, "there was nothing to requeue".to_owned()),
        (0, false) => ("!", Tone::Warn, "nothing was requeued".to_owned()),
        (1, _) => ("✓", Tone::Good, "1 event requeued".to_owned()),
        (count, _) => ("✓", Tone::Good, format!("{count} events requeued")),
    };
    out.line(format!("{} {text}", out.paint(tone, mark)))?;
    Ok(())
}
