//! Claims and settlements of an owner do not wait for each other's rows.

use std::time::Duration;

use event::{Claim, Event, Outcome, Receipt, Settlement, Source, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup};

const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: usize = 10;
const WANT: Want = Want { limit: ROWS, bytes: 1 << 20, lease: Duration::from_secs(30) };

async fn claim(outbox: &dyn Outbox, lane: &dyn Source) -> Vec<Claim> {
    let events: Vec<Event> = (0..ROWS).map(|_| Event::new("t", "T", "{}")).collect();
    outbox.put(&events, None).await.unwrap();
    let claims = tokio::time::timeout(PATIENCE, lane.claim(&WANT)).await;
    let claims = claims.expect("nobody keeps the claim waiting").unwrap();
    assert_eq!(claims.len(), ROWS);
    claims
}

async fn settle(lane: &dyn Source, claims: &[Claim]) {
    let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
    let ends: Vec<Settlement> = claims.iter().map(done).collect();
    let settled = tokio::time::timeout(PATIENCE, lane.settle(&ends)).await;
    let settled = settled.expect("nobody keeps the settlement waiting").unwrap();
    assert_eq!(settled.settled, ROWS);
}

/// Keeps every row of a table open until the session ends.
async fn hold(url: &str, table: &str) -> Session {
    let mut session = Session::open(url).await.unwrap();
    session.run("START TRANSACTION").await.unwrap();
    session.run(format!("SELECT shard FROM {table} FOR UPDATE")).await.unwrap();
    session
}

async fn a_settlement_waits_for_no_lease_and_a_claim_for_no_tally(server: &str) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let server = need(server);
    let url = server.detail("url");
    let setup = Setup { table: table.clone(), shards: 1, ..Setup::new(url) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    // The first claim takes the shard, for which it needs both.
    let claims = claim(&*outbox, &*lane).await;
    let lease = hold(url, &format!("{table}_lease")).await;
    settle(&*lane, &claims).await;
    lease.close().await.unwrap();
    let tally = hold(url, &format!("{table}_tally")).await;
    let claims = claim(&*outbox, &*lane).await;
    tally.close().await.unwrap();
    settle(&*lane, &claims).await;
    outbox.close().await;
}

servers!(a_settlement_waits_for_no_lease_and_a_claim_for_no_tally);

mod lost {
    use super::*;

    async fn a_shard_that_has_lost_its_tally_is_told(server: &str) {
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let mut session = Session::open(&setup.url).await.unwrap();
        session.run(format!("DELETE FROM {table}_tally WHERE shard = 3")).await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let told = lane.claim(&WANT).await.unwrap_err().to_string();
        assert!(told.contains("_tally has lost its shards"), "{told}");
        session.close().await.unwrap();
        outbox.close().await;
    }

    servers!(a_shard_that_has_lost_its_tally_is_told);
}
