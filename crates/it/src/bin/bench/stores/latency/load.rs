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

/// When events were committed, and when they arrived.
#[derive(Default)]
pub(super) struct Watch {
    committed: Mutex<Vec<(EventId, Instant)>>,
    arrived: Mutex<HashMap<EventId, Instant>>,
    more: Notify,
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

    fn committed(&self, id: EventId) {
        let now = Instant::now();
        self.committed.lock().expect("nothing panics here").push((id, now));
    }

    async fn all(&self, events: usize) {
        while self.arrived.lock().expect("nothing panics here").len() < events {
            self.more.notified().await;
        }
    }

    /// Returns how long events took, the shortest first. The first tenth warms up and is left out.
    fn times(&self) -> Vec<Duration> {
        let committed = self.committed.lock().expect("nothing panics here");
        let arrived = self.arrived.lock().expect("nothing panics here");
        let counted = committed.iter().skip(committed.len() / 10);
        // Some arrive before the producer knows of its commit.
        let took = counted.map(|(id, at)| arrived[id].saturating_duration_since(*at));
        let mut times: Vec<Duration> = took.collect();
        times.sort();
        times
    }
}

/// Produces so many events, and waits until all have arrived. Returns how long they took, the
/// shortest first.
pub(super) async fn measure(
    url: &str,
    events: usize,
    way: &Way,
    watch: &Arc<Watch>,
) -> Result<Vec<Duration>> {
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
    tx.commit().await?;
    watch.committed(event.id);
    if let Way::Put(ring) = way {
        ring.ring();
    }
    Ok(())
}
