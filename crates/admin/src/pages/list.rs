//! What the list of events and the dead board have in common: a filter in the URL, a page of rows,
//! and the ways on from there.

use event::{EXPLANATIONS, Filter, Listing, Millis, Status};

use axum::http::StatusCode;

use super::Trouble;
use super::rows::{Choice, Row};
use crate::app::App;
use crate::problem::Problem;
use crate::search::{Typed, Wrong};
use crate::show::Stamp;

/// One page of a listing, ready to be shown.
pub(super) struct List {
    /// The listing's path.
    pub(super) path: &'static str,
    /// What was asked for, with the outbox that it means.
    pub(super) typed: Typed,
    /// Whether the visitor narrowed the search.
    pub(super) narrowed: bool,
    /// The outboxes to choose from.
    pub(super) outboxes: Vec<Choice>,
    /// The cause codes to choose from.
    pub(super) codes: Vec<&'static str>,
    /// What was found.
    pub(super) rows: Vec<Row>,
    /// Which field cannot be understood.
    pub(super) wrong: Option<Wrong>,
    /// Why the outbox did not answer.
    pub(super) trouble: Option<Trouble>,
    /// How far back the search came, if it stopped before its end.
    pub(super) searched: Option<Stamp>,
    /// The way to the next page.
    pub(super) next: Option<String>,
    /// The way back to the first page.
    pub(super) first: Option<String>,
    /// The way to everything.
    pub(super) clear: String,
}

impl List {
    /// Looks for what the URL asks for, of one status if the listing has only one.
    pub(super) async fn look(
        app: &App,
        path: &'static str,
        asked: &Typed,
        only: Option<Status>,
    ) -> Result<List, Problem> {
        let mut list = List::empty(app, path, asked);
        if app.outboxes.is_empty() {
            return Ok(list);
        }
        let outbox = app.outbox(list.typed.outbox())?;
        match list.typed.search() {
            Err(wrong) => list.wrong = Some(wrong),
            Ok(search) => {
                let page = search.page(false);
                let filter = Filter { status: only.or(search.filter.status), ..search.filter };
                match outbox.find(&filter, &page).await {
                    Ok(listing) => list.fill(asked, listing),
                    Err(error) => list.trouble = Some(Trouble::new(&outbox.name, &error)),
                }
            }
        }
        Ok(list)
    }

    fn empty(app: &App, path: &'static str, asked: &Typed) -> List {
        let first = app.outboxes.first().map(|outbox| outbox.name.as_str());
        let outbox = asked.outbox().or(first).unwrap_or_default().to_string();
        let choice = |name: &String| Choice { name: name.clone(), chosen: *name == outbox };
        let newest = Typed { after: String::new(), ..asked.clone() };
        List {
            path,
            narrowed: asked.narrows(),
            outboxes: app.outboxes.iter().map(|outbox| choice(&outbox.name)).collect(),
            codes: EXPLANATIONS.iter().map(|explanation| explanation.code.as_str()).collect(),
            rows: Vec::new(),
            wrong: None,
            trouble: None,
            searched: None,
            next: None,
            first: (!asked.after.is_empty()).then(|| newest.href(path)),
            clear: Typed { outbox: asked.outbox.clone(), ..Typed::default() }.href(path),
            typed: Typed { outbox, ..asked.clone() },
        }
    }

    fn fill(&mut self, asked: &Typed, listing: Listing) {
        let now = Millis::now();
        let row = |listed| Row::new(&self.typed.outbox, listed, now);
        self.rows = listing.events.iter().map(row).collect();
        self.searched = listing.searched_to.map(|to| Stamp::new(to, now));
        let next = |after| Typed { after, ..asked.clone() }.href(self.path);
        self.next = listing.next.map(|cursor| next(cursor.0));
    }

    /// Returns the status of the answer.
    pub(super) fn status(&self) -> StatusCode {
        match (&self.wrong, &self.trouble) {
            (Some(_), _) => StatusCode::BAD_REQUEST,
            (None, Some(trouble)) => trouble.status(),
            (None, None) => StatusCode::OK,
        }
    }
}

/// Tells whether a form left empty fields in the URL.
pub(super) fn is_untidy(query: &str) -> bool {
    query.split('&').any(|pair| pair.ends_with('='))
}
