//! The least that can be done: the producer notifies in its transaction, and a connection that
//! listens reads the new rows. Nothing is claimed, settled or tried again.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use event::{Event, EventId};
use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection, Row};

use super::super::postgres::Postgres;
use super::super::producers::payload;
use super::super::server::Speech;
use super::load::{self, Times, Watch, Way};

/// Makes the table.
pub(super) async fn prepare(url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    connection.execute(Postgres::QUEUE).await?;
    Ok(connection.close().await?)
}

/// Puts an event down and notifies, in the producer's transaction.
pub(super) async fn put(tx: &mut PgConnection, event: &Event) -> Result<()> {
    let row = sqlx::query(
        "INSERT INTO queue (event_id, topic, event_type, biz_key, payload) \
         VALUES ($1::uuid, $2, $3, $4, $5)",
    );
    let row = row.bind(event.id.to_string()).bind(&event.topic).bind(&event.kind);
    let row = row.bind(&event.key).bind(payload());
    row.execute(&mut *tx).await?;
    tx.execute("SELECT pg_notify('queue', '')").await?;
    Ok(())
}

/// Returns how long events took.
pub(super) async fn measure(url: &str, events: usize) -> Result<Times> {
    let mut listener = PgListener::connect(url).await?;
    listener.listen("queue").await?;
    let mut connection = PgConnection::connect(url).await?;
    connection.execute("TRUNCATE queue RESTART IDENTITY").await?;
    let watch = Arc::new(Watch::default());
    let hearing = hear(listener, connection, &watch);
    let loading = load::measure(url, events, &Way::Table, &watch);
    tokio::select! {
        failed = hearing => failed.and_then(|()| anyhow::bail!("nobody listens any more")),
        times = loading => times,
    }
}

/// Reads what is new whenever somebody notifies.
async fn hear(mut listener: PgListener, mut connection: PgConnection, watch: &Watch) -> Result<()> {
    // Whoever drew a number earlier may commit later: below the floor everything has come.
    let (mut floor, mut above) = (0i64, BTreeSet::<i64>::new());
    loop {
        listener.recv().await?;
        let rows = sqlx::query(
            "SELECT id, event_id::text, topic, event_type, biz_key, payload, headers FROM queue \
             WHERE id > $1 ORDER BY id",
        );
        let mut ids = Vec::new();
        for row in rows.bind(floor).fetch_all(&mut connection).await? {
            if above.insert(row.try_get::<i64, _>(0)?) {
                ids.push(row.try_get::<&str, _>(1)?.parse::<EventId>()?);
            }
        }
        watch.arrived(ids.into_iter());
        while above.remove(&(floor + 1)) {
            floor += 1;
        }
    }
}
