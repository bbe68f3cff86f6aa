//! Hearing, on a connection of its own, that producers in other processes have committed; and
//! saying so.
//!
//! Whatever is not heard is found by the next look: a ring may be lost, an event cannot.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event::StoreError;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, PgConnection};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Postgres;
use super::connect::options;
use crate::given::check_table;
use crate::server::Base;

/// How long to wait before a listener that was cut off tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long a ring may stand for those that follow it.
const TOGETHER: Duration = Duration::from_millis(10);

/// Listens for as long as the handle is open.
pub(super) async fn listen(options: PgConnectOptions, base: Weak<Base<Postgres>>) {
    let Some((mut bell, channel)) = base.upgrade().map(|base| (base.bell(), base.table.clone()))
    else {
        return;
    };
    // The listener takes its connection out of a pool, which makes it anew when it is lost.
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    loop {
        let hears = hear(&pool, &channel, &base);
        let over = async {
            // The bell rings at the end as well.
            while bell.changed().await.is_ok() && base.upgrade().is_some_and(|base| base.is_open())
            {
            }
        };
        tokio::select! {
            () = hears => {}
            () = over => break,
        }
        if let Some(base) = base.upgrade() {
            base.hears.store(false, Ordering::Relaxed);
        }
        sleep(AGAIN).await;
    }
    pool.close().await;
}

/// Rings whenever somebody does, until the connection is lost.
async fn hear(pool: &sqlx::PgPool, channel: &str, base: &Weak<Base<Postgres>>) {
    let Ok(mut listener) = PgListener::connect_with(pool).await else { return };
    if listener.listen(channel).await.is_err() {
        return;
    }
    let ring = |hears: bool| {
        if let Some(base) = base.upgrade() {
            base.hears.store(hears, Ordering::Relaxed);
            base.ring();
        }
    };
    // What was committed before it listened may have rung in vain.
    ring(true);
    while let Ok(Some(_)) = listener.try_recv().await {
        ring(true);
    }
    ring(false);
}

/// Rings for the relays of other processes, on a connection of its own: never in a producer's
/// transaction, because notifying commits wait for each other. Rings that come together are one.
pub struct Chime(watch::Sender<()>);

impl Chime {
    /// Rings for those who listen to the outbox of a table.
    pub fn new(url: &str, table: &str) -> Result<Chime, StoreError> {
        check_table(table)?;
        let (rings, heard) = watch::channel(());
        tokio::spawn(chime(options(url)?, table.to_owned(), heard));
        Ok(Chime(rings))
    }

    /// Says that something was committed.
    pub fn ring(&self) {
        self.0.send_replace(());
    }
}

/// Passes rings on, until nobody can ring any more.
async fn chime(options: PgConnectOptions, channel: String, mut rings: watch::Receiver<()>) {
    let mut conn: Option<PgConnection> = None;
    while rings.changed().await.is_ok() {
        // The second time on a new connection: the first may have been lost while it idled.
        for _ in 0..2 {
            if conn.is_none() {
                conn = options.connect().await.ok();
            }
            let Some(open) = &mut conn else { break };
            let notify = sqlx::query("SELECT pg_notify($1, '')").bind(&channel);
            match notify.execute(open).await {
                Ok(_) => break,
                Err(_) => conn = None,
            }
        }
        sleep(TOGETHER).await;
    }
}
