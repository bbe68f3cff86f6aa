//! The lines of shards, for which relays compete: a claim opens no row and moves none, whoever has
//! a line keeps nobody from the others, and only what a line names is in flight.

use std::sync::Arc;
use std::time::Duration;

use event::{Claim, Code, Event, Outcome, Receipt, Settled, Source, StoreError, Topics, Want};
use futures_util::future::join_all;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

const PATIENCE: Duration = Duration::from_secs(60);

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

    async fn ask(&self, limit: usize) -> Result<Vec<Claim>, StoreError> {
        let want = Want { limit, bytes: 1 << 20, lease: Duration::from_secs(30) };
        let claim = tokio::time::timeout(PATIENCE, self.lane.claim(&want)).await;
        claim.expect("nobody keeps the claim waiting")
    }

    async fn claim(&self, limit: usize) -> Vec<Claim> {
        self.ask(limit).await.unwrap()
    }

    async fn publish(&self, claims: &[Claim]) -> Settled {
        let done = Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done.clone())).collect();
        self.lane.settle(&ends).await.unwrap()
    }

    async fn put(&self, count: usize) {
        let events: Vec<Event> = (0..count).map(|_| Event::new("t", "T", "{}")).collect();
        self.outbox.put(&events, None).await.unwrap();
    }
}

/// Returns how relays can compete on a server.
fn strategies(server: &str) -> &'static [Strategy] {
    match server {
        "postgres" => &[Strategy::SkipLocked, Strategy::Cas],
        "mariadb-10.5" => &[Strategy::Cas, Strategy::Preempt],
        _ => &[Strategy::SkipLocked, Strategy::Cas, Strategy::Preempt],
    }
}

async fn outbox(server: &str, shards: u16, strategy: Strategy) -> Setup {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, shards, ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.close().await;
    Setup { strategy, ..setup }
}

async fn a_claim_opens_no_row_and_moves_none(server: &str) {
    for strategy in strategies(server) {
        let setup = outbox(server, 4, *strategy).await;
        let (one, table) = (Relay::new(&setup).await, &setup.table);
        one.put(10).await;
        let mut other = Session::open(&setup.url).await.unwrap();
        other.run("BEGIN").await.unwrap();
        other.run(format!("SELECT seq FROM {table} ORDER BY seq FOR UPDATE")).await.unwrap();
        // A claim that opened a row would wait for the other.
        let claims = one.claim(4).await;
        assert_eq!(claims.len(), 4, "{strategy}");
        other.run("ROLLBACK").await.unwrap();
        for (end, rows) in [("", 10), ("_later", 0)] {
            let count = format!("SELECT count(*) FROM {table}{end}");
            assert_eq!(other.number(count).await.unwrap(), rows, "{strategy}{end}");
        }
        let counts = one.outbox.catalog().count().await.unwrap();
        assert_eq!((counts.new, counts.dispatching), (6, 4), "{strategy}");
        let seen = format!("SELECT count(*) FROM {table}_events WHERE status = 'DISPATCHING'");
        assert_eq!(other.number(seen).await.unwrap(), 4, "{strategy}: the view shows them");
        assert_eq!(one.publish(&claims).await.settled, 4);
        assert_eq!(one.claim(10).await.len(), 6, "{strategy}");
        other.close().await.unwrap();
        one.outbox.close().await;
    }
}

servers!(a_claim_opens_no_row_and_moves_none);

mod lost {
    use super::*;

    /// A crash of the server may take a claim back that nobody has written to its disk.
    async fn a_claim_that_no_line_names_settles_nothing_and_its_rows_come_again(server: &str) {
        for strategy in strategies(server) {
            let setup = outbox(server, 1, *strategy).await;
            let (one, table) = (Relay::new(&setup).await, &setup.table);
            one.put(3).await;
            let lost = one.claim(2).await;
            let mut session = Session::open(&setup.url).await.unwrap();
            let none = match session.is_postgres() {
                true => "out_seq = '{}', out_until = '{}', out_fence = '{}'",
                false => "out_rows = ''",
            };
            let forget = format!("UPDATE {table}_lease SET {none} WHERE shard = 0");
            session.run(forget).await.unwrap();
            let Settled { settled, stale } = one.publish(&lost).await;
            assert_eq!((settled, stale.len()), (0, 2), "{strategy}");
            let again = one.claim(10).await;
            assert_eq!(again.len(), 3, "{strategy}");
            assert!(again.iter().all(|claim| claim.attempt == 1), "{strategy}: nothing lapsed");
            assert_eq!(one.publish(&again).await.settled, 3, "{strategy}");
            session.close().await.unwrap();
            one.outbox.close().await;
        }
    }

    servers!(a_claim_that_no_line_names_settles_nothing_and_its_rows_come_again);
}

mod skipping {
    use super::*;

    async fn whoever_skips_takes_from_another_line(server: &str) {
        let setup = outbox(server, 2, Strategy::SkipLocked).await;
        let one = Relay::new(&setup).await;
        // The first claim writes the strategy down, for which it opens every line.
        assert_eq!(one.claim(1).await, []);
        one.put(40).await;
        let mut other = Session::open(&setup.url).await.unwrap();
        other.run("BEGIN").await.unwrap();
        let open = format!("SELECT shard FROM {}_lease WHERE shard = 0 FOR UPDATE", setup.table);
        other.run(open).await.unwrap();
        // A claim that waited would fail: the line stays open until it is over.
        let beside = one.claim(40).await;
        assert!(!beside.is_empty() && beside.iter().all(|claim| claim.address.shard == 1));
        other.run("ROLLBACK").await.unwrap();
        let rest = one.claim(40).await;
        assert_eq!(beside.len() + rest.len(), 40, "what the other left is found at once");
        other.close().await.unwrap();
        one.outbox.close().await;
    }

    #[tokio::test]
    async fn on_postgres() {
        whoever_skips_takes_from_another_line("postgres").await;
    }

    #[tokio::test]
    async fn on_mysql() {
        whoever_skips_takes_from_another_line("mysql").await;
    }

    #[tokio::test]
    async fn on_mariadb() {
        whoever_skips_takes_from_another_line("mariadb").await;
    }

    #[tokio::test]
    async fn a_server_without_skip_locked_refuses_the_strategy_and_says_why() {
        let setup = outbox("mariadb-10.5", 1, Strategy::SkipLocked).await;
        let refused = Relay::new(&setup).await.ask(1).await.unwrap_err();
        assert!(matches!(refused, StoreError::Broken(_)), "{refused}");
        assert_eq!(refused.cause().code, Code::ConfigInvalid, "{refused}");
        let told = refused.to_string();
        assert!(told.contains("MariaDB 10.6; take own, cas or preempt"), "{told}");
    }
}

mod preempting {
    use super::*;

    /// Writes a name into the lines, from so many milliseconds ago or ahead.
    async fn name(setup: &Setup, millis: i64) {
        let mut session = Session::open(&setup.url).await.unwrap();
        let clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";
        let until = format!("lease_until = {clock} + {millis}");
        let table = &setup.table;
        let name = format!("UPDATE {table}_lease SET owner = 'gone', {until} WHERE shard >= 0");
        session.run(name).await.unwrap();
        session.close().await.unwrap();
    }

    async fn whoever_names_a_line_has_it_for_a_while_and_no_longer(server: &str) {
        let setup = outbox(server, 2, Strategy::Preempt).await;
        let one = Relay::new(&setup).await;
        one.put(4).await;
        assert_eq!(one.claim(1).await.len(), 1);
        name(&setup, 30_000).await;
        assert_eq!(one.claim(10).await, [], "the lines are another's");
        name(&setup, -1).await;
        assert_eq!(one.claim(1).await.len(), 1, "whoever died has named them for a while only");
        name(&setup, 100_000_000).await;
        assert_eq!(one.claim(10).await.len(), 2, "no name stands for so long: a clock was ahead");
        one.outbox.close().await;
    }

    #[tokio::test]
    async fn on_mysql() {
        whoever_names_a_line_has_it_for_a_while_and_no_longer("mysql").await;
    }

    #[tokio::test]
    async fn on_mariadb_10_5() {
        whoever_names_a_line_has_it_for_a_while_and_no_longer("mariadb-10.5").await;
    }

    #[tokio::test]
    async fn postgres_has_no_need_of_it_and_says_so() {
        let setup = Setup::new("postgres://me@127.0.0.1/orders");
        let setup = Setup { strategy: Strategy::Preempt, ..setup };
        let refused = store::open(&setup).await.err().unwrap().to_string();
        assert!(refused.contains("strategy preempt: PostgreSQL passes over"), "{refused}");
        assert!(refused.contains("take own, skip_locked, cas"), "{refused}");
    }
}

mod no_event {
    use super::*;

    /// Lets many relays find the same row that is no event.
    async fn what_is_no_event_is_given_up_once(server: &str, strategy: Strategy) {
        let setup = outbox(server, 1, strategy).await;
        let mut relays = Vec::new();
        for _ in 0..4 {
            relays.push(Relay::new(&setup).await);
            relays[0].ask(1).await.unwrap();
        }
        let (mut session, table) = (Session::open(&setup.url).await.unwrap(), &setup.table);
        session.run(format!("ALTER TABLE {table} DROP CONSTRAINT {table}_headers")).await.unwrap();
        for round in 1..=5 {
            let bad = format!(
                "INSERT INTO {table} (topic, event_type, payload, headers) \
                 VALUES ('t', 'T', '', '?')"
            );
            session.run(bad).await.unwrap();
            // One of those who meet may have to yield; whoever asks last finds what is left.
            join_all(relays.iter().map(|relay| relay.ask(1))).await;
            relays[0].ask(1).await.unwrap();
            let dead = relays[0].outbox.catalog().count().await.unwrap().dead;
            assert_eq!(dead, round);
        }
    }

    #[tokio::test]
    async fn is_given_up_once_by_mysql() {
        what_is_no_event_is_given_up_once("mysql", Strategy::SkipLocked).await;
    }

    #[tokio::test]
    async fn is_given_up_once_by_mariadb_10_5() {
        for strategy in [Strategy::Cas, Strategy::Preempt] {
            what_is_no_event_is_given_up_once("mariadb-10.5", strategy).await;
        }
    }
}
