//! Hearing, on a connection of its own, that producers in other processes have committed; and
//! saying so.
//!
//! Whatever is not heard is found by the next look, which comes as soon as without it: a ring may
//! be lost, an event cannot.

use std::sync::Weak;
use std::time::Duration;

use event::{Cause, Code, StoreError};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, PgConnection};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Postgres;
use super::connect::options;
use super::error::judge;
use crate::given::check_table;
use crate::server::Base;

/// How long to wait before a listener that was cut off tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long a ring may stand for those that follow it.
const TOGETHER: Duration = Duration::from_millis(2);

/// How long the server may take for a ring.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the channel of an outbox: its table, as the server spells it.
fn channel(table: &str) -> String {
    table.to_ascii_lowercase()
}

/// Listens for as long as the handle is open.
pub(super) async fn listen(options: PgConnectOptions, base: Weak<Base<Postgres>>) {
    let Some((mut bell, channel)) = base.upgrade().map(|base| (base.bell(), channel(&base.table)))
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
    // What was committed before it listened may have rung in vain.
    loop {
        if let Some(base) = base.upgrade() {
            base.ring();
        }
        let Ok(Some(_)) = listener.try_recv().await else { return };
    }
}

/// Rings for the relays of other processes, on a connection of its own: never in a producer's
/// transaction, because notifying commits wait for each other. Rings that come together are one.
pub struct Chime(watch::Sender<()>);

impl Chime {
    /// Rings for those who listen to the outbox of a table. Says so if the server lets nobody in.
    pub async fn new(url: &str, table: &str) -> Result<Chime, StoreError> {
        check_table(table)?;
        let (options, channel) = (options(url)?, channel(table));
        let conn = timeout(PATIENCE, options.connect()).await.map_err(|_| {
            let detail = format!("the server did not let us in within {PATIENCE:?}");
            StoreError::Down(Cause::new(Code::StoreDown, detail))
        })?;
        let conn = conn.map_err(|error| judge(&error))?;
        let (rings, heard) = watch::channel(());
        tokio::spawn(chime(options, channel, conn, heard));
        Ok(Chime(rings))
    }

    /// Says that something was committed.
    pub fn ring(&self) {
        self.0.send_replace(());
    }
}

/// Passes rings on, until nobody can ring any more.
async fn chime(
    options: PgConnectOptions,
    channel: String,
    conn: PgConnection,
    mut rings: watch::Receiver<()>,
) {
    let mut open = Some(conn);
    while rings.changed().await.is_ok() {
        // The second time on a new connection: the first may have been lost while it idled.
        for _ in 0..2 {
            let rung = timeout(PATIENCE, ring(&options, &channel, open.take())).await;
            open = rung.ok().flatten();
            if open.is_some() {
                break;
            }
        }
        sleep(TOGETHER).await;
    }
}

/// Rings once. Returns the connection if it serves.
async fn ring(
    options: &PgConnectOptions,
    channel: &str,
    open: Option<PgConnection>,
) -> Option<PgConnection> {
    let mut conn = match open {
        Some(conn) => conn,
        None => options.connect().await.ok()?,
    };
    // A ring says nothing that must outlive the server, so it does not wait for the disk.
    let notify = "SELECT pg_notify($1, ''), set_config('synchronous_commit', 'off', true)";
    let notify = sqlx::query(notify).bind(channel);
    notify.execute(&mut conn).await.ok()?;
    Some(conn)
}
