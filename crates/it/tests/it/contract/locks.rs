//! How many rows a claim has open, seen from another session while it is under way.

use std::time::Duration;

use event::{Event, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Setup, Strategy};

const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: i64 = 1000;
const CLAIMED: usize = 30;

/// Makes a test of each server and strategy: how many hot rows and how many lines are open.
macro_rules! claims {
    ($(fn $test:ident = $server:literal $strategy:ident $open:expr,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                assert_eq!(open_in_a_claim($server, Strategy::$strategy).await, $open);
            }
        )+
    };
}

// What competing claims open on the others is shown in `lines`: there the gate is where they begin.
claims! {
    fn a_claim_that_skips_opens_a_line_and_no_row_on_postgres = "postgres" SkipLocked (0, 1),
    fn a_claim_that_skips_opens_a_line_and_no_row_on_postgres_13 = "postgres-13" SkipLocked (0, 1),
    fn a_claim_that_skips_opens_a_line_and_no_row_on_postgres_18 = "postgres-18" SkipLocked (0, 1),
    fn a_claim_by_cas_opens_a_line_and_no_row_on_postgres = "postgres" Cas (0, 1),
    fn a_claim_of_an_owner_opens_no_row_on_postgres = "postgres" Own (0, 1),
    fn a_claim_of_an_owner_opens_no_row_on_mysql = "mysql" Own (0, 0),
    fn a_claim_of_an_owner_opens_no_row_on_mariadb = "mariadb" Own (0, 0),
}

/// Holds a claim up at its last write, and counts what others cannot open meanwhile: hot rows, and
/// the rows of shards in the lease table.
async fn open_in_a_claim(server: &str, strategy: Strategy) -> (i64, i64) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), strategy, ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let want = Want { limit: 1, bytes: 1 << 20, lease: Duration::from_secs(30) };
    // The first claim writes more than later ones.
    outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap();
    assert_eq!(lane.claim(&want).await.unwrap().len(), 1);
    for _ in 0..ROWS / 100 {
        let events: Vec<Event> = (0..100).map(|_| Event::new("t", "T", "{}")).collect();
        outbox.put(&events, None).await.unwrap();
    }
    // One that finds more than it takes is followed by one that knows.
    let want = Want { limit: CLAIMED, ..want };
    assert_eq!(lane.claim(&want).await.unwrap().len(), CLAIMED);
    let mut gate = Session::open(&setup.url).await.unwrap();
    shut(&mut gate, &table).await;
    let claim = tokio::spawn(async move { lane.claim(&want).await });
    let mut other = Session::open(&setup.url).await.unwrap();
    until_it_waits(&mut other, &table).await;
    let rows = kept(&mut other, &table).await;
    let lines = match other.is_postgres() {
        true => kept(&mut other, &format!("{table}_lease WHERE shard >= 0")).await,
        false => 0,
    };
    gate.close().await.unwrap();
    assert_eq!(claim.await.unwrap().unwrap().len(), CLAIMED);
    outbox.close().await;
    (rows, lines)
}

/// Counts the rows of a table that another session has open.
async fn kept(session: &mut Session, of: &str) -> i64 {
    let free = match session.is_postgres() {
        true => format!(
            "WITH free AS (SELECT 1 FROM {of} FOR UPDATE SKIP LOCKED) SELECT count(*) FROM free"
        ),
        false => format!("SELECT count(*) FROM {of} FOR UPDATE SKIP LOCKED"),
    };
    let there = session.number(format!("SELECT count(*) FROM {of}")).await.unwrap();
    there - session.number(free).await.unwrap()
}

/// Shuts the way to what a claim writes last: the leases. It opens when the session ends.
async fn shut(gate: &mut Session, table: &str) {
    if !gate.is_postgres() {
        return gate.run(format!("LOCK TABLES {table}_lease READ")).await.unwrap();
    }
    // PostgreSQL opens its tables before its rows, so a table that is shut would shut out too much.
    // A claim by cas writes the fence of its line as well, before it reads.
    let trigger = format!(
        "CREATE FUNCTION {table}_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM pg_advisory_xact_lock(hashtext('{table}')); RETURN NULL; END $$; \
         CREATE TRIGGER wait AFTER UPDATE OF out_seq ON {table}_lease FOR EACH STATEMENT \
         EXECUTE FUNCTION {table}_wait(); SELECT pg_advisory_lock(hashtext('{table}'))"
    );
    gate.run(trigger).await.unwrap();
}

async fn until_it_waits(session: &mut Session, table: &str) {
    let ask = match session.is_postgres() {
        true => {
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND wait_event = 'advisory' AND query LIKE '%{table}%'"
        }
        false => {
            "SELECT COUNT(*) FROM information_schema.processlist \
                  WHERE state LIKE 'Waiting for table%' AND info LIKE '%{table}%'"
        }
    };
    let ask = ask.replace("{table}", table);
    let waits = async { while session.number(&*ask).await.unwrap() == 0 {} };
    tokio::time::timeout(PATIENCE, waits).await.expect("the claim comes to the gate");
}
