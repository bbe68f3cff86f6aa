//! Whether whoever looks for producers that wait for a relay sees those, and no relays.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::home::{self, Home, Session};

/// How often a wait is looked at that is known to last.
const LOOKS: usize = 3;
/// How far apart: what these servers show of transactions is a copy that is 100 ms old, and stays
/// so for whoever looks more often.
const APART: Duration = Duration::from_millis(110);

/// Lets a relay and then a producer wait for another relay. Returns what is seen of each.
pub async fn watched(database: &str) -> Result<[Vec<String>; 2]> {
    let home = home::make(database).await?;
    let seen = see(&*home).await;
    home.leave().await?;
    seen
}

async fn see(home: &dyn Home) -> Result<[Vec<String>; 2]> {
    let mut producer = home.producer().await?;
    // It is to wait for as long as it is looked at.
    producer.run("SET SESSION innodb_lock_wait_timeout = 50").await?;
    let id = uuid::Uuid::now_v7();
    let put = format!(
        "INSERT INTO outbox (event_id, topic, event_type, payload) \
         VALUES ('{id}', 't', 'T', '{{}}')"
    );
    producer.run(&put).await?;
    let mut holder = home::open(&home.account("r1").await?).await?;
    let relay = home::open(&home.account("r2").await?).await?;
    let tallies = "SELECT shard FROM outbox_tally FOR UPDATE";
    holder.run(&format!("BEGIN; {tallies}")).await?;
    // What notes the change reads the tally.
    let relays = seen_while(home, relay, "DELETE FROM outbox").await?;
    let producers = seen_while(home, producer, tallies).await?;
    holder.run("ROLLBACK").await?;
    Ok([relays, producers])
}

/// Returns who is seen while a statement waits.
async fn seen_while(
    home: &dyn Home,
    mut waiter: Box<dyn Session>,
    sql: &str,
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
