//! Retries that fall due between a claim's look and the moment at which it opens its line, while
//! other claims of the lane wait to be made together with it.

use std::collections::BTreeSet;
use std::time::Duration;

use event::{Code, Event, EventId, Outcome, Receipt, Topics, Want};
use it::clock::HandClock;
use it::session::Session;
use it::world::need;
use store::{Lane, Setup, Strategy};

/// What these servers show of transactions is a copy that is 100 ms old, and stays so for whoever
/// looks more often.
const APART: Duration = Duration::from_millis(110);

const WANT: Want = Want { limit: 4, bytes: 1 << 20, lease: Duration::from_secs(1000) };

async fn claims_get_them_all_on(server: &str) {
    let clock = HandClock::new();
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup::new(need(server).detail("url"));
    let setup = Setup { table, shards: 1, strategy: Strategy::Preempt, now: clock.hand(), ..setup };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let put = async |count: usize| -> Vec<EventId> {
        let events: Vec<Event> = (0..count).map(|_| Event::new("t", "T", "{}")).collect();
        outbox.put(&events, None).await.unwrap();
        events.iter().map(|event| event.id).collect()
    };
    // One that was published, so that the relay says that it is there, and two that are refused.
    let mut all = put(3).await;
    let claims = lane.claim(&WANT).await.unwrap();
    let cause = event::Cause::new(Code::SinkBusy, "so it goes");
    let again = Outcome::Retry { after: Duration::from_secs(1), cause };
    let done = Outcome::Done(Receipt { broker_id: None });
    let ends = [claims[0].end(done), claims[1].end(again.clone()), claims[2].end(again)];
    lane.settle(&ends).await.unwrap();
    all.retain(|id| *id != claims[0].event.id);
    all.extend(put(3).await);

    // The relay takes its leave, which lasts until all claims wait; then their line is open.
    let mut gates = [open(&setup, "relay").await, open(&setup, "lease").await];
    let mut onlooker = Session::open(&setup.url).await.unwrap();
    let claim = || lane.claim(&WANT);
    let (_, one, two, three, ()) = tokio::join!(lane.release(), claim(), claim(), claim(), async {
        let [leave, line] = &mut gates;
        until_it_waits(&mut onlooker, &format!("{}_relay", setup.table)).await;
        leave.run("COMMIT").await.unwrap();
        until_it_waits(&mut onlooker, &format!("{}_lease", setup.table)).await;
        clock.advance(Duration::from_secs(1));
        line.run("COMMIT").await.unwrap();
    });
    let claimed = [one.unwrap(), two.unwrap(), three.unwrap()].concat();
    let came: BTreeSet<EventId> = claimed.iter().map(|claim| claim.event.id).collect();
    assert_eq!((came.len(), came), (claimed.len(), all.into_iter().collect()), "each to one turn");
}

/// Opens all rows of one of the outbox's tables.
async fn open(setup: &Setup, table: &str) -> Session {
    let mut session = Session::open(&setup.url).await.unwrap();
    let rows = format!("BEGIN; SELECT COUNT(*) FROM {}_{table} FOR UPDATE", setup.table);
    session.run(rows).await.unwrap();
    session
}

/// Waits until somebody waits for a row of a table.
async fn until_it_waits(session: &mut Session, table: &str) {
    let ask = format!(
        "SELECT COUNT(*) FROM information_schema.innodb_trx \
         WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%{table}%'"
    );
    let waiting = async {
        while session.number(&*ask).await.unwrap() == 0 {
            tokio::time::sleep(APART).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("somebody waits");
}

#[tokio::test]
async fn retries_that_fall_due_after_the_look_of_claims_made_together_are_claimed_on_mysql() {
    claims_get_them_all_on("mysql").await;
}

#[tokio::test]
async fn retries_that_fall_due_after_the_look_of_claims_made_together_are_claimed_on_mariadb() {
    claims_get_them_all_on("mariadb").await;
}
