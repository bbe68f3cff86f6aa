//! Work that met another's and had to yield is done again, all of it: what a settlement says that
//! lost a deadlock, or waited for too long, is written down once.
//!
//! A settlement opens a row for each shard, in their order. The tests hold it up at that of shard
//! 1, and have another ask for that of shard 0: it comes by it only if the settlement yields.

use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Claim, Code, Event, Outcome, Receipt, Settled, Source, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// Of four shards each gets some.
const EVENTS: usize = 60;
/// What the other writes first: of two that wait for each other, MySQL and MariaDB undo what has
/// written less.
const MORE: i64 = 500;

/// Everything is claimed, and its outcomes are about to be written down.
struct Place {
    setup: Setup,
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    claims: Vec<Claim>,
    /// What a settlement opens.
    rows: String,
}

impl Place {
    async fn new(server: &str, strategy: Strategy) -> Place {
        let table = format!("t{:016x}", fastrand::u64(..));
        let url = need(server).detail("url").to_owned();
        let setup = Setup { table, strategy, shards: 4, ..Setup::new(url) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let event = |key: usize| Event::new("t", "T", "{}").key(key.to_string());
        outbox.put(&(0..EVENTS).map(event).collect::<Vec<_>>(), None).await.unwrap();
        let want = Want { limit: EVENTS, bytes: 1 << 20, lease: Duration::from_secs(600) };
        let mut claims = Vec::new();
        while claims.len() < EVENTS {
            claims.extend(lane.claim(&want).await.unwrap());
        }
        let of = if strategy.competes() { "lease" } else { "tally" };
        let rows = format!("{}_{of}", setup.table);
        Place { setup, outbox, lane, claims, rows }
    }

    async fn session(&self) -> Session {
        Session::open(&self.setup.url).await.unwrap()
    }

    /// Returns a statement that opens the row of a shard.
    fn open(&self, shard: u16) -> String {
        format!("SELECT 1 FROM {} WHERE shard = {shard} FOR UPDATE", self.rows)
    }

    /// Shuts the way to the row of a shard. It opens when the session ends.
    async fn shut(&self, shard: u16) -> Session {
        let mut gate = self.session().await;
        gate.run("BEGIN").await.unwrap();
        gate.run(self.open(shard)).await.unwrap();
        gate
    }

    /// Writes outcomes down of every kind, or that all was published.
    fn settle(&self, all: bool) -> JoinHandle<Settled> {
        let end = |(at, claim): (usize, &Claim)| {
            let cause = || Cause::new(Code::SinkRefused, "so it goes");
            claim.end(match at % 4 {
                1 if !all => Outcome::Retry { after: Duration::from_secs(600), cause: cause() },
                2 if !all => Outcome::Release { after: Duration::ZERO },
                3 if !all => Outcome::Dead(cause()),
                _ => Outcome::Done(Receipt { broker_id: None }),
            })
        };
        let ends: Vec<_> = self.claims.iter().enumerate().map(end).collect();
        let lane = self.lane.clone();
        tokio::spawn(async move { lane.settle(&ends).await.unwrap() })
    }

    /// Has another ask for the row of shard 0, which a settlement has. Returns it once it waits.
    async fn cross(&self, mut other: Session, observer: &mut Session) -> JoinHandle<Session> {
        let open = self.open(0);
        let crossing = tokio::spawn(async move {
            other.run(open).await.unwrap();
            other
        });
        self.until_waiting(observer, 2).await;
        crossing
    }

    /// Waits until so many wait for a row.
    async fn until_waiting(&self, observer: &mut Session, count: usize) {
        let waiting = async {
            while self.waiting(observer).await != count {
                tokio::time::sleep(LOOK).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("{count} do not wait for a row of {}", self.rows));
    }

    async fn waiting(&self, observer: &mut Session) -> usize {
        if observer.is_postgres() {
            let ask = format!(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid IN \
                 (SELECT pid FROM pg_locks WHERE relation = '{}'::regclass)",
                self.rows
            );
            return observer.number(ask).await.unwrap() as usize;
        }
        // The table of transactions is a copy that frequent reading keeps old.
        let report = observer.texts("SHOW ENGINE INNODB STATUS", 2).await.unwrap().concat();
        let now = report.split("\nTRANSACTIONS\n").nth(1).expect("transactions are told");
        let waits = |one: &&str| one.contains("\nLOCK WAIT ") && one.contains(&self.rows);
        now.split("---TRANSACTION").filter(waits).count()
    }

    /// Sees that each outcome was written down, and once.
    async fn check(self, settled: Settled, all: bool) {
        assert_eq!((settled.settled, settled.stale), (EVENTS, Vec::new()));
        let some = EVENTS as u64 / 4;
        let [done, retry, back, dead] = if all { [4 * some, 0, 0, 0] } else { [some; 4] };
        let counts = self.outbox.catalog().count().await.unwrap();
        let told = [counts.sent, counts.retry, counts.new, counts.dead];
        assert_eq!((told, counts.dispatching), ([done, retry, back, dead], 0));
        let mut session = self.session().await;
        let table = &self.setup.table;
        // A hot row that is put back stays where it is if its shard is leased.
        let (hot, later) = if self.setup.strategy.competes() { (0, back) } else { (back, 0) };
        let later = retry + later;
        for (end, rows) in [("", hot), ("_later", later), ("_dead", dead), ("_sent", done)] {
            for of in ["*", "DISTINCT event_id"] {
                let count = format!("SELECT count({of}) FROM {table}{end}");
                assert_eq!(session.number(count).await.unwrap() as u64, rows, "{of}{end}");
            }
        }
        for (attempts, rows) in [("> 0", retry), ("> 1", 0)] {
            let count = format!("SELECT count(*) FROM {table}_later WHERE attempts {attempts}");
            assert_eq!(session.number(count).await.unwrap() as u64, rows, "{attempts}");
        }
        session.close().await.unwrap();
        self.outbox.close().await;
    }
}

/// Has a settlement lose: it has the row of shard 0 and wants that of shard 2, and another has that
/// one and wants the first.
async fn what_loses_a_deadlock_is_written_down_once(server: &str, strategy: Strategy, all: bool) {
    let place = Place::new(server, strategy).await;
    let (mut observer, mut other) = (place.session().await, place.session().await);
    let heavy = match other.is_postgres() {
        // Whoever looks first yields, and looks when it has waited for so long.
        true => "SET deadlock_timeout = '600s'; BEGIN".to_owned(),
        false => {
            let (more, numbers) = (format!("{}_more", place.setup.table), other.numbers(MORE));
            format!(
                "CREATE TABLE {more} (n INT PRIMARY KEY); BEGIN; \
                 INSERT INTO {more} SELECT n FROM {numbers}"
            )
        }
    };
    other.run(heavy).await.unwrap();
    other.run(place.open(2)).await.unwrap();
    let gate = place.shut(1).await;
    let settling = place.settle(all);
    place.until_waiting(&mut observer, 1).await;
    let crossing = place.cross(other, &mut observer).await;
    gate.close().await.unwrap();
    let other = tokio::time::timeout(PATIENCE, crossing).await.expect("the settlement yields");
    assert!(!settling.is_finished(), "it was to be done again");
    other.unwrap().close().await.unwrap();
    place.check(settling.await.unwrap(), all).await;
}

/// Has a settlement of MySQL or MariaDB wait for longer than it may. Only its last statement is
/// undone then.
async fn what_waited_for_too_long_is_written_down_once(server: &str, strategy: Strategy) {
    let place = Place::new(server, strategy).await;
    let (mut observer, mut other) = (place.session().await, place.session().await);
    other.run("SET innodb_lock_wait_timeout = 60; BEGIN").await.unwrap();
    let gate = place.shut(1).await;
    let settling = place.settle(false);
    place.until_waiting(&mut observer, 1).await;
    let crossing = place.cross(other, &mut observer).await;
    let other = tokio::time::timeout(PATIENCE, crossing).await.expect("the settlement yields");
    assert!(!settling.is_finished(), "it was to be done again");
    gate.close().await.unwrap();
    other.unwrap().close().await.unwrap();
    place.check(settling.await.unwrap(), false).await;
}

mod what_loses_a_deadlock_is_written_down_once {
    use super::{Strategy, what_loses_a_deadlock_is_written_down_once as lose};

    #[tokio::test]
    async fn on_postgres() {
        lose("postgres", Strategy::Own, false).await;
    }

    #[tokio::test]
    async fn on_postgres_at_one_stroke() {
        lose("postgres", Strategy::Own, true).await;
    }

    #[tokio::test]
    async fn on_postgres_with_skip_locked() {
        lose("postgres", Strategy::SkipLocked, false).await;
    }

    #[tokio::test]
    async fn on_mysql() {
        lose("mysql", Strategy::Own, false).await;
    }

    #[tokio::test]
    async fn on_mysql_with_skip_locked() {
        lose("mysql", Strategy::SkipLocked, false).await;
    }

    #[tokio::test]
    async fn on_mariadb() {
        lose("mariadb", Strategy::Own, false).await;
    }

    #[tokio::test]
    async fn on_mariadb_with_cas() {
        lose("mariadb", Strategy::Cas, false).await;
    }

    #[tokio::test]
    async fn on_mariadb_10_5() {
        lose("mariadb-10.5", Strategy::Own, false).await;
    }
}

mod what_waited_for_too_long_is_written_down_once {
    use super::{Strategy, what_waited_for_too_long_is_written_down_once as wait};

    #[tokio::test]
    async fn on_mysql() {
        wait("mysql", Strategy::Own).await;
    }

    #[tokio::test]
    async fn on_mariadb() {
        wait("mariadb", Strategy::Own).await;
    }

    #[tokio::test]
    async fn on_mariadb_with_skip_locked() {
        wait("mariadb", Strategy::SkipLocked).await;
    }
}
