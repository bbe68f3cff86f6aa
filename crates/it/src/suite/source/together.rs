//! Turns of one lane that ask at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use event::{Claim, Event, EventId, Filter, Listed, Outcome, Receipt, Settled, Settlement, Status};
use futures_util::future::{join, join_all};

use crate::ground::Ground;
use crate::suite::act::{Relay, SECOND, done, ids, ids_of, keyed, relay, release, retry, unkeyed};

/// How many turns ask at once.
const TURNS: usize = 6;

/// However many claim at once, each row goes to one of them, and each key too while it is in hand.
pub async fn claims_made_at_once_share_no_row_and_no_key(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events: Vec<Event> = (0..120).map(|n| keyed(&format!("k{}", n % 30))).collect();
    one.put(&events).await;
    let mut came: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
    for _ in 0..events.len() {
        let claimed = join_all((0..TURNS).map(|_| one.claim(7))).await;
        if claimed.iter().all(Vec::is_empty) {
            break;
        }
        let mut keys: BTreeMap<String, usize> = BTreeMap::new();
        for (turn, claims) in claimed.iter().enumerate() {
            assert!(claims.len() <= 7);
            for Claim { event, .. } in claims {
                let key = event.key.clone().expect("every event has one");
                if ground.traits().ordered {
                    let holder = *keys.entry(key.clone()).or_insert(turn);
                    assert_eq!(holder, turn, "{key} is in two hands");
                }
                came.entry(key).or_default().push(event.id);
            }
        }
        let outcome = done();
        join_all(claimed.iter().map(|claims| one.end(claims, &outcome))).await;
    }
    let all: BTreeSet<EventId> = came.values().flatten().copied().collect();
    assert_eq!(came.values().map(Vec::len).sum::<usize>(), all.len(), "no row came twice");
    assert_eq!(all, ids_of(&events).into_iter().collect());
    let rises =
        |ids: &Vec<EventId>| ids.is_sorted_by_key(|id| events.iter().position(|it| it.id == *id));
    assert!(!ground.traits().ordered || came.values().all(rises), "each key came in order");
}

/// A claim that is made while an outcome is written down does not know it; the next one does.
pub async fn an_outcome_beside_a_claim_is_known_to_the_next_one(ground: &dyn Ground) {
    let one = relay(ground).await;
    let mut events = vec![keyed("a"), keyed("a")];
    events.extend((0..20).map(|n| keyed(&format!("b{n}"))));
    one.put(&events).await;
    let first = one.claim(1).await;
    let release = release();
    let (beside, ()) = futures_util::join!(one.claim(3), one.end(&first, &release));
    let rest = one.claim(100).await;
    let again = [beside, rest].concat();
    let came: BTreeSet<EventId> = again.iter().map(|claim| claim.event.id).collect();
    assert_eq!((again.len(), came), (events.len(), ids_of(&events).into_iter().collect()));
    assert!(again.iter().all(|claim| claim.attempt == 1), "a release spends no attempt");
}

/// Turns that claim while their last outcomes are written down take each event once, its key in
/// order, and every event keeps what its own destination called it.
pub async fn turns_that_overlap_take_each_event_once_and_keep_its_receipt(ground: &dyn Ground) {
    let one = relay(ground).await;
    let keyed = (0..90).map(|n| keyed(&format!("k{}", n % 20)));
    let events: Vec<Event> = keyed.chain((0..90).map(|_| unkeyed())).collect();
    one.put(&events).await;
    let came = Mutex::default();
    join_all((0..3).map(|_| overlap(&one, &came))).await;
    overlap(&one, &came).await;
    let came: Vec<EventId> = came.into_inner().expect("no turn panics");
    let all: BTreeSet<EventId> = came.iter().copied().collect();
    assert_eq!((came.len(), &all), (all.len(), &ids_of(&events).into_iter().collect()));
    for of in (0..20).map(|n| format!("k{n}")).filter(|_| ground.traits().ordered) {
        let line = events.iter().filter(|event| event.key.as_ref() == Some(&of));
        let rises =
            line.map(|event| came.iter().position(|id| *id == event.id)).collect::<Vec<_>>();
        assert!(rises.is_sorted(), "{of} came out of order");
    }
    let listed = one.find(&Filter::default()).await;
    assert_eq!(listed.len(), events.len());
    for Listed { event, status, broker_id, .. } in listed {
        assert_eq!((status, broker_id), (Status::Sent, receipt(event.id).broker_id));
    }
    assert_eq!(one.count().await.sent, events.len() as u64);
}

/// Takes turns, each beside the settlement of the one before, until nothing is found.
async fn overlap(one: &Relay, came: &Mutex<Vec<EventId>>) {
    let mut owed = one.claim(10).await;
    while !owed.is_empty() {
        came.lock().expect("no turn panics").extend(ids(&owed));
        let end = |claim: &Claim| claim.end(Outcome::Done(receipt(claim.event.id)));
        let ends: Vec<Settlement> = owed.iter().map(end).collect();
        let (settled, next) = join(one.lane.settle(&ends), one.claim(10)).await;
        let all = Settled { settled: ends.len(), stale: Vec::new() };
        assert_eq!(settled.expect("the store settles"), all);
        owed = if next.is_empty() { one.claim(10).await } else { next };
    }
}

/// What a destination calls an event: not every one calls it anything.
fn receipt(id: EventId) -> Receipt {
    let named = !id.uuid().as_u128().is_multiple_of(3);
    Receipt { broker_id: named.then(|| format!("b-{id}")) }
}

/// However many settle at once, each is told about its own, and every outcome is kept.
pub async fn settlements_made_at_once_are_each_judged_by_themselves(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events: Vec<Event> = (0..TURNS).map(|_| unkeyed()).collect();
    one.put(&events).await;
    let mut claimed = Vec::new();
    for _ in 0..TURNS {
        claimed.push(one.claim(1).await);
    }
    one.end(&claimed[0], &done()).await;
    let settled = join_all(claimed.iter().enumerate().map(async |(at, claims)| {
        let outcome = if at % 2 == 0 { done() } else { retry(SECOND) };
        one.settle(claims, &outcome).await
    }))
    .await;
    for (at, settled) in settled.iter().enumerate() {
        let stale = if at == 0 { vec![claimed[0][0].event.id] } else { Vec::new() };
        assert_eq!((settled.settled, &settled.stale), (usize::from(at > 0), &stale));
    }
    let counts = one.count().await;
    assert_eq!((counts.sent as usize, counts.pending() as usize), (TURNS / 2, TURNS / 2));
    ground.clock().advance(SECOND);
    let again = join_all((0..TURNS).map(|_| one.claim(1))).await.concat();
    let again: BTreeSet<EventId> = again.iter().map(|claim| claim.event.id).collect();
    let refused = claimed.iter().skip(1).step_by(2).map(|claims| claims[0].event.id);
    assert_eq!(again, refused.collect(), "what was refused comes again, to whoever asks");
}
