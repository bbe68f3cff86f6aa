//! Relays that compete and meet at the same later rows: none is claimed twice, and each counts what
//! it had chosen and the other was quicker to claim.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Aside, Claim, Event, Millis, Outcome, Receipt, Source, Topics, Want};
use futures_util::future::join;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

const PATIENCE: Duration = Duration::from_secs(60);
/// How many rows are due in each round, and all of them fit into one claim.
const ROWS: usize = 40;
const WANT: Want = Want { limit: 4 * ROWS, bytes: 1 << 20, lease: Duration::from_secs(600) };

struct Relay {
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
}

impl Relay {
    async fn new(setup: &Setup) -> Relay {
        let outbox = store::open(setup).await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        Relay { outbox, lane }
    }

    /// Claims once, and publishes what came.
    async fn claim(&self) -> Vec<Claim> {
        let claims = self.lane.claim(&WANT).await.unwrap();
        let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
        let ends: Vec<_> = claims.iter().map(done).collect();
        assert_eq!(self.lane.settle(&ends).await.unwrap().stale, []);
        claims
    }
}

async fn who_meets_another_counts_what_that_one_was_quicker_to_claim(
    server: &str,
    strategy: Strategy,
) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, strategy, shards: 1, ..Setup::new(need(server).detail("url")) };
    let first = store::open(&setup).await.unwrap();
    first.migrate().await.unwrap();
    first.close().await;
    let (one, other) = (Relay::new(&setup).await, Relay::new(&setup).await);
    assert_eq!((one.claim().await, one.lane.aside()), (vec![], Aside::default()));
    let (until, mut outrun, mut came, mut put) = (Instant::now() + PATIENCE, 0, HashSet::new(), 0);
    while outrun == 0 {
        assert!(Instant::now() < until, "they never met");
        let events: Vec<Event> = (0..ROWS).map(|_| Event::new("t", "T", "{}")).collect();
        one.outbox.put(&events, Some(Millis(1))).await.unwrap();
        put += ROWS;
        while came.len() < put {
            assert!(Instant::now() < until, "{} of {put} came", came.len());
            let (mine, its) = join(one.claim(), other.claim()).await;
            let claims = mine.iter().chain(&its);
            claims.for_each(|claim| assert!(came.insert(claim.event.id), "it came twice"));
            outrun += one.lane.aside().outrun + other.lane.aside().outrun;
        }
    }
    assert_eq!((one.lane.aside().outrun, other.lane.aside().outrun), (0, 0), "it is told once");
    one.outbox.close().await;
    other.outbox.close().await;
}

macro_rules! tests {
    ($($name:ident = $server:literal $strategy:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                who_meets_another_counts_what_that_one_was_quicker_to_claim(
                    $server,
                    Strategy::$strategy,
                )
                .await;
            }
        )+
    };
}

tests! {
    where_postgres_skips = "postgres" SkipLocked,
    where_postgres_waits = "postgres" Cas,
    where_mysql_skips = "mysql" SkipLocked,
    where_mariadb_skips = "mariadb" SkipLocked,
    where_mariadb_10_5_waits = "mariadb-10.5" Cas,
}
