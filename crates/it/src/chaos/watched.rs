//! Whether whoever looks for producers that wait for a relay sees those, and no relays.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use store::Strategy;

use super::home::{self, Home, Session};

/// How often a wait is looked at that is known to last.
const LOOKS: usize = 3;
/// How far apart: what these servers show of transactions is a copy that is 100 ms old, and stays
/// so for whoever looks more often.
const APART: Duration = Duration::from_millis(110);

/// How many small rows nearly fill a page, and how much text no room is left for beside them unless
/// the page is made anew.
const PAGE: usize = 30;
const SMALL: usize = 400;
const LARGE: usize = 3000;

/// Lets a relay and then a producer wait for another relay, and before that a relay whose lock a
/// producer has to move. Returns what is seen of each.
pub async fn watched(database: &str) -> Result<[Vec<String>; 3]> {
    let home = home::make(database, Strategy::Own).await?;
    let seen = see(&*home).await;
    home.leave().await?;
    seen
}

async fn see(home: &dyn Home) -> Result<[Vec<String>; 3]> {
    let mut producer = home.producer().await?;
    // It is to wait for as long as it is looked at.
    producer.run("SET SESSION innodb_lock_wait_timeout = 50").await?;
    producer.run(&put(1, SMALL)).await?;
    // What is taken back leaves holes in the page.
    producer.run(&format!("BEGIN; {}; ROLLBACK", put(PAGE, SMALL))).await?;
    let mut holder = relay(home, "r1").await?;
    let [rows, tallies] =
        ["SELECT seq FROM outbox FOR UPDATE", "SELECT shard FROM outbox_tally FOR UPDATE"];
    holder.run(&format!("BEGIN; {rows}")).await?;
    let moving = async { producer.run(&put(1, LARGE)).await };
    let moved = seen_after(home, relay(home, "r2").await?, rows, moving).await?;
    holder.run(&format!("ROLLBACK; BEGIN; {tallies}")).await?;
    // What notes the change reads the tally, and waits for it in a session as it comes.
    let plain = home::open(&home.account("r3").await?).await?;
    let relays = seen_while(home, plain, "DELETE FROM outbox").await?;
    let producers = seen_while(home, producer, tallies).await?;
    holder.run("ROLLBACK").await?;
    Ok([relays, moved, producers])
}

/// Opens the connection of a relay, which locks rows and nothing between them.
async fn relay(home: &dyn Home, name: &str) -> Result<Box<dyn Session>> {
    let mut relay = home::open(&home.account(name).await?).await?;
    relay.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    Ok(relay)
}

/// Writes events of one key.
fn put(count: usize, size: usize) -> String {
    let row = |_| format!("('{}', 't', 'T', 'k', '{:size$}')", uuid::Uuid::now_v7(), "");
    let rows: Vec<String> = (0..count).map(row).collect();
    let rows = rows.join(", ");
    format!("INSERT INTO outbox (event_id, topic, event_type, biz_key, payload) VALUES {rows}")
}

/// Returns who is seen while a statement waits.
async fn seen_while(home: &dyn Home, waiter: Box<dyn Session>, sql: &str) -> Result<Vec<String>> {
    seen_after(home, waiter, sql, async { Ok(()) }).await
}

/// Returns who is seen while a statement waits, after something else was done meanwhile.
async fn seen_after(
    home: &dyn Home,
    mut waiter: Box<dyn Session>,
    sql: &str,
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<Vec<String>> {
    let look = home.watch().context("a database on which waits are looked for")?;
    let mut onlooker = home.onlooker().await?;
    let number = waiter.rows("SELECT CAST(CONNECTION_ID() AS CHAR(20))").await?;
    let number = number.into_iter().flatten().flatten().next().context("a connection's number")?;
    let waits = format!(
        "SELECT trx_state FROM information_schema.innodb_trx \
         WHERE trx_mysql_thread_id = {number} AND trx_state = 'LOCK WAIT'"
    );
    let looking = async {
        while onlooker.rows(&waits).await?.is_empty() {
            tokio::time::sleep(APART).await;
        }
        meanwhile.await?;
        let (mut seen, mut looks) = (Vec::new(), 0);
        while looks < LOOKS {
            tokio::time::sleep(APART).await;
            looks += onlooker.rows(&waits).await?.len();
            seen.extend(super::seen(&mut *onlooker, look).await?);
        }
        Ok(seen)
    };
    tokio::select! {
        done = waiter.run(sql) => bail!("it does not wait: {sql}: {done:?}"),
        seen = looking => seen,
    }
}
