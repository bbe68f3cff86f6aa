//! Relays that compete for the rows of a PostgreSQL outbox: who waits for what another has open,
//! nobody misses it, and nobody else claims in another way.

use std::sync::Arc;
use std::time::Duration;

use event::{Claim, Code, Event, Outcome, Receipt, Source, StoreError, Topics, Want};
use it::world::need;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store::{Lane, Outbox, Setup, Strategy};

const LEASE: Duration = Duration::from_secs(30);

struct Relay {
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
}

async fn relay(setup: &Setup, strategy: Strategy) -> Relay {
    let setup = Setup { strategy, ..setup.clone() };
    let outbox = store::open(&setup).await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    Relay { outbox, lane }
}

impl Relay {
    async fn ask(&self, limit: usize) -> Result<Vec<Claim>, StoreError> {
        self.lane.claim(&Want { limit, bytes: 1 << 20, lease: LEASE }).await
    }

    async fn claim(&self, limit: usize) -> Vec<Claim> {
        self.ask(limit).await.unwrap()
    }

    async fn refused(&self) -> String {
        let refused = self.ask(10).await.unwrap_err();
        assert_eq!(refused.cause().code, Code::ConfigInvalid, "{refused}");
        assert!(matches!(refused, StoreError::Broken(_)), "{refused}");
        refused.to_string()
    }

    async fn put(&self, count: usize) {
        let events: Vec<Event> = (0..count).map(|_| Event::new("t", "T", "{}")).collect();
        self.outbox.put(&events, None).await.unwrap();
    }

    async fn end(&self, claims: &[Claim], outcome: Outcome) {
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(outcome.clone())).collect();
        assert_eq!(self.lane.settle(&ends).await.unwrap().stale, []);
    }

    async fn publish(&self, claims: &[Claim]) {
        self.end(claims, Outcome::Done(Receipt { broker_id: None })).await;
    }
}

/// Makes an outbox of one shard, where everybody meets.
async fn outbox() -> Setup {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, shards: 1, ..Setup::new(need("postgres").detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.close().await;
    setup
}

#[tokio::test]
async fn a_claim_that_skips_waits_for_no_later_row_and_finds_at_once_what_another_left() {
    let setup = outbox().await;
    let one = relay(&setup, Strategy::SkipLocked).await;
    one.put(10).await;
    let refused = one.claim(10).await;
    let cause = event::Cause::new(Code::SinkBusy, "so it goes");
    one.end(&refused, Outcome::Retry { after: Duration::ZERO, cause }).await;
    let mut conn = PgConnection::connect(&setup.url).await.unwrap();
    // A claim that waited would fail: these stay open until it is over.
    sqlx::raw_sql("BEGIN").execute(&mut conn).await.unwrap();
    let table = &setup.table;
    let first = format!("SELECT 1 FROM {table}_later ORDER BY due_at, number LIMIT 3 FOR UPDATE");
    sqlx::raw_sql(AssertSqlSafe(first)).execute(&mut conn).await.unwrap();
    assert_eq!(one.claim(20).await.len(), 7, "those that were due first are open");
    assert_eq!(one.lane.aside().outrun, 3, "they were chosen, and not claimed");
    sqlx::raw_sql("ROLLBACK").execute(&mut conn).await.unwrap();
    assert_eq!((one.claim(20).await.len(), one.lane.aside().outrun), (3, 0), "it was told once");
}

#[tokio::test]
async fn a_claim_that_does_not_skip_waits_for_the_other_and_finds_that_its_fence_has_moved() {
    let setup = outbox().await;
    let one = relay(&setup, Strategy::Cas).await;
    one.put(4).await;
    assert_eq!(one.claim(1).await.len(), 1);
    let mut conn = PgConnection::connect(&setup.url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut conn).await.unwrap();
    let lease = format!("{}_lease", setup.table);
    let win = format!("UPDATE {lease} SET fence = fence + 1 WHERE shard = 0");
    sqlx::raw_sql(AssertSqlSafe(win)).execute(&mut conn).await.unwrap();
    let (claims, ()) = tokio::join!(one.claim(10), async {
        loop {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN \
                           (SELECT pid FROM pg_locks WHERE relation = $1::text::regclass)";
            let query = sqlx::query_scalar::<_, i64>(waiting).bind(&lease);
            if query.fetch_one(&mut conn).await.unwrap() > 0 {
                break;
            }
        }
        sqlx::raw_sql("COMMIT").execute(&mut conn).await.unwrap();
    });
    assert_eq!(claims, [], "the other was quicker");
    assert_eq!(one.claim(10).await.len(), 3, "and took nothing");
}

#[tokio::test]
async fn relays_that_own_and_relays_that_compete_refuse_to_work_side_by_side() {
    let setup = outbox().await;
    let (own, free) =
        (relay(&setup, Strategy::Own).await, relay(&setup, Strategy::SkipLocked).await);
    own.put(2).await;
    let claims = own.claim(1).await;
    let refused = free.refused().await;
    assert!(refused.contains("claimed with strategy own"), "{refused}");
    assert!(refused.contains("this relay has skip_locked"), "{refused}");
    own.publish(&claims).await;
    free.refused().await;
    own.lane.release().await.unwrap();

    let claims = free.claim(1).await;
    assert_eq!(claims.len(), 1, "nobody leases anything, and nothing is in flight");
    own.put(1).await;
    let told = own.refused().await;
    assert!(told.contains("was changed to skip_locked while this relay with own ran"), "{told}");
    let also = relay(&setup, Strategy::Cas).await;
    also.put(1).await;
    assert_eq!(also.claim(1).await.len(), 1, "those that compete go together");
    also.lane.release().await.unwrap();
    let late = relay(&setup, Strategy::Own).await;
    assert!(late.refused().await.contains("claimed with strategy skip_locked"));
    free.publish(&claims).await;
    late.refused().await;
    free.lane.release().await.unwrap();
    let claims = late.claim(10).await;
    assert_eq!(claims.len(), 2, "nobody is there, and nothing is in flight");
    assert!(claims.iter().all(|claim| claim.attempt == 1), "what was claimed was released");
    late.put(1).await;
    let told = free.refused().await;
    assert!(told.contains("was changed to own while this relay with skip_locked ran"), "{told}");
    assert_eq!(own.claim(10).await, [], "the lease is another's now");
    late.publish(&claims).await;
    late.publish(&late.claim(10).await).await;
    let counts = late.outbox.catalog().count().await.unwrap();
    assert_eq!((counts.sent, counts.pending()), (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_that_begin_at_once_agree_on_the_strategy() {
    for _ in 0..10 {
        let setup = outbox().await;
        let first = relay(&setup, Strategy::SkipLocked).await;
        first.put(40).await;
        let mut asking = tokio::task::JoinSet::new();
        for turn in 0..8 {
            let strategy = [Strategy::SkipLocked, Strategy::Cas][turn % 2];
            let one = relay(&setup, strategy).await;
            asking.spawn(async move { one.claim(5).await.len() });
        }
        assert!(asking.join_all().await.iter().sum::<usize>() > 0);
    }
}

#[tokio::test]
async fn what_a_dead_owner_had_in_flight_is_unexplained_when_others_come_to_compete() {
    let setup = outbox().await;
    let own = relay(&setup, Strategy::Own).await;
    own.put(1).await;
    let short = Want { limit: 1, bytes: 1, lease: Duration::from_millis(300) };
    assert_eq!(own.lane.claim(&short).await.unwrap().len(), 1);
    let free = relay(&setup, Strategy::Cas).await;
    let claims = loop {
        match free.ask(1).await {
            Ok(claims) if !claims.is_empty() => break claims,
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("strategy own"), "{error}"),
        }
    };
    assert_eq!((claims[0].attempt, claims[0].unexplained), (2, 1));
}

#[tokio::test]
async fn relays_cannot_compete_in_a_file() {
    for strategy in [Strategy::SkipLocked, Strategy::Cas, Strategy::Preempt] {
        let sqlite = Setup { strategy, ..Setup::new("sqlite:orders.sqlite3") };
        let refused = store::open(&sqlite).await.err().unwrap().to_string();
        assert!(refused.contains("a file has one writer at a time"), "{refused}");
    }
}
