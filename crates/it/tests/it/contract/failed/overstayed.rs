//! Turns that overstay: what they had in flight is set down where that can be, and it costs nobody
//! else anything.

use std::time::{Duration, Instant};

use event::{Claim, Event, Settled};
use it::clock::HandClock;
use tokio::task::JoinHandle;

use super::place::{Place, WANT, done, end};

/// What waits for a lease, or for a row, waits for five seconds.
const AT_ONCE: Duration = Duration::from_secs(4);

tests! {
    a_turn_that_overstays_and_cannot_be_set_down_takes_nothing_from_others
    what_overstays_is_set_down_where_nobody_has_the_lease_open
    a_lane_looks_now_and_then_for_a_lease_that_another_has_open
    an_outcome_that_comes_while_its_row_is_set_down_in_vain_is_written_down
    an_outcome_that_comes_while_its_row_is_set_down_is_stale_when_that_is_done
}

/// A turn that has overstayed, and one beside it that has not.
struct Overstayed {
    place: Place,
    slow: Vec<Claim>,
    quick: Vec<Claim>,
    /// How many were sent by others.
    sent: usize,
}

impl Overstayed {
    /// Lets a turn overstay with an event of each key. The leases run on.
    async fn of(server: &str, keys: usize) -> Overstayed {
        let clock = HandClock::new();
        let place = Place::at(server, clock.hand()).await;
        place.put(0..keys, 1).await;
        let slow = place.claim().await;
        assert_eq!(slow.len(), keys);
        clock.advance(WANT.lease / 2);
        // Beside it, of the same shard and of no key.
        let quick = loop {
            place.outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap();
            let quick = place.claim().await;
            if quick[0].address.shard == slow[0].address.shard {
                break quick;
            }
            end(&place.lane, &quick, &done()).await;
        };
        let sent = usize::try_from(place.outbox.catalog().count().await.unwrap().sent).unwrap();
        clock.advance(WANT.lease / 2);
        Overstayed { place, slow, quick, sent }
    }

    /// Opens the lease of the first event, until the session commits.
    async fn shut(&mut self) {
        self.place.hold(&format!("shard = {}", self.slow[0].address.shard)).await;
    }

    /// Claims while another has the first row open: that can be set down only after a while, and
    /// meanwhile the outcome of it comes. Nobody else waits for either.
    async fn settle_meanwhile(
        &mut self,
    ) -> (JoinHandle<Result<Vec<Claim>, event::StoreError>>, JoinHandle<Settled>) {
        self.place.begin().await;
        let (table, row) = (&self.place.table, self.slow[0].address);
        let row = format!("shard = {} AND seq = {}", row.shard, row.number);
        let open = format!("SELECT 1 FROM {table} WHERE {row} FOR UPDATE");
        self.place.session.run(open).await.unwrap();
        let lane = self.place.lane.clone();
        let claiming = tokio::spawn(async move { lane.claim(&WANT).await });
        self.place.until_somebody_waits().await;
        let (lane, slow) = (self.place.lane.clone(), self.slow.clone());
        let settling = tokio::spawn(async move { end(&lane, &slow, &done()).await });
        let settled = end(&self.place.lane, &self.quick, &done()).await;
        assert_eq!((settled.settled, settled.stale), (1, vec![]));
        // It asks no server before it waits, so it has come to that by now.
        assert!(!settling.is_finished(), "nobody knows yet whether it is stale");
        (claiming, settling)
    }
}

/// Whatever has outlived its lease, the others have not.
async fn a_turn_that_overstays_and_cannot_be_set_down_takes_nothing_from_others(server: &str) {
    let mut turns = Overstayed::of(server, 1).await;
    turns.shut().await;
    let claims = tokio::time::timeout(AT_ONCE, turns.place.claim()).await;
    assert_eq!(claims.expect("nobody waits for the lease"), [], "nothing else waits");
    turns.place.let_go().await;
    let Overstayed { place, slow, quick, sent } = turns;
    let settled = end(&place.lane, &quick, &done()).await;
    assert_eq!((settled.settled, settled.stale), (1, vec![]));
    let came = place.drain(sent + 2).await;
    assert_eq!(came, [(slow[0].event.id, 2)], "only what overstayed comes again");
    assert_eq!(end(&place.lane, &slow, &done()).await.settled, 0);
    place.end().await;
}

/// What can be set down is, and the rest is when the lease can be had.
async fn what_overstays_is_set_down_where_nobody_has_the_lease_open(server: &str) {
    let mut turns = Overstayed::of(server, 40).await;
    turns.shut().await;
    let shut = turns.slow[0].address.shard;
    let (waits, mut set_down): (Vec<Claim>, Vec<Claim>) =
        turns.slow.clone().into_iter().partition(|claim| claim.address.shard == shut);
    assert!(!waits.is_empty() && !set_down.is_empty());
    let fresh = turns.place.put(0..200, 1).await;
    let ids = |claims: &[Claim]| {
        let mut ids: Vec<_> = claims.iter().map(|claim| (claim.event.id, claim.attempt)).collect();
        ids.sort_unstable();
        ids
    };
    let claims = tokio::time::timeout(AT_ONCE, turns.place.claim()).await;
    let claims = claims.expect("nobody waits for the lease");
    set_down.iter_mut().for_each(|claim| claim.attempt = 2);
    let (again, new): (Vec<Claim>, Vec<Claim>) =
        claims.iter().cloned().partition(|claim| !fresh.contains(&claim.event.id));
    assert_eq!(ids(&again), ids(&set_down));
    assert!(!new.is_empty() && new.iter().all(|claim| claim.address.shard != shut));
    let Overstayed { mut place, slow, quick, sent } = turns;
    let settled = end(&place.lane, &claims, &done()).await;
    assert_eq!((settled.settled, settled.stale), (claims.len(), vec![]));
    place.let_go().await;
    assert_eq!(end(&place.lane, &quick, &done()).await.settled, 1);
    let mut came = place.drain(sent + 1 + slow.len() + fresh.len()).await;
    came.retain(|(id, _)| !fresh.contains(id));
    came.sort_unstable();
    let waited: Vec<Claim> = waits.into_iter().map(|claim| Claim { attempt: 2, ..claim }).collect();
    assert_eq!(came, ids(&waited), "each once");
    assert_eq!(end(&place.lane, &slow, &done()).await.settled, 0);
    place.end().await;
}

/// Whoever has the lease open may have it for long, and the server has other things to do.
async fn a_lane_looks_now_and_then_for_a_lease_that_another_has_open(server: &str) {
    let mut turns = Overstayed::of(server, 1).await;
    turns.shut().await;
    let (began, mut looks) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(2) {
        assert_eq!(turns.place.claim().await, []);
        turns.place.lane.wait(Duration::from_secs(1)).await;
        looks += 1;
    }
    assert!(looks < 15, "{looks} looks");
    turns.place.let_go().await;
    let Overstayed { place, slow, quick, sent } = turns;
    assert_eq!(end(&place.lane, &quick, &done()).await.settled, 1);
    assert_eq!(place.drain(sent + 2).await, [(slow[0].event.id, 2)]);
    place.end().await;
}

/// Nothing was changed, so it is as good as ever.
async fn an_outcome_that_comes_while_its_row_is_set_down_in_vain_is_written_down(server: &str) {
    let mut turns = Overstayed::of(server, 1).await;
    let (claiming, settling) = turns.settle_meanwhile().await;
    turns.place.give_up_who_waits().await;
    assert_eq!(claiming.await.unwrap().unwrap(), [], "it could not be set down");
    turns.place.let_go().await;
    let settled = settling.await.unwrap();
    assert_eq!((settled.settled, settled.stale), (1, vec![]));
    let Overstayed { place, sent, .. } = turns;
    let counts = place.outbox.catalog().count().await.unwrap();
    assert_eq!((counts.sent, counts.pending()), (sent as u64 + 2, 0));
    place.end().await;
}

/// The row is another claim's from then on.
async fn an_outcome_that_comes_while_its_row_is_set_down_is_stale_when_that_is_done(server: &str) {
    let mut turns = Overstayed::of(server, 1).await;
    let (claiming, settling) = turns.settle_meanwhile().await;
    turns.place.let_go().await;
    let claims = claiming.await.unwrap().unwrap();
    let settled = settling.await.unwrap();
    let Overstayed { place, slow, sent, .. } = turns;
    let id = slow[0].event.id;
    assert_eq!((settled.settled, settled.stale), (0, vec![id]));
    let claimed: Vec<_> = claims.iter().map(|claim| (claim.event.id, claim.attempt)).collect();
    assert_eq!(claimed, [(id, 2)]);
    assert_eq!(end(&place.lane, &claims, &done()).await.settled, 1);
    let counts = place.outbox.catalog().count().await.unwrap();
    assert_eq!((counts.sent, counts.pending()), (sent as u64 + 2, 0));
    place.end().await;
}
