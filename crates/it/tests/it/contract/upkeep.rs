//! Upkeep beside whole relays at work: it trims history and memory while they claim and settle, and
//! the server never has to end one of them for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use event::{
    Begun, Cause, Chores, Claim, Code, Event, EventId, InboxEnd, Keep, Order, Outcome, Receipt,
    Source, Topics, Want,
};
use it::instance::Instance;
use it::session::Session;
use it::site::Site;
use store::{Lane, Outbox, Setup, Strategy};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);
const RELAYS: usize = 3;
const EVENTS: usize = 1500;
/// Small steps, so that there are many.
const KEEP: Keep =
    Keep { sent: Duration::ZERO, inbox: Duration::ZERO, step: 20, lease: Duration::from_secs(60) };
/// A relay looks for others within a third of a lease, and shards go from one to another.
const WANT: Want = Want { limit: 25, bytes: 1 << 20, lease: Duration::from_secs(3) };

/// How a server of one's own tells how many deadlocks it has found since it began.
async fn deadlocks(session: &mut Session, server: &str) -> i64 {
    let ask = match server {
        "mysql" => {
            "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics \
             WHERE name = 'lock_deadlocks'"
        }
        "mariadb" | "mariadb-10.5" => {
            "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
             WHERE variable_name = 'Innodb_deadlocks'"
        }
        _ => "SELECT sum(deadlocks)::bigint FROM pg_stat_database",
    };
    session.number(ask).await.unwrap()
}

/// Counts the sessions of others, where one tells its part of a count only when it ends.
async fn others(session: &mut Session) -> i64 {
    let ask = "SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    session.number(ask).await.unwrap()
}

/// Claims and settles, mostly well, until it is over.
async fn work(lane: Arc<dyn Source>, settled: Arc<AtomicUsize>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::SeqCst) {
        let claims = lane.claim(&WANT).await.unwrap();
        let outcome = |claim: &Claim| match fastrand::u8(..10) {
            0 => Outcome::Release { after: Duration::ZERO },
            1 if claim.attempt < 3 => {
                let cause = Cause::new(Code::SinkBusy, "so it goes");
                Outcome::Retry { after: Duration::from_millis(fastrand::u64(..20)), cause }
            }
            _ => Outcome::Done(Receipt { broker_id: None }),
        };
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(outcome(claim))).collect();
        let done = lane.settle(&ends).await.unwrap().settled;
        settled.fetch_add(done, Ordering::SeqCst);
        if claims.is_empty() {
            lane.wait(Duration::from_millis(5)).await;
        }
    }
}

/// Puts every event, and takes each in as a consumer does.
async fn put(outbox: Arc<dyn Outbox>) {
    let inbox = outbox.inbox();
    for _ in 0..EVENTS / 15 {
        let event = || Event::new("t", "T", "{}").key(fastrand::u8(..40).to_string());
        let events: Vec<Event> = (0..15).map(|_| event()).collect();
        outbox.put(&events, None).await.unwrap();
        let id: EventId = events[0].id;
        let Begun::Go(fence) = inbox.begin("g", id, KEEP.lease).await.unwrap() else {
            panic!("nobody else takes it in")
        };
        assert!(inbox.finish("g", id, fence, InboxEnd::Processed).await.unwrap());
    }
}

/// Trims without a pause until it is over. Returns how many rows went.
async fn trim(chores: Arc<dyn Chores>, over: Arc<AtomicBool>) -> (u64, u64) {
    let (mut sent, mut inbox) = (0, 0);
    while !over.load(Ordering::SeqCst) {
        let swept = chores.sweep(&KEEP).await.unwrap();
        (sent, inbox) = (sent + swept.sent, inbox + swept.inbox);
    }
    (sent, inbox)
}

async fn upkeep_beside_claims_and_settlements_meets_no_deadlock(
    server: &str,
    strategies: &[Strategy],
) {
    let instance = Instance::start(server).unwrap();
    Site::on(&instance.url, PATIENCE).await.unwrap();
    for strategy in strategies {
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup { table, strategy: *strategy, ..Setup::new(&*instance.url) };
        let mut session = Session::open(&setup.url).await.unwrap();
        let before = deadlocks(&mut session, server).await;
        let is_postgres = session.is_postgres();
        let sessions = if is_postgres { others(&mut session).await } else { 0 };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let (over, mut works) = (Arc::<AtomicBool>::default(), JoinSet::new());
        let (mut handles, mut parts) = (vec![outbox.clone()], Vec::new());
        for _ in 0..RELAYS {
            let relay = store::open(&setup).await.unwrap();
            let lane = relay.lane(Lane { topics: Topics::all(), order: Order::Hold });
            let settled = Arc::<AtomicUsize>::default();
            works.spawn(work(lane, settled.clone(), over.clone()));
            handles.push(relay);
            parts.push(settled);
        }
        let trimming = tokio::spawn(trim(outbox.chores(), over.clone()));
        let catalog = outbox.catalog();
        tokio::time::timeout(PATIENCE, async {
            let mut count = 0;
            while count == 0 || parts.iter().any(|part| part.load(Ordering::SeqCst) == 0) {
                put(outbox.clone()).await;
                count += EVENTS as u64;
            }
            while catalog.count().await.unwrap().sent < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("every relay settles something, and everything is published");
        over.store(true, Ordering::SeqCst);
        let trimmed = trimming.await.unwrap();
        while let Some(ended) = works.join_next().await {
            ended.unwrap();
        }
        assert!(trimmed.0 > 100 && trimmed.1 > 10, "{strategy:?}: only {trimmed:?} were trimmed");
        for handle in handles {
            handle.close().await;
        }
        tokio::time::timeout(PATIENCE, async {
            while is_postgres && others(&mut session).await > sessions {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("its sessions end");
        let found = deadlocks(&mut session, server).await - before;
        assert_eq!(found, 0, "deadlocks beside upkeep with {strategy:?}");
    }
}

/// Makes a test of each server, with these strategies.
macro_rules! servers {
    ($($name:ident = $server:literal $($strategy:ident)+,)+) => {
        mod upkeep_meets_no_deadlock_on {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let strategies = [$(Strategy::$strategy),+];
                    upkeep_beside_claims_and_settlements_meets_no_deadlock($server, &strategies)
                        .await;
                }
            )+
        }
    };
}

servers! {
    postgres = "postgres" Own SkipLocked Cas,
    postgres_18 = "postgres-18" Own SkipLocked,
    mysql = "mysql" Own SkipLocked Cas Preempt,
    mariadb = "mariadb" Own SkipLocked Preempt,
    mariadb_10_5 = "mariadb-10.5" Own Cas,
}
