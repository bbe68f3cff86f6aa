//! An order and its event in one transaction; the event taken in once, though it arrives twice.
//!
//! It needs nothing but a temporary folder: `cargo run -p postbox --example quickstart`.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

use std::time::Duration;

use event::{Outcome, Receipt, Topics, Want};
use postbox::Event;
use sqlx::{Connection, Row, SqliteConnection};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("orders.sqlite3").display());
    postbox::migrate(&url).await?;
    let mut conn = SqliteConnection::connect(&url).await?;
    sqlx::raw_sql(
        "CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER);
         CREATE TABLE stock (item TEXT PRIMARY KEY, reserved INTEGER);
         INSERT INTO stock VALUES ('lamp', 0)",
    )
    .execute(&mut conn)
    .await?;

    let event = Event::new("order.paid", "OrderPaid", r#"{"item": "lamp", "total": 42}"#);
    let event = event.key("123").header("schema_version", "1");
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO orders VALUES ('123', 42)").execute(&mut *tx).await?;
    postbox::put(&mut tx, &event).await?;
    tx.commit().await?;
    println!("order 123 and event {} were committed together", event.id);

    // A relay would hand the event to a broker here. This one hands it to the consumer, twice,
    // as every broker may.
    let relay = store::open(&store::Setup::new(&url)).await?;
    let lane = relay.lane(store::Lane { topics: Topics::all(), ..store::Lane::default() });
    let want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(30) };
    for claim in lane.claim(&want).await? {
        for arrival in 1..=2 {
            let first = consume(&mut conn, &claim.event).await?;
            let told = if first { "taken in" } else { "known already, nothing done" };
            println!("arrival {arrival} of {}: {told}", claim.event.kind);
        }
        lane.settle(&[claim.end(Outcome::Done(Receipt { broker_id: None }))]).await?;
    }

    let counts = relay.catalog().count().await?;
    let row = sqlx::query("SELECT reserved FROM stock WHERE item = 'lamp'").fetch_one(&mut conn);
    let reserved: i64 = row.await?.try_get(0)?;
    println!("sent {}, waiting {}, lamps reserved {reserved}", counts.sent, counts.pending());
    anyhow::ensure!(
        (counts.sent, counts.pending(), reserved) == (1, 0, 1),
        "one event, one effect"
    );
    lane.release().await?;
    relay.close().await;
    Ok(())
}

/// Reserves a lamp for an order, once per event.
async fn consume(conn: &mut SqliteConnection, event: &Event) -> anyhow::Result<bool> {
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
    let first = postbox::inbox::take_in(&mut tx, "stock", event.id).await?;
    if first {
        let reserve = "UPDATE stock SET reserved = reserved + 1 WHERE item = 'lamp'";
        sqlx::query(reserve).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(first)
}
