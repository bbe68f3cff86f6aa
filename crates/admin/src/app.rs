//! What every handler shares: the outboxes, the pulse, and one count a second for all visitors.

use std::sync::Arc;
use std::time::Duration;

use event::{
    Catalog, Cause, Code, Counts, EventId, Filter, Listed, Listing, Page, Pulse, Requeued, Status,
    StoreError,
};
use futures_util::future::join_all;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::Console;
use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::session::Sessions;
use crate::tries::Tries;

const PATIENCE: Duration = Duration::from_secs(5);
const FRESH: Duration = Duration::from_millis(900);
const WATCHERS: usize = 64;
/// Rows of one id that are looked at; there is more than one only if it was put twice.
const ROWS: usize = 20;

/// One outbox.
#[derive(Clone)]
pub(crate) struct Outbox {
    /// Its name.
    pub(crate) name: String,
    catalog: Arc<dyn Catalog>,
}

impl Outbox {
    /// Lists events. A store that keeps a person waiting is down to them.
    pub(crate) async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        timeout(PATIENCE, self.catalog.find(filter, page)).await.unwrap_or_else(|_| Err(slow()))
    }

    /// Finds the rows of one event, newest first.
    async fn rows(&self, id: EventId, payloads: bool) -> Result<Vec<Listed>, StoreError> {
        let filter = Filter { id: Some(id), ..Filter::default() };
        let page = Page { limit: ROWS, after: None, payloads };
        Ok(self.find(&filter, &page).await?.events)
    }

    /// Tells whether an event is dead, in one of its rows at least.
    pub(crate) async fn is_dead(&self, id: EventId) -> Result<bool, StoreError> {
        let filter = Filter { id: Some(id), status: Some(Status::Dead), ..Filter::default() };
        let page = Page { limit: 1, after: None, payloads: false };
        Ok(!self.find(&filter, &page).await?.events.is_empty())
    }

    /// Requeues. It runs to its end even when the visitor goes away in the middle.
    pub(crate) async fn requeue(
        &self,
        ids: Vec<EventId>,
        filter: Option<Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError> {
        let catalog = self.catalog.clone();
        let work = tokio::spawn(async move { catalog.requeue(&ids, filter.as_ref(), limit).await });
        work.await.unwrap_or_else(|_| {
            Err(StoreError::Broken(Cause::new(Code::StoreBroken, "the requeue did not end well")))
        })
    }

    async fn count(&self) -> Result<Counts, StoreError> {
        timeout(PATIENCE, self.catalog.count()).await.unwrap_or_else(|_| Err(slow()))
    }
}

fn slow() -> StoreError {
    let detail = format!("no answer within {} s", PATIENCE.as_secs());
    StoreError::Down(Cause::new(Code::StoreBusy, detail))
}

/// An event, wherever it stands.
pub(crate) struct Found<'a> {
    /// The outbox.
    pub(crate) outbox: &'a Outbox,
    /// Its newest row.
    pub(crate) newest: Listed,
    /// Its other rows, newest first, if its id was put more than once.
    pub(crate) others: Vec<Listed>,
}

/// The counts of one outbox, or why there are none.
#[derive(Clone)]
pub(crate) struct Tally {
    /// The outbox.
    pub(crate) outbox: String,
    /// Its counts.
    pub(crate) counts: Result<Counts, StoreError>,
}

/// What every handler shares.
pub(crate) struct App {
    /// The outboxes, in the order in which they are shown.
    pub(crate) outboxes: Vec<Outbox>,
    /// The relay of this process.
    pub(crate) pulse: Arc<dyn Pulse>,
    /// Tells why the process is not ready.
    pub(crate) unready: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Who may come in.
    pub(crate) sessions: Sessions,
    /// Which hosts a request may name.
    pub(crate) hosts: Hosts,
    /// Wrong guesses of the token.
    pub(crate) tries: Tries,
    /// Places for live streams.
    pub(crate) watchers: Arc<Semaphore>,
    /// Ends live streams.
    pub(crate) stop: CancellationToken,
    tallies: Mutex<Option<(Instant, Vec<Tally>)>>,
}

impl App {
    /// Wires the shared parts.
    pub(crate) fn new(
        console: Console,
        sessions: Sessions,
        hosts: Hosts,
        stop: CancellationToken,
    ) -> App {
        let outbox = |(name, catalog)| Outbox { name, catalog };
        App {
            outboxes: console.outboxes.into_iter().map(outbox).collect(),
            pulse: console.pulse,
            unready: console.unready,
            sessions,
            hosts,
            tries: Tries::default(),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
            stop,
            tallies: Mutex::new(None),
        }
    }

    /// Counts every outbox, at most about once a second however many visitors look.
    pub(crate) async fn tallies(&self) -> Vec<Tally> {
        let mut held = self.tallies.lock().await;
        if let Some((at, tallies)) = held.as_ref()
            && at.elapsed() < FRESH
        {
            return tallies.clone();
        }
        let counted = self.outboxes.iter().map(|outbox| async move {
            Tally { outbox: outbox.name.clone(), counts: outbox.count().await }
        });
        let tallies = join_all(counted).await;
        *held = Some((Instant::now(), tallies.clone()));
        tallies
    }

    /// Forgets the counts, so that a visitor sees what was just changed.
    pub(crate) async fn recount(&self) {
        *self.tallies.lock().await = None;
    }

    /// Finds an outbox by name. Without a name there must be exactly one.
    pub(crate) fn outbox(&self, name: Option<&str>) -> Result<&Outbox, Problem> {
        match (name, self.outboxes.as_slice()) {
            (None, [only]) => Ok(only),
            (None, []) => Err(Problem::missing("no outbox is configured")),
            (None, _) => Err(Problem::bad("there are several outboxes; name one with outbox=")),
            (Some(name), all) => all
                .iter()
                .find(|outbox| outbox.name == name)
                .ok_or_else(|| Problem::missing(format!("there is no outbox {name:?}"))),
        }
    }

    /// Finds an event in the named outbox, or in all of them.
    pub(crate) async fn event(
        &self,
        outbox: Option<&str>,
        id: EventId,
        payloads: bool,
    ) -> Result<Found<'_>, Problem> {
        let among: Vec<&Outbox> = match outbox {
            Some(name) => vec![self.outbox(Some(name))?],
            None => self.outboxes.iter().collect(),
        };
        let mut trouble = None;
        for outbox in among {
            match outbox.rows(id, payloads).await {
                Ok(mut others) if !others.is_empty() => {
                    let newest = others.remove(0);
                    return Ok(Found { outbox, newest, others });
                }
                Ok(_) => {}
                Err(error) => trouble = Some(error),
            }
        }
        Err(trouble.map_or_else(
            || {
                Problem::missing(format!(
                    "there is no event {id}; what was published is kept only as long as the \
                     history is"
                ))
            },
            Problem::from,
        ))
    }
}
