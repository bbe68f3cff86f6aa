//! Finding events and showing them: what `events` and `dead` have in common.

use clap::Args;
use clap::builder::TypedValueParser;
use event::{
    Catalog, Code, Cursor, EXPLANATIONS, EventId, Filter, Listed, Listing, Page, Status, StoreError,
};
use serde_json::{Value, json};

use super::explain::Codes;
use crate::args::{Global, Which};
use crate::failure::{End, Usage};
use crate::nearest::suggestion;
use crate::out::Out;
use crate::outboxes::{self, Opened};
use crate::rows;
use crate::table::Tone;
use crate::usage::between;

/// Which events.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Narrow {
    /// Only the event with this id.
    #[arg(long, value_parser = id)]
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
    #[arg(long, value_parser = Codes.try_map(|text| code(&text)), hide_possible_values = true)]
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

/// Reads an event's id from the command line.
pub(crate) fn id(text: &str) -> Result<EventId, String> {
    let wrong = |_| format!("{text:?} is no event id; take one that `postbox events list` shows");
    text.parse().map_err(wrong)
}

/// Reads a cause code from the command line.
fn code(text: &str) -> Result<String, String> {
    let codes = || EXPLANATIONS.iter().map(|explanation| explanation.code.as_str());
    if codes().any(|code| code == text) {
        return Ok(text.to_owned());
    }
    match suggestion(text, codes()) {
        near if near.is_empty() => {
            Err(format!("there is no code `{text}`; `postbox explain` lists them"))
        }
        near => Err(format!("there is no code `{text}`{near}")),
    }
}

/// Which events, which part of the list, and of which outbox.
#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    narrow: Narrow,
    /// How many at the most.
    #[arg(long, default_value_t = 50, value_parser = |text: &str| between(text, 1, u32::MAX))]
    limit: u32,
    /// Where to go on: what the list before said.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl List {
    /// Lists events of one status or of any.
    pub(crate) async fn answer(
        &self,
        status: Option<Status>,
        global: &Global,
        out: Out,
    ) -> anyhow::Result<End> {
        let opened = outboxes::open_one(global, &self.which).await?;
        let catalog = opened.outbox.catalog();
        let all = self.gather(&*catalog, status, |events| {
            if out.json {
                for listed in events {
                    out.value(&Value::Object(rows::json(&opened.name, listed)))?;
                }
            }
            Ok(())
        });
        let all = all.await?;
        opened.outbox.close().await;
        if !out.json && !all.events.is_empty() {
            out.table(&rows::table(&all.events))?;
        }
        if out.json {
            if let Some(more) = more(&all) {
                out.value(&more)?;
            }
        } else if let Some(text) = ending(&all) {
            out.aside(Tone::Dim, text);
        }
        Ok(End::Fine)
    }

    /// Gathers page after page, up to the limit or to where a search stopped early.
    async fn gather(
        &self,
        catalog: &dyn Catalog,
        status: Option<Status>,
        each: impl Fn(&[Listed]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Listing> {
        const PAGE: usize = 500;
        let filter = self.narrow.filter(status);
        let mut all = Listing { next: self.after.clone().map(Cursor), ..Listing::default() };
        let most = usize::try_from(self.limit)?;
        while all.events.len() < most {
            let limit = (most - all.events.len()).min(PAGE);
            let page = Page { limit, after: all.next.take(), payloads: false };
            let listing = catalog.find(&filter, &page).await.map_err(misplaced)?;
            each(&listing.events)?;
            all.events.extend(listing.events);
            (all.next, all.searched_to) = (listing.next, listing.searched_to);
            if all.next.is_none() || all.searched_to.is_some() {
                break;
            }
        }
        Ok(all)
    }
}

/// Tells a cursor that is none from a store that failed.
fn misplaced(error: StoreError) -> anyhow::Error {
    match error.cause() {
        cause if cause.code == Code::ConfigInvalid => {
            Usage(format!("--after: {}", cause.detail)).into()
        }
        _ => error.into(),
    }
}

/// Returns the last line for a script, which must not take a part for all that there is.
fn more(all: &Listing) -> Option<Value> {
    let to = all.searched_to.map(|to| to.to_string());
    let more = all.next.is_some() || to.is_some();
    more.then(|| json!({ "next": all.next, "searched_to": to }))
}

fn ending(all: &Listing) -> Option<String> {
    let next = all.next.as_ref().map(|Cursor(next)| format!("--after {next}"));
    match (all.searched_to, next) {
        (Some(to), next) => {
            let found = if all.events.is_empty() { "Nothing was found so far. " } else { "" };
            let on = next.map_or(String::new(), |next| format!("; to go on: {next}"));
            Some(format!("{found}Events from before {to} were not looked at yet{on}"))
        }
        (None, Some(next)) => Some(format!("There are more: {next}")),
        (None, None) => all.events.is_empty().then(|| "No events.".to_owned()),
    }
}

/// One event.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Its id.
    #[arg(value_parser = id)]
    id: EventId,
    /// Show the payload as well.
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    which: Which,
}

impl Show {
    /// Shows every row of an event that has the status asked for.
    pub(crate) async fn answer(
        &self,
        status: Option<Status>,
        global: &Global,
        out: Out,
    ) -> anyhow::Result<End> {
        let opened = outboxes::open_one(global, &self.which).await?;
        let mut found = of_id(&opened, self.id, self.payload).await?;
        opened.outbox.close().await;
        let Some(newest) = found.first().map(|listed| listed.status) else {
            out.aside(Tone::Bad, format!("postbox: there is no event {}", self.id));
            return Ok(End::Wrong);
        };
        found.retain(|listed| status.is_none_or(|wanted| wanted == listed.status));
        if let (true, Some(wanted)) = (found.is_empty(), status) {
            let text = format!("postbox: event {} is {newest}, not {wanted}", self.id);
            out.aside(Tone::Bad, text);
            return Ok(End::Wrong);
        }
        for listed in &found {
            match (out.json, self.payload) {
                (true, true) => out.value(&rows::json_with_payload(&opened.name, listed))?,
                (true, false) => out.value(&Value::Object(rows::json(&opened.name, listed)))?,
                (false, payload) => rows::page(out, &opened.name, listed, payload)?,
            }
        }
        if found.len() > 1 {
            let text = "rows have this id: it was put down more than once. Consumers dedupe by it.";
            out.aside(Tone::Warn, format!("{} {text}", found.len()));
        }
        Ok(End::Fine)
    }
}

/// Returns every row of an event, newest first.
pub(crate) async fn of_id(
    opened: &Opened,
    id: EventId,
    payloads: bool,
) -> anyhow::Result<Vec<Listed>> {
    let filter = Filter { id: Some(id), ..Filter::default() };
    let mut found = Vec::new();
    walk(opened, &filter, payloads, |listed| {
        found.extend(listed);
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Hands over everything that a filter finds, page by page, however far back it must look.
pub(crate) async fn walk(
    opened: &Opened,
    filter: &Filter,
    payloads: bool,
    mut each: impl FnMut(Vec<Listed>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Few with payloads, because each may be large.
    let limit = if payloads { 50 } else { 500 };
    let catalog = opened.outbox.catalog();
    let mut after = None;
    loop {
        let page = Page { limit, after, payloads };
        let listing = catalog.find(filter, &page).await?;
        each(listing.events)?;
        match listing.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use event::{Counts, Event, Millis, Requeued, Row, StoreError};

    use super::*;

    /// Three pages; the search stops early at the end of the second.
    struct Pages;

    #[async_trait]
    impl Catalog for Pages {
        async fn find(&self, _: &Filter, page: &Page) -> Result<Listing, StoreError> {
            let event = || Event::new("a.b", "C", "x");
            let mut events = vec![Row::new(event()), Row::new(event())];
            events.truncate(page.limit);
            let events = events.into_iter().map(listed).collect();
            let (next, to) = match page.after.as_ref().map(|Cursor(after)| after.as_str()) {
                None => (Some("second"), None),
                Some("second") => (Some("third"), Some(Millis(7))),
                Some(_) => (None, None),
            };
            Ok(Listing { events, ..listing(next, to) })
        }

        async fn count(&self) -> Result<Counts, StoreError> {
            Ok(Counts::default())
        }

        async fn requeue(
            &self,
            _: &[EventId],
            _: Option<&Filter>,
            _: usize,
        ) -> Result<Requeued, StoreError> {
            Ok(Requeued::default())
        }
    }

    fn listed(row: Row) -> Listed {
        Listed {
            status: Status::New,
            attempts: row.attempt,
            next_attempt: Some(row.due),
            trail: row.trail,
            broker_id: None,
            updated: row.event.created,
            behind: 0,
            event: row.event,
        }
    }

    #[tokio::test]
    async fn a_list_goes_on_to_its_limit_or_to_where_the_search_stopped_early() {
        for (limit, after, found, next, to) in [
            (1, None, 1, Some("second"), None),
            (50, None, 4, Some("third"), Some(Millis(7))),
            (50, Some("third"), 2, None, None),
        ] {
            let after = after.map(str::to_owned);
            let list = List { narrow: Narrow::default(), limit, after, which: Which::default() };
            let all = list.gather(&Pages, None, |_| Ok(())).await.unwrap();
            let said = all.next.map(|Cursor(next)| next);
            assert_eq!((all.events.len(), said.as_deref(), all.searched_to), (found, next, to));
        }
    }

    fn listing(next: Option<&str>, searched_to: Option<Millis>) -> Listing {
        let next = next.map(|next| Cursor(next.to_owned()));
        Listing { events: Vec::new(), next, searched_to }
    }

    #[test]
    fn a_search_that_stopped_early_says_how_far_it_came_and_how_to_go_on() {
        let said = ending(&listing(Some("c7"), Some(Millis(0)))).unwrap();
        let expected = "Nothing was found so far. Events from before 1970-01-01T00:00:00.000Z were \
                        not looked at yet; to go on: --after c7";
        assert_eq!(said, expected);
        assert_eq!(ending(&listing(Some("c7"), None)).unwrap(), "There are more: --after c7");
        assert_eq!(ending(&listing(None, None)).unwrap(), "No events.");
    }

    #[test]
    fn a_code_that_is_none_is_told_with_the_nearest() {
        assert_eq!(code("sink-down"), Ok("sink-down".to_owned()));
        let said = code("sink-dwon").unwrap_err();
        assert!(said.contains("did you mean `sink-down`?"), "{said}");
        assert_eq!(code("x").unwrap_err(), "there is no code `x`; `postbox explain` lists them");
    }
}
