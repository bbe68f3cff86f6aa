//! A consumer that takes each event in once: over HTTP, signed, into a database of its own.
//!
//! It needs nothing but a temporary folder and a free port:
//! `cargo run -p postbox --example consumer`.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

use std::sync::Arc;

use broker::http::{Http, HttpFeed, Options, Reception};
use broker::manner::Subscription;
use event::{Secret, Sink};
use postbox::{Consumer, Event, Failure};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("stock.sqlite3").display());
    postbox::migrate(&url).await?;
    let pool = SqlitePool::connect(&url).await?;
    let stock = "CREATE TABLE stock (item TEXT PRIMARY KEY, reserved INTEGER)";
    sqlx::query(stock).execute(&pool).await?;
    sqlx::query("INSERT INTO stock VALUES ('lamp', 0)").execute(&pool).await?;

    // The feed is part of the application's own server.
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let reception = Reception::signed(vec![secret.clone()]);
    let subscription = Subscription::new("stock", &["order.paid"]);
    let feed = Arc::new(HttpFeed::new(subscription, reception).map_err(anyhow::Error::msg)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = axum::Router::new().nest_service("/events", feed.router());
    tokio::spawn(async move { axum::serve(listener, app).await });

    // What a relay does: it publishes each event, and here the first one twice, as it may.
    let options = Options {
        secrets: vec![secret],
        allow_private: true,
        ..Options::new(format!("http://{address}/events"), "orders")
    };
    let sink = Http::new(options).map_err(anyhow::Error::msg)?;
    let order = |item: &str| Event::new("order.paid", "OrderPaid", "{}").key(item);
    let (lamp, ghost) = (order("lamp"), order("ghost"));
    let publishing = async {
        for event in [&lamp, &lamp, &ghost] {
            let answers = sink.publish(std::slice::from_ref(event)).await;
            println!("{}: {:?}", event.key.as_deref().unwrap_or_default(), answers[0]);
        }
    };

    Consumer::new(feed, pool.clone(), "stock")
        .run(
            |tx, event| {
                Box::pin(async move {
                    let reserve = "UPDATE stock SET reserved = reserved + 1 WHERE item = ?";
                    let done = sqlx::query(reserve).bind(&event.key).execute(tx).await?;
                    match done.rows_affected() {
                        1 => Ok(()),
                        _ => Err(Failure::never("there is no such item")),
                    }
                })
            },
            publishing,
        )
        .await?;
    let reserved: i64 = sqlx::query_scalar("SELECT reserved FROM stock").fetch_one(&pool).await?;
    println!("lamps reserved: {reserved}");
    anyhow::ensure!(reserved == 1, "one event, one effect");
    Ok(())
}
