//! A claim is in a transaction of its own: whatever its caller has open, a claim waits for none of
//! it, shows none of it, and stands when all of it is rolled back.

use std::collections::HashSet;
use std::time::Duration;

use event::{Claim, Event, EventId, Outcome, Receipt, Source, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Setup, Strategy};

const PATIENCE: Duration = Duration::from_secs(60);
const EVENTS: usize = 20;
const WANT: Want = Want { limit: EVENTS, bytes: 1 << 20, lease: Duration::from_secs(600) };

fn strategies(server: &str) -> &'static [Strategy] {
    match server {
        "postgres" => &[Strategy::Own, Strategy::SkipLocked, Strategy::Cas],
        "mariadb-10.5" => &[Strategy::Own, Strategy::Cas, Strategy::Preempt],
        _ => &[Strategy::Own, Strategy::SkipLocked, Strategy::Cas, Strategy::Preempt],
    }
}

/// Claims at least once, and until so many are in hand. A claim that waited for its caller would
/// fail in time.
async fn claim(lane: &dyn Source, count: usize) -> Vec<Claim> {
    let mut claims = Vec::new();
    let claiming = async {
        loop {
            claims.extend(lane.claim(&WANT).await.unwrap());
            if claims.len() >= count {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, claiming).await.expect("what is committed is handed out");
    claims
}

async fn a_claim_is_neither_delayed_nor_rolled_back_by_a_transaction_of_its_caller(server: &str) {
    for strategy in strategies(server).iter().copied() {
        let table = format!("t{:016x}", fastrand::u64(..));
        let url = need(server).detail("url").to_owned();
        let setup = Setup { table: table.clone(), strategy, shards: 4, ..Setup::new(url) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let mut caller = Session::open(&setup.url).await.unwrap();
        let business = format!(
            "CREATE TABLE {table}_order (id INT PRIMARY KEY, n INT); \
             INSERT INTO {table}_order VALUES (1, 0)"
        );
        caller.run(business).await.unwrap();
        for (turn, end) in (1..).zip(["ROLLBACK", "COMMIT"]) {
            let event = |key: usize| Event::new("t", "T", "{}").key(key.to_string());
            let events: Vec<Event> = (0..EVENTS).map(event).collect();
            outbox.put(&events, None).await.unwrap();
            let own = EventId::new();
            let work = format!(
                "BEGIN; SELECT n FROM {table}_order; \
                 UPDATE {table}_order SET n = {turn} WHERE id = 1; \
                 INSERT INTO {table} (event_id, topic, event_type, biz_key, payload) \
                 VALUES ('{own}', 't', 'T', '1', '{{}}')"
            );
            caller.run(work).await.unwrap();
            let claims = claim(&*lane, EVENTS).await;
            let claimed: HashSet<EventId> = claims.iter().map(|claim| claim.event.id).collect();
            let put: HashSet<EventId> = events.iter().map(|event| event.id).collect();
            assert_eq!((claims.len(), claimed), (EVENTS, put), "{strategy}, before {end}");
            caller.run(end).await.unwrap();
            stands(&setup, &*lane, &claims, (end == "COMMIT").then_some(own)).await;
        }
        caller.close().await.unwrap();
        outbox.close().await;
    }
}

/// Sees that a claim stands after its caller's transaction has ended, and that nothing but the
/// caller's own event is there besides.
async fn stands(setup: &Setup, lane: &dyn Source, claims: &[Claim], own: Option<EventId>) {
    let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
    let ids = |claims: &[Claim]| claims.iter().map(|claim| claim.event.id).collect::<Vec<_>>();
    let other = store::open(setup).await.unwrap();
    let heir = other.lane(Lane { topics: Topics::all(), ..Lane::default() });
    if setup.strategy.competes() {
        let free = claim(&*heir, usize::from(own.is_some())).await;
        assert_eq!(ids(&free), own.as_slice(), "{}: the rest is in hand", setup.strategy);
    } else {
        assert_eq!(heir.claim(&WANT).await.unwrap(), [], "the shards are leased");
    }
    heir.release().await.unwrap();
    other.close().await;
    let ends: Vec<_> = claims.iter().map(done).collect();
    let settled = lane.settle(&ends).await.unwrap();
    assert_eq!((settled.settled, settled.stale), (EVENTS, Vec::new()), "{}", setup.strategy);
    let rest = claim(lane, usize::from(own.is_some())).await;
    assert_eq!(ids(&rest), own.as_slice(), "{}", setup.strategy);
    let ends: Vec<_> = rest.iter().map(done).collect();
    assert_eq!(lane.settle(&ends).await.unwrap().settled, rest.len());
    assert_eq!(lane.claim(&WANT).await.unwrap(), [], "{}: nothing else is there", setup.strategy);
}

servers!(a_claim_is_neither_delayed_nor_rolled_back_by_a_transaction_of_its_caller);
