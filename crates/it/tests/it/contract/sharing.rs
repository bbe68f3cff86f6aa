//! Relays share the shards of an outbox: whoever comes gets a share, and nothing is claimed twice
//! for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Event, EventId, Outcome, Receipt, Source, Topics, Want};
use it::world::need;
use store::{Lane, Outbox, Setup};

const LEASE: Duration = Duration::from_millis(900);

struct Relay {
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    shards: HashSet<u16>,
}

async fn relay(setup: &Setup) -> Relay {
    let outbox = store::open(setup).await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    Relay { outbox, lane, shards: HashSet::new() }
}

impl Relay {
    /// Claims and settles once. Returns what it published.
    async fn turn(&mut self) -> Vec<EventId> {
        let want = Want { limit: 100, bytes: 1 << 20, lease: LEASE };
        let claims = self.lane.claim(&want).await.unwrap();
        self.shards = claims.iter().map(|claim| claim.address.shard).collect();
        let done = Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done.clone())).collect();
        assert_eq!(self.lane.settle(&ends).await.unwrap().stale, []);
        claims.iter().map(|claim| claim.event.id).collect()
    }
}

async fn put(outbox: &dyn Outbox) -> Vec<EventId> {
    let events: Vec<Event> =
        (0..200).map(|n| Event::new("t", "T", "{}").key(n.to_string())).collect();
    outbox.put(&events, None).await.unwrap();
    events.iter().map(|event| event.id).collect()
}

async fn a_relay_that_comes_gets_its_share_and_one_that_goes_leaves_it_to_the_others(server: &str) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, ..Setup::new(need(server).detail("url")) };
    let (mut one, mut other) = (relay(&setup).await, relay(&setup).await);
    one.outbox.migrate().await.unwrap();
    let (mut put_down, mut published) = (HashSet::new(), Vec::new());
    let until = Instant::now() + Duration::from_secs(20);
    while one.shards.len() != 8 || other.shards.len() != 8 {
        assert!(Instant::now() < until, "{} and {}", one.shards.len(), other.shards.len());
        put_down.extend(put(&*one.outbox).await);
        for relay in [&mut one, &mut other] {
            // All that there is, so that the next turn shows every shard of the relay.
            let mut shards = HashSet::new();
            loop {
                let came = relay.turn().await;
                shards.extend(relay.shards.drain());
                if came.is_empty() {
                    break;
                }
                published.extend(came);
            }
            relay.shards = shards;
        }
    }
    assert!(one.shards.is_disjoint(&other.shards));
    other.lane.release().await.unwrap();
    put_down.extend(put(&*one.outbox).await);
    loop {
        let came = one.turn().await;
        if came.is_empty() {
            break;
        }
        published.extend(came);
    }
    let all: HashSet<EventId> = published.iter().copied().collect();
    assert_eq!((published.len(), all == put_down), (put_down.len(), true), "each once");
}

servers!(a_relay_that_comes_gets_its_share_and_one_that_goes_leaves_it_to_the_others);
