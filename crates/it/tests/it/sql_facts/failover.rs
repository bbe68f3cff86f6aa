//! What a failover to a replica that had fallen behind takes along.

use std::time::{Duration, Instant};

use it::session::Session;

use crate::instance::Instance;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// How many rows the replica never gets. PostgreSQL writes down 32 numbers at once.
const ROWS: i64 = 200;

/// Rule: an event is known by the identity that its producer made, and never by its number; a relay
/// that meets another server reads everything anew, from the first number on.
async fn numbers_of_rows_that_were_acknowledged_are_handed_out_again(server: &str) {
    let mut instance = Instance::start(server).unwrap();
    let mut session = reach(&mut instance).await;
    let number = match session.is_postgres() {
        true => "bigint GENERATED ALWAYS AS IDENTITY",
        false => "BIGINT AUTO_INCREMENT",
    };
    let table = format!("CREATE TABLE event (seq {number} PRIMARY KEY, id VARCHAR(9))");
    session.run(table).await.unwrap();
    session.run("INSERT INTO event (id) VALUES ('old')").await.unwrap();
    instance.copy().unwrap();
    let mut session = reach(&mut instance).await;
    let insert = format!("INSERT INTO event (id) SELECT 'lost' FROM {}", session.numbers(ROWS));
    session.run(insert).await.unwrap();
    let number = |id: &str| format!("SELECT max(seq) FROM event WHERE id = '{id}'");
    let last = session.number(number("lost")).await.unwrap();
    assert!(last > ROWS, "all of them were acknowledged: {last}");

    instance.fail_over().unwrap();
    let mut session = reach(&mut instance).await;
    if session.is_postgres() {
        session.run("SELECT pg_promote()").await.unwrap();
    }
    let lost = "SELECT count(*) FROM event WHERE id = 'lost'";
    assert_eq!(session.number(lost).await.unwrap(), 0, "the replica never got them");
    session.run("INSERT INTO event (id) VALUES ('new')").await.unwrap();
    let again = session.number(number("new")).await.unwrap();
    assert!(again <= last, "{again} was given out before, up to {last}");
}

/// Connects as soon as the server lets anyone.
async fn reach(instance: &mut Instance) -> Session {
    let until = Instant::now() + PATIENCE;
    loop {
        instance.lives().unwrap();
        match Session::open(&instance.url).await {
            Ok(session) => return session,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
async fn numbers_are_handed_out_again_by_postgres() {
    numbers_of_rows_that_were_acknowledged_are_handed_out_again("postgres").await;
}

#[tokio::test]
async fn numbers_are_handed_out_again_by_postgres_18() {
    numbers_of_rows_that_were_acknowledged_are_handed_out_again("postgres-18").await;
}

#[tokio::test]
async fn numbers_are_handed_out_again_by_mysql() {
    numbers_of_rows_that_were_acknowledged_are_handed_out_again("mysql").await;
}

#[tokio::test]
async fn numbers_are_handed_out_again_by_mariadb() {
    numbers_of_rows_that_were_acknowledged_are_handed_out_again("mariadb").await;
}

#[tokio::test]
async fn numbers_are_handed_out_again_by_mariadb_10_5() {
    numbers_of_rows_that_were_acknowledged_are_handed_out_again("mariadb-10.5").await;
}
