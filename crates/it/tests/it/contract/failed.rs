//! A claim that fails is as if it had never been: what other turns and lanes have in flight stays
//! theirs, and nothing is published twice without a fault.

use std::collections::HashMap;
use std::time::Duration;

use event::{Claim, Event, Outcome, StoreError, Want};
use store::Lane;

use self::place::{Place, WANT, done, end, is_busy, once, only, retry};

macro_rules! tests {
    ($server:literal $name:ident: $($test:ident)+) => {
        mod $name {
            $(#[tokio::test]
            async fn $test() {
                super::$test($server).await;
            })+
        }
    };
    ($($test:ident)+) => {
        tests! { "postgres" postgres: $($test)+ }
        tests! { "mysql" mysql: $($test)+ }
        tests! { "mariadb" mariadb: $($test)+ }
        tests! { "mariadb-10.5" mariadb_10_5: $($test)+ }
    };
}

mod overstayed;
mod place;

tests! {
    a_lease_that_another_has_open_costs_nothing_that_is_held
    a_claim_that_fails_leaves_the_turns_beside_it_what_they_have
    a_claim_that_is_undone_spends_no_attempt_and_keeps_the_order
    a_lane_that_cannot_be_released_takes_nothing_from_others
    rows_that_a_person_takes_away_while_they_are_claimed_end_no_lane
    a_settlement_that_the_server_refuses_is_made_again
    leases_that_stay_open_elsewhere_are_told
}

/// What can be had is had, and what is held is kept.
async fn a_lease_that_another_has_open_costs_nothing_that_is_held(server: &str) {
    let mut place = Place::new(server).await;
    place.put(0..1, 3).await;
    let in_flight = place.claim().await;
    let (count, held) = (in_flight.len(), in_flight[0].address.shard);
    assert_eq!(count, 3);
    let mut waits = place.put(1..200, 1).await;
    let locked = if held == 7 { 8 } else { 7 };
    place.hold(&format!("shard = {locked}")).await;
    let claims = place.claim().await;
    let mut shards: Vec<u16> = claims.iter().map(|claim| claim.address.shard).collect();
    shards.sort_unstable();
    shards.dedup();
    assert_eq!(shards, (0..16).filter(|shard| *shard != locked).collect::<Vec<u16>>());
    let settled = end(&place.lane, &in_flight, &done()).await;
    assert_eq!((settled.settled, settled.stale), (count, vec![]));
    let settled = end(&place.lane, &claims, &done()).await;
    assert_eq!((settled.settled, settled.stale), (claims.len(), vec![]));
    place.let_go().await;
    waits.retain(|id| claims.iter().all(|claim| claim.event.id != *id));
    let came = place.drain(count + 199).await;
    assert_eq!(came.len(), waits.len(), "each once");
    assert_eq!(came.into_iter().collect::<HashMap<_, _>>(), once(&waits));
    place.end().await;
}

/// A renewal that waits for too long is given up, and with it only what it would have named.
async fn a_claim_that_fails_leaves_the_turns_beside_it_what_they_have(server: &str) {
    let mut place = Place::new(server).await;
    place.put(0..50, 2).await;
    let in_flight = place.claim().await;
    let others = place.put(50..100, 2).await;
    place.hold("shard >= 0").await;
    let failed = place.lane.claim(&WANT).await;
    assert!(is_busy(&failed), "{failed:?}");
    place.let_go().await;
    let settled = end(&place.lane, &in_flight, &done()).await;
    assert_eq!((settled.settled, settled.stale), (100, vec![]));
    let came = place.drain(200).await;
    assert_eq!(came.len(), others.len(), "each once");
    assert_eq!(came.into_iter().collect::<HashMap<_, _>>(), once(&others));
    place.end().await;
}

/// Retries are as they were, and so is the order of each key.
async fn a_claim_that_is_undone_spends_no_attempt_and_keeps_the_order(server: &str) {
    let mut place = Place::new(server).await;
    let events = place.put(0..1, 4).await;
    let aside = place.put(1..40, 1).await;
    let first = place.claim().await;
    let (of_key, others): (Vec<Claim>, Vec<Claim>) =
        first.into_iter().partition(|claim| events.contains(&claim.event.id));
    assert_eq!((of_key.len(), others.len()), (4, aside.len()));
    let shard = of_key[0].address.shard;
    end(&place.lane, &of_key[..1], &retry()).await;
    end(&place.lane, &of_key[1..], &Outcome::Release { after: Duration::ZERO }).await;
    let table = place.table.clone();
    let fence =
        place.session.number(format!("SELECT fence FROM {table}_lease WHERE shard = {shard}"));
    let fence = fence.await.unwrap();
    let rule = format!("ADD CONSTRAINT {table}_stays CHECK (shard <> {shard} OR fence <= {fence})");
    place.session.run(format!("ALTER TABLE {table}_lease {rule}")).await.unwrap();
    let failed = place.lane.claim(&WANT).await;
    assert!(matches!(failed, Err(StoreError::Broken(_))), "{failed:?}");
    let rule = format!("DROP CONSTRAINT {table}_stays");
    place.session.run(format!("ALTER TABLE {table}_lease {rule}")).await.unwrap();
    let settled = end(&place.lane, &others, &done()).await;
    assert_eq!((settled.settled, settled.stale), (others.len(), vec![]));
    let came = place.drain(4 + others.len()).await;
    let attempts = [2, 1, 1, 1];
    assert_eq!(came, events.into_iter().zip(attempts).collect::<Vec<_>>());
    place.end().await;
}

/// The leases stay with the lanes that work on.
async fn a_lane_that_cannot_be_released_takes_nothing_from_others(server: &str) {
    let mut place = Place::new(server).await;
    let other = place.outbox.lane(Lane { topics: only("u"), ..Lane::default() });
    place.put(0..40, 1).await;
    let events: Vec<Event> =
        (0..40).map(|key: usize| Event::new("u", "U", "{}").key(key.to_string())).collect();
    place.outbox.put(&events, None).await.unwrap();
    let in_flight = place.claim().await;
    assert_eq!((in_flight.len(), other.claim(&WANT).await.unwrap().len()), (40, 40));
    let lease = format!("{}_lease", place.table);
    place.session.run(format!("ALTER TABLE {lease} RENAME TO {lease}_away")).await.unwrap();
    other.release().await.unwrap_err();
    place.session.run(format!("ALTER TABLE {lease}_away RENAME TO {lease}")).await.unwrap();
    let settled = end(&place.lane, &in_flight, &done()).await;
    assert_eq!((settled.settled, settled.stale), (40, vec![]));
    assert_eq!(other.claim(&WANT).await.unwrap().len(), 40, "what was not put back comes again");
    place.end().await;
}

/// What a person takes away while it is claimed ends no lane, and holds nobody of its key.
async fn rows_that_a_person_takes_away_while_they_are_claimed_end_no_lane(server: &str) {
    let mut place = Place::new(server).await;
    place.put(0..2, 1).await;
    let claims = place.claim().await;
    end(&place.lane, &claims, &retry()).await;
    place.begin().await;
    let gone = format!("DELETE FROM {}_later WHERE biz_key = '0'", place.table);
    place.session.run(gone).await.unwrap();
    let lane = place.lane.clone();
    let claiming = tokio::spawn(async move { lane.claim(&WANT).await });
    place.until_somebody_waits().await;
    place.let_go().await;
    let failed = claiming.await.unwrap();
    assert!(is_busy(&failed), "{failed:?}");
    place.put(0..1, 1).await;
    let came = place.drain(2).await;
    assert_eq!(came.len(), 2, "what is left, and what follows: {came:?}");
    place.end().await;
}

/// A server that says no has written nothing down, so nothing is in doubt.
async fn a_settlement_that_the_server_refuses_is_made_again(server: &str) {
    let mut place = Place::new(server).await;
    let ids = place.put(0..40, 1).await;
    let claims = place.claim().await;
    let tally = format!("{}_tally", place.table);
    place.session.run(format!("ALTER TABLE {tally} RENAME TO {tally}_away")).await.unwrap();
    let ends: Vec<_> = claims.iter().map(|claim| claim.end(done())).collect();
    place.lane.settle(&ends).await.unwrap_err();
    place.session.run(format!("ALTER TABLE {tally}_away RENAME TO {tally}")).await.unwrap();
    let settled = end(&place.lane, &claims, &done()).await;
    assert_eq!((settled.settled, settled.stale), (ids.len(), vec![]));
    place.end().await;
}

/// Events that wait because somebody has leases open do not wait without a word.
async fn leases_that_stay_open_elsewhere_are_told(server: &str) {
    let mut place = Place::new(server).await;
    assert_eq!(place.claim().await, [], "there is nothing yet");
    let ids = place.put(0..40, 1).await;
    place.hold("shard >= 0").await;
    let want = Want { lease: Duration::from_secs(1), ..WANT };
    let told = async {
        loop {
            match place.lane.claim(&want).await {
                Ok(claims) => assert_eq!(claims, []),
                failed => break failed,
            }
        }
    };
    let failed = tokio::time::timeout(WANT.lease / 2, told).await.expect("it is told");
    assert!(is_busy(&failed), "{failed:?}");
    let told = failed.unwrap_err().to_string();
    assert!(told.contains("leases of shards open"), "{told}");
    place.let_go().await;
    assert_eq!(place.drain(ids.len()).await.len(), ids.len());
    place.end().await;
}
