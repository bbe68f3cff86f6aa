//! The shop: places orders, each with its event in the same transaction.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use event::Event;
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, Row};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::outboxes::Opened;

/// What is sold. The inventory has never heard of the last one.
const SOLD: [&str; 5] = ["lamp", "chair", "table", "shelf", "unicorn"];

/// A shop with its own database.
#[derive(Clone)]
pub(crate) struct Shop {
    connection: Arc<Mutex<SqliteConnection>>,
    outbox: Arc<Opened>,
    placed: Arc<AtomicU64>,
}

impl Shop {
    /// Opens the shop; its outbox is there already.
    pub(crate) async fn open(file: &Path, outbox: Arc<Opened>) -> anyhow::Result<Shop> {
        let options =
            SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(5));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        sqlx::query(
            "CREATE TABLE orders (
                number INTEGER PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL,
                quantity INTEGER NOT NULL
            ) STRICT",
        )
        .execute(&mut connection)
        .await?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(Shop { connection, outbox, placed: Arc::default() })
    }

    /// Places orders at a steady rate until told to stop. A shop that cannot go on stops the rest.
    pub(crate) async fn place_orders(
        self,
        rate: u32,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let _stops = stop.clone().drop_guard();
        let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for number in 1.. {
            if stop.run_until_cancelled(tick.tick()).await.is_none() {
                break;
            }
            self.place(number).await?;
        }
        Ok(())
    }

    async fn place(&self, number: u64) -> anyhow::Result<()> {
        let mut connection = self.connection.lock().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let customer = format!("customer-{}", fastrand::u32(1..=40));
        let poison = number % 60 == 12;
        let item = SOLD[if poison { 4 } else { fastrand::usize(0..4) }];
        let quantity = fastrand::i64(1..=3);
        sqlx::query("INSERT INTO orders (number, customer, item, quantity) VALUES (?, ?, ?, ?)")
            .bind(i64::try_from(number)?)
            .bind(&customer)
            .bind(item)
            .bind(quantity)
            .execute(&mut *transaction)
            .await?;
        let payload =
            json!({ "order": number, "customer": customer, "item": item, "quantity": quantity });
        let event = Event::new("order.placed", "OrderPlaced", payload.to_string())
            .key(customer)
            .header("schema_version", "1");
        postbox::put(&mut transaction, &event).await?;
        // A customer who changes their mind: neither the order nor its event was ever there.
        if number.is_multiple_of(25) {
            transaction.rollback().await?;
            return Ok(());
        }
        transaction.commit().await?;
        self.placed.fetch_add(1, Ordering::Relaxed);
        self.outbox.outbox.ring();
        Ok(())
    }

    /// Returns how many orders were committed, for the live line.
    pub(crate) fn placed(&self) -> u64 {
        self.placed.load(Ordering::Relaxed)
    }

    /// Counts the orders in the database.
    pub(crate) async fn count(&self) -> anyhow::Result<u64> {
        let mut connection = self.connection.lock().await;
        let row = sqlx::query("SELECT count(*) FROM orders").fetch_one(&mut *connection).await?;
        Ok(u64::try_from(row.try_get::<i64, _>(0)?)?)
    }
}
