//! Where commits wait for the disk, a settlement and the claim beside it are one; and a claim that
//! fails costs nobody a settlement.

use std::sync::Arc;
use std::time::Duration;

use event::{
    Claim, Event, Outcome, Receipt, Settled, Settlement, Source, StoreError, Topics, Want,
};
use futures_util::future::join;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup};

/// What a settlement and the claim beside it are told.
type Both = (Result<Settled, StoreError>, Result<Vec<Claim>, StoreError>);

const WANT: Want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(30) };

/// An outbox in which much waits, a lane that has claimed some of it, and a session of somebody
/// else.
struct Place {
    url: String,
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
        let events: Vec<Event> = (0..100).map(|_| Event::new("t", "T", "{}")).collect();
        outbox.put(&events, None).await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let mut claims = lane.claim(&WANT).await.unwrap();
        claims.extend(lane.claim(&WANT).await.unwrap());
        let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
        let ends: Vec<Settlement> = claims.iter().map(done).collect();
        assert_eq!(ends.len(), 20);
        let session = Session::open(&setup.url).await.unwrap();
        Place { url: setup.url, table, outbox, lane, ends, session }
    }

    /// Opens every row of a table of the outbox.
    async fn hold(&mut self, table: &str) {
        self.session.run("START TRANSACTION").await.unwrap();
        let sql = format!("SELECT COUNT(*) FROM {}_{table} FOR UPDATE", self.table);
        self.session.number(sql).await.unwrap();
    }

    /// Settles what is in flight, and claims beside it.
    fn both(&self) -> impl Future<Output = Both> + use<> {
        let (lane, ends) = (self.lane.clone(), self.ends.clone());
        async move { join(lane.settle(&ends), lane.claim(&WANT)).await }
    }

    /// Reads the fence of the newest claim, whoever has what open.
    async fn newest(&self) -> i64 {
        let mut session = Session::open(&self.url).await.unwrap();
        let sql = format!("SELECT MAX(fence) FROM {}_lease", self.table);
        let newest = session.number(sql).await.unwrap();
        session.close().await.unwrap();
        newest
    }

    async fn end(self) {
        self.session.commit().await.unwrap();
        self.lane.release().await.unwrap();
        self.outbox.close().await;
    }
}

async fn a_settlement_and_the_claim_beside_it_are_one_commit(server: &str) {
    let mut place = Place::new(server).await;
    let before = place.newest().await;
    place.hold("tally").await;
    let both = place.both();
    tokio::pin!(both);
    let early = tokio::time::timeout(Duration::from_secs(1), &mut both).await;
    assert!(early.is_err(), "the tallies are open elsewhere");
    assert_eq!(place.newest().await, before, "nothing is renewed by itself");
    place.session.run("COMMIT").await.unwrap();
    let (settled, claimed) = both.await;
    assert_eq!((settled.unwrap().settled, claimed.unwrap().len()), (20, 10));
    place.end().await;
}

async fn a_claim_that_fails_costs_nobody_a_settlement(server: &str) {
    let mut place = Place::new(server).await;
    place.hold("lease").await;
    let (settled, claimed) = place.both().await;
    assert!(matches!(claimed, Err(StoreError::Down(_))), "{claimed:?}");
    let settled = settled.unwrap();
    assert_eq!((settled.settled, settled.stale), (20, vec![]));
    place.session.run("COMMIT").await.unwrap();
    assert_eq!(place.outbox.catalog().count().await.unwrap().sent, 20);
    place.end().await;
}

macro_rules! tests {
    ($($test:ident)+) => {
        mod mysql {
            $(#[tokio::test]
            async fn $test() {
                super::$test("mysql").await;
            })+
        }

        mod mariadb {
            $(#[tokio::test]
            async fn $test() {
                super::$test("mariadb").await;
            })+
        }
    };
}

tests! {
    a_settlement_and_the_claim_beside_it_are_one_commit
    a_claim_that_fails_costs_nobody_a_settlement
}
