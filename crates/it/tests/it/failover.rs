//! A failover to a replica that had fallen behind: the address leads to another server, the newest
//! commits are gone, and their numbers are drawn again. Nothing that the new server has may wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Claim, EventId, Order, Outcome, Receipt, Source, StoreError, Topics, Want};
use it::instance::Instance;
use it::session::Session;
use it::site::Site;
use store::{Lane, Setup, Strategy};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the test, so that a lease which runs out does not let everything be read anew.
const LEASE: Duration = Duration::from_secs(600);

/// Makes a test of each kind of server and of relays.
macro_rules! failovers {
    ($(fn $test:ident = $server:literal $strategy:ident,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                events_flow_after_a_failover($server, Strategy::$strategy).await;
            }
        )+
    };
}

failovers! {
    fn events_flow_after_a_failover_of_postgres = "postgres" Own,
    fn events_flow_after_a_failover_of_mysql = "mysql" Own,
    fn events_flow_after_a_failover_of_mariadb = "mariadb" Own,
    fn competing_relays_go_on_after_a_failover_of_postgres = "postgres" SkipLocked,
    fn competing_relays_go_on_after_a_failover_of_mysql = "mysql" SkipLocked,
}

async fn events_flow_after_a_failover(server: &str, strategy: Strategy) {
    let mut instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let setup = Setup { strategy, ..Setup::new(&*instance.url) };
    let outbox = store::open(&setup).await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
    site.put(20, 7).await.unwrap();
    assert_eq!(drain(&lane).await.unwrap().len(), 20);

    instance.copy().unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    site.put(200, 7).await.unwrap();
    // What was settled just before the kill may come again: such commits wait for no disk.
    assert!(once_it_answers(&lane, &mut Vec::new()).await.len() >= 200);

    instance.fail_over().unwrap();
    promote(&instance.url, server).await;
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let events = site.put(50, 7).await.unwrap();
    let mut errors = Vec::new();
    let came = once_it_answers(&lane, &mut errors).await;
    let there: BTreeSet<EventId> = events.iter().map(|event| event.id).collect();
    assert!(came.is_superset(&there), "{} of {} came", came.len(), there.len());
    assert!(errors.iter().any(|error| error.contains("another server")), "{errors:?}");
}

/// Drains a lane whose server may have to be reached anew. Its errors are for a while only.
async fn once_it_answers(lane: &Arc<dyn Source>, errors: &mut Vec<String>) -> BTreeSet<EventId> {
    let until = Instant::now() + PATIENCE;
    loop {
        match drain(lane).await {
            Ok(came) => return came,
            Err(StoreError::Down(cause)) => errors.push(cause.to_string()),
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < until, "{errors:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Claims and settles until nothing is handed out.
async fn drain(lane: &Arc<dyn Source>) -> Result<BTreeSet<EventId>, StoreError> {
    let want = Want { limit: 1000, bytes: 16 << 20, lease: LEASE };
    let mut came = BTreeSet::new();
    loop {
        let claims = lane.claim(&want).await?;
        if claims.is_empty() {
            return Ok(came);
        }
        came.extend(claims.iter().map(|claim| claim.event.id));
        let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
        lane.settle(&claims.iter().map(done).collect::<Vec<_>>()).await?;
    }
}

/// Lets a standby take writes, once it answers. Others take them as soon as they are there.
async fn promote(url: &str, server: &str) {
    if !server.starts_with("postgres") {
        return;
    }
    let until = Instant::now() + PATIENCE;
    let mut session = loop {
        match Session::open(url).await {
            Ok(session) => break session,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    session.run("SELECT pg_promote()").await.unwrap();
}
