//! A little chaos on each database; `cargo xtask chaos` makes more of it.

use it::chaos::{Outcome, Plan, run, watched};
use store::Strategy;

/// Lets it happen. The seed that a failed test shows draws it again, as `POSTBOX_SEED`.
async fn chaos(database: &str, relays: usize, calm: bool) -> Outcome {
    let plan = plan(database, relays, calm);
    happens(&Plan { events: 2000, rounds: 3, ..plan }).await
}

fn plan(database: &str, relays: usize, calm: bool) -> Plan {
    let asked = std::env::var("POSTBOX_SEED").ok().and_then(|text| text.parse().ok());
    let seed = asked.unwrap_or_else(|| fastrand::u64(..1 << 48));
    let (database, strategy) = (database.to_owned(), Strategy::Own);
    Plan { database, strategy, events: 1000, relays, seed, calm, rounds: 2 }
}

async fn happens(plan: &Plan) -> Outcome {
    let outcome = run(plan, &|_| ()).await.unwrap();
    assert!(outcome.is_good(), "POSTBOX_SEED={}\n{outcome}", plan.seed);
    outcome
}

#[tokio::test]
async fn relays_that_are_killed_and_stopped_break_no_promise_on_sqlite() {
    let toll = chaos("sqlite", 2, false).await.toll;
    assert!(toll.killed > 0 && toll.stopped > 0, "{toll:?}");
}

/// Where there is a server, relays are cut off from it as well.
async fn relays_that_are_struck_break_no_promise_on(server: &str) {
    let toll = chaos(server, 4, false).await.toll;
    assert!(toll.killed > 0 && toll.stopped > 0 && toll.cut_off > 0, "{toll:?}");
}

#[tokio::test]
async fn relays_that_are_killed_and_stopped_break_no_promise_on_postgres() {
    relays_that_are_struck_break_no_promise_on("postgres").await;
}

#[tokio::test]
async fn relays_that_are_killed_and_stopped_break_no_promise_on_mysql() {
    relays_that_are_struck_break_no_promise_on("mysql").await;
}

#[tokio::test]
async fn relays_that_are_killed_and_stopped_break_no_promise_on_mariadb() {
    relays_that_are_struck_break_no_promise_on("mariadb").await;
}

#[tokio::test]
async fn relays_that_are_killed_and_stopped_break_no_promise_on_mariadb_10_5() {
    relays_that_are_struck_break_no_promise_on("mariadb-10.5").await;
}

/// Makes a test of relays that compete for rows, on each server and with each strategy.
macro_rules! competing {
    ($($name:ident = $server:literal $strategy:ident,)+) => {
        mod competing_relays_that_are_struck_break_no_promise_but_order {
            use super::*;

            $(
                #[tokio::test]
                async fn $name() {
                    let plan = Plan { strategy: Strategy::$strategy, ..plan($server, 4, false) };
                    let toll = happens(&plan).await.toll;
                    assert!(toll.killed > 0 && toll.stopped > 0 && toll.cut_off > 0, "{toll:?}");
                }
            )+
        }
    };
}

competing! {
    with_skip_locked_on_postgres = "postgres" SkipLocked,
    with_cas_on_postgres = "postgres-18" Cas,
    with_skip_locked_on_mysql = "mysql" SkipLocked,
    with_preempt_on_mysql = "mysql" Preempt,
    with_cas_on_mariadb = "mariadb" Cas,
    with_preempt_on_mariadb_10_5 = "mariadb-10.5" Preempt,
}

async fn relays_that_come_and_go_publish_nothing_twice_on(server: &str) {
    let toll = chaos(server, 3, true).await.toll;
    assert!(toll.replaced > 0, "{toll:?}");
}

#[tokio::test]
async fn relays_that_come_and_go_publish_nothing_twice_on_postgres() {
    relays_that_come_and_go_publish_nothing_twice_on("postgres").await;
}

#[tokio::test]
async fn relays_that_come_and_go_publish_nothing_twice_on_mysql() {
    relays_that_come_and_go_publish_nothing_twice_on("mysql").await;
}

#[tokio::test]
async fn relays_that_come_and_go_publish_nothing_twice_on_mariadb() {
    relays_that_come_and_go_publish_nothing_twice_on("mariadb").await;
}

async fn a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on(server: &str) {
    let [relays, moved, producers] = watched(server).await.unwrap();
    assert_eq!(relays, Vec::<String>::new(), "these are no producers");
    assert_eq!(moved, Vec::<String>::new(), "these are none, though one has moved their locks");
    assert!(producers.iter().any(|seen| seen.ends_with("_r1")), "a producer waits: {producers:?}");
}

#[tokio::test]
async fn a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on_mysql() {
    a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on("mysql").await;
}

#[tokio::test]
async fn a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on_mariadb() {
    a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on("mariadb").await;
}

#[tokio::test]
async fn a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on_mariadb_10_5() {
    a_relay_that_waits_for_a_relay_is_not_taken_for_a_producer_on("mariadb-10.5").await;
}
