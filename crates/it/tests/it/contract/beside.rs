//! What goes on side by side: many outcomes are written down in two halves, and neither a half nor
//! a claim that fails costs anybody an event.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use event::{
    Claim, Event, EventId, Outcome, Receipt, Settlement, Source, StoreError, Topics, Want,
};
use futures_util::future::join;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup};

const EVENTS: usize = 400;
const WANT: Want = Want { limit: EVENTS / 2, bytes: 1 << 20, lease: Duration::from_secs(120) };

/// An outbox in which much waits, a lane that has claimed half of it, and a session of somebody
/// else.
struct Place {
    table: String,
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    ends: Vec<Settlement>,
    session: Session,
}

impl Place {
    async fn new(server: &str) -> Place {
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let events: Vec<Event> = (0..EVENTS).map(|_| Event::new("t", "T", "{}")).collect();
        outbox.put(&events, None).await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let ends = ends(&lane.claim(&WANT).await.unwrap());
        assert_eq!(ends.len(), WANT.limit);
        let session = Session::open(&setup.url).await.unwrap();
        Place { table, outbox, lane, ends, session }
    }

    /// Opens rows of a table of the outbox.
    async fn hold(&mut self, table: &str, rows: &str) {
        let begin = if self.session.is_postgres() { "BEGIN" } else { "START TRANSACTION" };
        self.session.run(begin).await.unwrap();
        let sql = format!("UPDATE {}_{table} SET shard = shard WHERE {rows}", self.table);
        self.session.run(sql).await.unwrap();
    }

    /// Returns the last shard of which something was claimed.
    fn last(&self) -> u16 {
        self.ends.iter().map(|end| end.address.shard).max().unwrap()
    }

    async fn sent(&self) -> i64 {
        i64::try_from(self.outbox.catalog().count().await.unwrap().sent).unwrap()
    }

    /// Claims and settles until nothing is left. Returns what came.
    async fn drain(&self) -> Vec<EventId> {
        let mut came = Vec::new();
        loop {
            let claims = self.lane.claim(&WANT).await.unwrap();
            if claims.is_empty() && self.sent().await == i64::try_from(EVENTS).unwrap() {
                return came;
            }
            came.extend(claims.iter().map(|claim| claim.event.id));
            self.lane.settle(&ends(&claims)).await.unwrap();
        }
    }

    async fn end(self) {
        self.session.commit().await.unwrap();
        self.lane.release().await.unwrap();
        self.outbox.close().await;
    }
}

fn ends(claims: &[Claim]) -> Vec<Settlement> {
    let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
    claims.iter().map(done).collect()
}

/// Whoever holds up one half holds up no more than that.
async fn many_outcomes_are_written_in_two_halves(server: &str) {
    let mut place = Place::new(server).await;
    place.hold("tally", &format!("shard = {}", place.last())).await;
    let settling = {
        let (lane, ends) = (place.lane.clone(), place.ends.clone());
        tokio::spawn(async move { lane.settle(&ends).await })
    };
    while place.sent().await == 0 {
        assert!(!settling.is_finished(), "nothing was written down: {:?}", settling.await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!settling.is_finished(), "a tally is open elsewhere");
    place.session.run("COMMIT").await.unwrap();
    let settled = settling.await.unwrap().unwrap();
    assert_eq!((settled.settled, settled.stale), (WANT.limit, vec![]));
    place.end().await;
}

/// What the one half wrote down stays; what the other did not is settled again, or comes again.
async fn a_half_that_fails_costs_no_event(server: &str) {
    let mut place = Place::new(server).await;
    let table = place.table.clone();
    let (full, last) = (format!("{table}_is_full"), place.last());
    let rule = format!("ADD CONSTRAINT {full} CHECK (shard <> {last} OR sent = 0)");
    place.session.run(format!("ALTER TABLE {table}_tally {rule}")).await.unwrap();
    let settled = place.lane.settle(&place.ends).await;
    assert!(matches!(settled, Err(StoreError::Broken(_))), "{settled:?}");
    let rule = format!("DROP CONSTRAINT {full}");
    place.session.run(format!("ALTER TABLE {table}_tally {rule}")).await.unwrap();
    let written = usize::try_from(place.sent().await).unwrap();
    assert!(written > 0 && written < WANT.limit, "{written}");
    let again = place.lane.settle(&place.ends).await.unwrap();
    if server != "postgres" {
        // It was undone, which a lone statement does not tell, and stays in hand.
        assert_eq!(again.settled, WANT.limit - written);
    }
    assert_eq!(again.settled + again.stale.len(), WANT.limit);
    let soon = tokio::time::timeout(WANT.lease / 2, place.drain()).await;
    let came = soon.expect("it comes long before its lease ends");
    assert_eq!(came.len(), EVENTS - written - again.settled, "each that was not written down");
    assert_eq!(came.iter().collect::<HashSet<_>>().len(), came.len(), "each once");
    place.end().await;
}

async fn a_claim_that_fails_costs_nobody_a_settlement(server: &str) {
    let mut place = Place::new(server).await;
    place.hold("lease", "shard >= 0").await;
    let (settled, claimed) = join(place.lane.settle(&place.ends), place.lane.claim(&WANT)).await;
    assert!(matches!(claimed, Err(StoreError::Down(_))), "{claimed:?}");
    let settled = settled.unwrap();
    assert_eq!((settled.settled, settled.stale), (WANT.limit, vec![]));
    place.session.run("COMMIT").await.unwrap();
    assert_eq!(place.sent().await, i64::try_from(WANT.limit).unwrap());
    place.end().await;
}

macro_rules! tests {
    ($server:ident: $($test:ident)+) => {
        mod $server {
            $(#[tokio::test]
            async fn $test() {
                super::$test(stringify!($server)).await;
            })+
        }
    };
    ($($test:ident)+) => {
        tests! { postgres: $($test)+ }
        tests! { mysql: $($test)+ }
        tests! { mariadb: $($test)+ }
    };
}

tests! {
    many_outcomes_are_written_in_two_halves
    a_half_that_fails_costs_no_event
    a_claim_that_fails_costs_nobody_a_settlement
}
