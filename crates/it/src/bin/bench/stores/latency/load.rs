//! The producers: transactions at a steady rate, whatever each takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use event::{Event, EventId};
use postbox::Ring;
use sqlx::{Connection, PgConnection};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::super::WIDTH;
use super::super::producers::{key, payload};

/// How long it is from one transaction to the next: 200 of them in a second.
const EVERY: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// How an event leaves its producer.
#[derive(Clone)]
pub(super) enum Way {
    /// Into the outbox, with a ring after the commit.
    Put(Ring),
    /// Into a table, with a NOTIFY in the transaction.
    Table,
}

/// How long events took to arrive, the shortest first.
pub(super) struct Times {
    /// Since the producer asked for the commit.
    pub(super) asked: Vec<Duration>,
    /// Since the producer knew of the commit, which some are ahead of.
    pub(super) known: Vec<Duration>,
}

/// When events were committed, and when they arrived.
#[derive(Default)]
pub(super) struct Watch {
    committed: Mutex<Vec<Committed>>,
    arrived: Mutex<HashMap<EventId, Instant>>,
    more: Notify,
}

struct Committed {
    id: EventId,
    asked: Instant,
    known: Instant,
}

impl Watch {
    /// Notes that events have just arrived.
    pub(super) fn arrived(&self, ids: impl Iterator<Item = EventId>) {
        let now = Instant::now();
        let mut arrived = self.arrived.lock().expect("nothing panics here");
        for id in ids {
            arrived.entry(id).or_insert(now);
        }
        self.more.notify_one();
    }

    fn committed(&self, committed: Committed) {
        self.committed.lock().expect("nothing panics here").push(committed);
    }

    async fn all(&self, events: usize) {
        while self.arrived.lock().expect("nothing panics here").len() < events {
            self.more.notified().await;
        }
    }

    /// Returns how long events took. The first tenth warms up and is left out.
    fn times(&self) -> Times {
        let committed = self.committed.lock().expect("nothing panics here");
        let arrived = self.arrived.lock().expect("nothing panics here");
        let counted = &committed[committed.len() / 10..];
        let since = |moment: fn(&Committed) -> Instant| {
            let took = |one: &Committed| arrived[&one.id].saturating_duration_since(moment(one));
            let mut times: Vec<Duration> = counted.iter().map(took).collect();
            times.sort();
            times
        };
        Times { asked: since(|one| one.asked), known: since(|one| one.known) }
    }
}

/// Produces so many events, and waits until all have arrived. Returns how long they took.
pub(super) async fn measure(
    url: &str,
    events: usize,
    way: &Way,
    watch: &Arc<Watch>,
) -> Result<Times> {
    let (start, mut crew) = (Instant::now() + Duration::from_millis(200), JoinSet::new());
    for part in 0..WIDTH {
        let (url, way, watch) = (url.to_owned(), way.clone(), watch.clone());
        crew.spawn(async move {
            let mut connection = PgConnection::connect(&url).await?;
            for number in (part..events).step_by(WIDTH) {
                let moment = start + EVERY * u32::try_from(number)?;
                tokio::time::sleep_until(moment.into()).await;
                produce(&mut connection, &way, &watch).await?;
            }
            anyhow::Ok(connection.close().await?)
        });
    }
    while let Some(ended) = crew.join_next().await {
        ended??;
    }
    let all = tokio::time::timeout(PATIENCE, watch.all(events)).await;
    ensure!(all.is_ok(), "not all of {events} events arrive");
    Ok(watch.times())
}

/// Commits a business row with an event, and rings.
async fn produce(connection: &mut PgConnection, way: &Way, watch: &Watch) -> Result<()> {
    let event = Event::new("order.paid", "OrderPaid", payload()).key(key());
    let mut tx = connection.begin().await?;
    let sale = sqlx::query("INSERT INTO sale (total) VALUES ($1)").bind(42i64);
    sale.execute(&mut *tx).await?;
    match way {
        Way::Put(_) => postbox::put(&mut tx, &event).await?,
        Way::Table => super::bare::put(&mut tx, &event).await?,
    }
    let asked = Instant::now();
    tx.commit().await?;
    let known = Instant::now();
    if let Way::Put(ring) = way {
        ring.ring();
    }
    watch.committed(Committed { id: event.id, asked, known });
    Ok(())
}
