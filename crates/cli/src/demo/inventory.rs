//! The inventory: a small service that takes each event in once, and fails on purpose now and then.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use broker::webhook::{self, Signed};
use event::{EventId, Millis, Secret};
use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, Row};
use telemetry::TakenIn;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

const GROUP: &str = "inventory";
const STOCK: i64 = 1_000_000_000;

/// An inventory with its own database.
#[derive(Clone)]
pub(crate) struct Inventory {
    state: Arc<Service>,
}

struct Service {
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    connection: Mutex<SqliteConnection>,
    secret: Secret,
    up: AtomicBool,
    seen: AtomicU64,
    taken_in: AtomicU64,
    duplicates: AtomicU64,
}

/// What the inventory did, as its database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Movements of stock.
    pub(crate) movements: u64,
    /// Events that they came from.
    pub(crate) events: u64,
    /// Whether the stock is what it was, less what was moved.
    pub(crate) adds_up: bool,
}

#[derive(Deserialize)]
struct Order {
    item: String,
    quantity: i64,
}

/// What became of an event.
enum Taken {
    In,
    Before,
    Unknown,
}

impl Inventory {
    /// Opens the inventory on a free port.
    pub(crate) async fn open(file: &Path, secret: Secret) -> anyhow::Result<Inventory> {
        postbox::migrate(&format!("sqlite:{}", file.display())).await?;
        let options =
            SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(5));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        for statement in [
            "CREATE TABLE stock (item TEXT PRIMARY KEY, amount INTEGER NOT NULL) STRICT",
            "CREATE TABLE movements (event_id TEXT NOT NULL, quantity INTEGER NOT NULL) STRICT",
        ] {
            sqlx::query(statement).execute(&mut connection).await?;
        }
        for item in ["lamp", "chair", "table", "shelf"] {
            let insert = sqlx::query("INSERT INTO stock (item, amount) VALUES (?, ?)");
            insert.bind(item).bind(STOCK).execute(&mut connection).await?;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let state = Service {
            address: listener.local_addr()?,
            listener: Mutex::new(Some(listener)),
            connection: Mutex::new(connection),
            secret,
            up: AtomicBool::new(true),
            seen: AtomicU64::new(0),
            taken_in: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
        };
        Ok(Inventory { state: Arc::new(state) })
    }

    /// Returns where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// Tells whether it can be reached.
    pub(crate) fn is_up(&self) -> bool {
        self.state.up.load(Ordering::Relaxed)
    }

    /// Returns how many events were taken in.
    pub(crate) fn taken_in(&self) -> u64 {
        self.state.taken_in.load(Ordering::Relaxed)
    }

    /// Returns how many arrived again and were answered as done.
    pub(crate) fn duplicates(&self) -> u64 {
        self.state.duplicates.load(Ordering::Relaxed)
    }

    /// Serves until `closed`. Now and then it cannot be reached for a while, but no longer once
    /// everything is `closing`.
    pub(crate) async fn serve(
        self,
        closing: CancellationToken,
        closed: CancellationToken,
    ) -> anyhow::Result<()> {
        const OUTAGE: Duration = Duration::from_secs(3);
        let mut good = Duration::from_secs(5);
        while !closed.is_cancelled() {
            let listener = self.listen(&closed).await;
            let Some(listener) = listener else { break };
            self.state.up.store(true, Ordering::Relaxed);
            let shut = closed.child_token();
            let router = Router::new().route("/events", post(receive));
            let until = shut.clone();
            let serving = axum::serve(listener, router.with_state(self.state.clone()))
                .with_graceful_shutdown(async move { until.cancelled().await });
            let outage = async {
                tokio::time::sleep(good).await;
                if closing.is_cancelled() {
                    std::future::pending::<()>().await;
                }
                self.state.up.store(false, Ordering::Relaxed);
                shut.cancel();
            };
            let (served, ()) = tokio::join!(serving.into_future(), async {
                tokio::select! {
                    () = outage => {}
                    () = closed.cancelled() => {}
                }
            });
            served?;
            closing.run_until_cancelled(tokio::time::sleep(OUTAGE)).await;
            good = Duration::from_secs(20);
        }
        Ok(())
    }

    async fn listen(&self, closed: &CancellationToken) -> Option<TcpListener> {
        const AGAIN: Duration = Duration::from_millis(50);
        if let Some(first) = self.state.listener.lock().await.take() {
            return Some(first);
        }
        loop {
            if let Ok(listener) = TcpListener::bind(self.state.address).await {
                return Some(listener);
            }
            closed.run_until_cancelled(tokio::time::sleep(AGAIN)).await?;
        }
    }

    /// Reads from the database what was done.
    pub(crate) async fn effects(&self) -> anyhow::Result<Effects> {
        let mut connection = self.state.connection.lock().await;
        let row = sqlx::query(
            "SELECT count(*), count(DISTINCT event_id), coalesce(sum(quantity), 0),
                    (SELECT sum(amount) FROM stock), (SELECT count(*) FROM stock)
             FROM movements",
        )
        .fetch_one(&mut *connection)
        .await?;
        let number = |at: usize| row.try_get::<i64, _>(at);
        Ok(Effects {
            movements: u64::try_from(number(0)?)?,
            events: u64::try_from(number(1)?)?,
            adds_up: number(2)? + number(3)? == STOCK * number(4)?,
        })
    }
}

/// Answers one request: 200 once the event is taken in, and never before.
async fn receive(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signed = Signed {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let (now, tolerance) = (Millis::now().0 / 1000, Duration::from_secs(300));
    let secrets = std::slice::from_ref(&service.secret);
    if webhook::verify(secrets, signed, &body, now, tolerance).is_err() {
        return (StatusCode::UNAUTHORIZED, "the signature does not fit");
    }
    let (Ok(id), Ok(order)) = (signed.id.parse(), serde_json::from_slice::<Order>(&body)) else {
        return (StatusCode::UNPROCESSABLE_ENTITY, "this is no order");
    };
    let seen = service.seen.fetch_add(1, Ordering::Relaxed);
    if seen % 17 == 5 {
        return (StatusCode::SERVICE_UNAVAILABLE, "busy; come back later");
    }
    let taken = service.take_in(id, &order).await;
    telemetry::taken_in(
        GROUP,
        match taken {
            Ok(Taken::In) => TakenIn::First,
            Ok(Taken::Before) => TakenIn::Before,
            Ok(Taken::Unknown) | Err(_) => TakenIn::Failed,
        },
    );
    match taken {
        Ok(Taken::Unknown) => (StatusCode::UNPROCESSABLE_ENTITY, "this item is not in stock"),
        Ok(Taken::Before) => {
            service.duplicates.fetch_add(1, Ordering::Relaxed);
            (StatusCode::OK, "taken in before")
        }
        Ok(Taken::In) => {
            service.taken_in.fetch_add(1, Ordering::Relaxed);
            // The answer gets lost after the commit, so the event arrives again.
            if seen % 29 == 8 {
                return (StatusCode::INTERNAL_SERVER_ERROR, "the answer got lost");
            }
            (StatusCode::OK, "taken in")
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the database did not answer"),
    }
}

impl Service {
    /// Remembers the event and moves the stock, in one transaction.
    async fn take_in(&self, id: EventId, order: &Order) -> anyhow::Result<Taken> {
        let mut connection = self.connection.lock().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        if !postbox::inbox::take_in(&mut transaction, GROUP, id).await? {
            return Ok(Taken::Before);
        }
        let moved = sqlx::query("UPDATE stock SET amount = amount - ? WHERE item = ?")
            .bind(order.quantity)
            .bind(&order.item)
            .execute(&mut *transaction)
            .await?;
        if moved.rows_affected() == 0 {
            return Ok(Taken::Unknown);
        }
        sqlx::query("INSERT INTO movements (event_id, quantity) VALUES (?, ?)")
            .bind(id.to_string())
            .bind(order.quantity)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(Taken::In)
    }
}
