//! An outbox and a relay's pulse in memory: fakes at the console's two seams, for its tests and
//! its preview.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use event::{
    Beat, Catalog, Cause, Code, Counts, Cursor, EventId, Filter, LaneView, Listed, Listing, Millis,
    Moment, Page, Payload, Pulse, Requeued, SinkView, Status, StoreError,
};

/// An outbox, oldest event first.
#[derive(Default)]
pub(crate) struct Shelf {
    /// The events.
    pub(crate) rows: Mutex<Vec<Listed>>,
    /// Whether it answers.
    pub(crate) down: AtomicBool,
    /// Events sent and trimmed.
    pub(crate) trimmed: AtomicU64,
    /// Whether it only estimates what is new.
    pub(crate) estimates: AtomicBool,
    /// How many rows a search looks at before it stops; zero is all.
    pub(crate) reach: AtomicUsize,
}

impl Shelf {
    fn check(&self) -> Result<(), StoreError> {
        match self.down.load(Ordering::Relaxed) {
            true => Err(StoreError::Down(Cause::new(
                Code::StoreDown,
                "connection refused: mysql://postbox:canary@127.0.0.1/orders",
            ))),
            false => Ok(()),
        }
    }
}

fn matches(filter: &Filter, listed: &Listed) -> bool {
    let code = listed.last_error().map(|cause| cause.code.to_string());
    let event = &listed.event;
    filter.id.is_none_or(|id| id == event.id)
        && (filter.key.is_none() || filter.key == event.key)
        && filter.kind.as_ref().is_none_or(|kind| *kind == event.kind)
        && filter.topic.as_ref().is_none_or(|topic| *topic == event.topic)
        && filter.status.is_none_or(|status| status == listed.status)
        && (filter.code.is_none() || filter.code == code)
}

#[async_trait]
impl Catalog for Shelf {
    async fn find(&self, filter: &Filter, page: &Page) -> Result<Listing, StoreError> {
        self.check()?;
        let rows = self.rows.lock().expect("no test panics while it holds the rows");
        let below = page.after.as_ref().and_then(|cursor| cursor.0.parse().ok());
        let below: usize = below.unwrap_or(rows.len()).min(rows.len());
        let floor = match self.reach.load(Ordering::Relaxed) {
            0 => 0,
            reach => below.saturating_sub(reach),
        };
        let looked_at = (floor..below).rev().map(|place| (place, rows[place].clone()));
        let matching = looked_at.filter(|(_, listed)| matches(filter, listed));
        let mut found: Vec<(usize, Listed)> = matching.take(page.limit + 1).collect();
        let more = found.len() > page.limit;
        found.truncate(page.limit);
        let stopped = (!more && floor > 0).then_some(floor);
        let next = found.last().filter(|_| more).map(|(place, _)| *place).or(stopped);
        let mut events: Vec<Listed> = found.into_iter().map(|(_, listed)| listed).collect();
        if !page.payloads {
            events.iter_mut().for_each(|l| l.event.payload = Payload::Text(String::new()));
        }
        Ok(Listing {
            events,
            next: next.map(|place| Cursor(place.to_string())),
            searched_to: stopped.map(|floor| rows[floor].event.created),
        })
    }

    async fn count(&self) -> Result<Counts, StoreError> {
        self.check()?;
        let rows = self.rows.lock().expect("no test panics while it holds the rows");
        let of = |status| rows.iter().filter(|listed| listed.status == status).count() as u64;
        let due = rows.iter().filter(|listed| listed.status == Status::New);
        Ok(Counts {
            new: of(Status::New),
            dispatching: of(Status::Dispatching),
            retry: of(Status::Retry),
            dead: of(Status::Dead),
            sent: of(Status::Sent) + self.trimmed.load(Ordering::Relaxed),
            exact: !self.estimates.load(Ordering::Relaxed),
            oldest_due: due.map(|listed| listed.event.created).min(),
            now: Millis::now(),
        })
    }

    async fn requeue(
        &self,
        ids: &[EventId],
        filter: Option<&Filter>,
        limit: usize,
    ) -> Result<Requeued, StoreError> {
        self.check()?;
        let mut rows = self.rows.lock().expect("no test panics while it holds the rows");
        let mut done = Requeued::default();
        let mut left = limit;
        for listed in rows.iter_mut().rev().filter(|listed| listed.status == Status::Dead) {
            let named = ids.contains(&listed.event.id);
            let found = left > 0 && filter.is_some_and(|filter| matches(filter, listed));
            if named || found {
                left -= usize::from(!named);
                listed.status = Status::New;
                listed.attempts = 0;
                done.requeued.push(listed.event.id);
            }
        }
        done.skipped = ids.iter().filter(|id| !done.requeued.contains(id)).copied().collect();
        Ok(done)
    }
}

/// A relay.
#[derive(Default)]
pub(crate) struct Relay {
    /// Its seconds.
    pub(crate) beats: Mutex<Vec<Beat>>,
    /// Its lanes.
    pub(crate) lanes: Mutex<Vec<LaneView>>,
    /// Its destinations.
    pub(crate) sinks: Mutex<Vec<SinkView>>,
}

impl Pulse for Relay {
    fn beats(&self, most: usize) -> Vec<Beat> {
        let beats = self.beats.lock().expect("no test panics while it holds the beats");
        beats[beats.len().saturating_sub(most)..].to_vec()
    }

    fn lanes(&self) -> Vec<LaneView> {
        self.lanes.lock().expect("no test panics while it holds the lanes").clone()
    }

    fn sinks(&self) -> Vec<SinkView> {
        self.sinks.lock().expect("no test panics while it holds the sinks").clone()
    }

    fn metrics(&self) -> String {
        "# TYPE postbox_sent_total counter\npostbox_sent_total 42\n".to_string()
    }
}

/// Makes an event with a status, and a cause if it is in trouble.
pub(crate) fn listed(event: event::Event, status: Status, cause: Option<Cause>) -> Listed {
    let now = Millis::now();
    let trail: Vec<Moment> =
        cause.map(|cause| Moment { at: now, attempt: 1, cause }).into_iter().collect();
    Listed {
        event,
        status,
        attempts: u32::from(status != Status::New),
        next_attempt: None,
        trail,
        broker_id: None,
        updated: now,
        behind: 0,
    }
}
