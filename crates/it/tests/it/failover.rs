//! A failover to a replica that had fallen behind: the address leads to another server, the newest
//! commits are gone, and their numbers are drawn again. Nothing that the new server has may wait. A
//! server that recovers from the death of one of its processes has lost the newest commits as well.

mod read_only;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{
    Cause, Claim, Code, EventId, Order, Outcome, Receipt, Source, StoreError, Topics, Want,
};
use it::instance::Instance;
use it::session::Session;
use it::site::Site;
use rustix::process::{Pid, Signal, kill_process};
use store::{Lane, Setup, Strategy};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the test, so that a lease which runs out does not let everything be read anew.
const LEASE: Duration = Duration::from_secs(600);
const WANT: Want = Want { limit: 1000, bytes: 16 << 20, lease: LEASE };

/// Events that came, and the numbers under which they stood in line.
type Came = BTreeMap<EventId, i64>;

/// Makes a test of each kind of server and of relays.
macro_rules! failovers {
    ($(fn $test:ident = $server:literal $strategy:ident,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                events_flow_after_a_failover($server, Strategy::$strategy).await;
            }
        )+
    };
}

failovers! {
    fn events_flow_after_a_failover_of_postgres = "postgres" Own,
    fn events_flow_after_a_failover_of_mysql = "mysql" Own,
    fn events_flow_after_a_failover_of_mariadb = "mariadb" Own,
    fn competing_relays_go_on_after_a_failover_of_postgres = "postgres" SkipLocked,
    fn competing_relays_go_on_after_a_failover_of_mysql = "mysql" SkipLocked,
}

async fn events_flow_after_a_failover(server: &str, strategy: Strategy) {
    let mut instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let setup = Setup { strategy, ..Setup::new(&*instance.url) };
    let outbox = store::open(&setup).await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
    site.put(20, 7).await.unwrap();
    assert_eq!(drain(&lane).await.unwrap().len(), 20);

    instance.copy().unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    site.put(200, 7).await.unwrap();
    // What was settled just before the kill may come again: such commits wait for no disk.
    let before = once_it_answers(&lane, &mut Vec::new()).await;
    assert!(before.len() >= 200);

    instance.fail_over().unwrap();
    promote(&instance.url, server).await;
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let events = site.put(50, 7).await.unwrap();
    let mut errors = Vec::new();
    let came = once_it_answers(&lane, &mut errors).await;
    let there: BTreeSet<EventId> = events.iter().map(|event| event.id).collect();
    let missing = there.iter().filter(|id| !came.contains_key(*id)).count();
    assert_eq!(missing, 0, "{missing} of {} did not come", there.len());
    let known: BTreeSet<i64> = before.values().copied().filter(|number| *number > 0).collect();
    let again = there.iter().filter(|id| known.contains(&came[*id])).count();
    assert!(again > 0, "no number was drawn again: up to {:?}", known.last());
    assert!(errors.iter().any(|error| error.contains("another server")), "{errors:?}");
}

#[tokio::test]
async fn what_a_crash_of_a_process_of_postgres_undid_is_claimed_again() {
    what_a_crash_undid_is_claimed_again("postgres").await;
}

/// Its statistics are told by a process of its own.
#[tokio::test]
async fn what_a_crash_of_a_process_of_postgres_13_undid_is_claimed_again() {
    what_a_crash_undid_is_claimed_again("postgres-13").await;
}

#[tokio::test]
async fn what_a_crash_of_a_process_of_postgres_18_undid_is_claimed_again() {
    what_a_crash_undid_is_claimed_again("postgres-18").await;
}

async fn what_a_crash_undid_is_claimed_again(server: &str) {
    // So seldom is written down what no commit waits for.
    let instance = Instance::start_with(server, &["-c", "wal_writer_delay=10s"]).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let outbox = store::open(&Setup::new(&*instance.url)).await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
    let until = Instant::now() + PATIENCE;
    loop {
        site.put(20, 7).await.unwrap();
        once_it_answers(&lane, &mut Vec::new()).await;
        // Its commit waits for the disk, and so for that of the lease.
        let id = site.put(1, 1).await.unwrap()[0].id;
        let claims = lane.claim(&WANT).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.event.id).collect::<Vec<_>>(), [id]);
        let mut session = Session::open(&instance.url).await.unwrap();
        let victim = Session::open(&instance.url).await.unwrap();
        let cause = Cause::new(Code::SinkDown, "nobody answers");
        let retry = Outcome::Retry { after: Duration::from_millis(1), cause };
        lane.settle(&[claims[0].end(retry)]).await.unwrap();
        crash(victim).await;
        while session.run("SELECT 1").await.is_ok() {
            assert!(Instant::now() < until, "the server does not notice");
        }
        let mut session = opened(&instance.url).await;
        let hot = format!("SELECT count(*) FROM outbox WHERE event_id = '{id}'");
        let lost = session.number(hot).await.unwrap() == 1;
        let mut errors = Vec::new();
        let came = once_it_answers(&lane, &mut errors).await;
        assert!(!lost || came.contains_key(&id), "its retry is lost and it waits: {errors:?}");
        assert!(errors.iter().any(|error| error.contains("another server")), "{errors:?}");
        if lost {
            return;
        }
        // It was just written down.
        assert!(Instant::now() < until, "no commit was ever lost");
    }
}

/// Kills the process of a session, as one who is out of memory does.
async fn crash(mut session: Session) {
    let process = session.number("SELECT pg_backend_pid()::bigint").await.unwrap();
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(process.expect("a process has a number"), Signal::KILL).unwrap();
}

/// Drains a lane whose server may have to be reached anew. Its errors are for a while only.
async fn once_it_answers(lane: &Arc<dyn Source>, errors: &mut Vec<String>) -> Came {
    let until = Instant::now() + PATIENCE;
    loop {
        match drain(lane).await {
            Ok(came) => return came,
            Err(StoreError::Down(cause)) => errors.push(cause.to_string()),
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < until, "{errors:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Claims and settles until nothing is handed out.
async fn drain(lane: &Arc<dyn Source>) -> Result<Came, StoreError> {
    let mut came = Came::new();
    loop {
        let claims = lane.claim(&WANT).await?;
        if claims.is_empty() {
            return Ok(came);
        }
        let number = |claim: &Claim| claim.event.sequence.map_or(0, |sequence| sequence.number());
        came.extend(claims.iter().map(|claim| (claim.event.id, number(claim))));
        let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
        lane.settle(&claims.iter().map(done).collect::<Vec<_>>()).await?;
    }
}

/// Lets a standby take writes, once it answers. Others take them as soon as they are there.
async fn promote(url: &str, server: &str) {
    if !server.starts_with("postgres") {
        return;
    }
    opened(url).await.run("SELECT pg_promote()").await.unwrap();
}

/// Opens a session once the server answers.
async fn opened(url: &str) -> Session {
    let until = Instant::now() + PATIENCE;
    loop {
        match Session::open(url).await {
            Ok(session) => return session,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
