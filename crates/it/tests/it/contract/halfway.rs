//! A migration that broke half-way goes on from there: MySQL and MariaDB commit every statement
//! that makes a table by itself.

use std::time::Duration;

use event::{Event, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Setup};

#[tokio::test]
async fn a_migration_of_mysql_goes_on_wherever_it_broke() {
    // Its tables take long to make.
    goes_on_wherever_it_broke("mysql", 5).await;
}

#[tokio::test]
async fn a_migration_of_mariadb_goes_on_wherever_it_broke() {
    goes_on_wherever_it_broke("mariadb", 1).await;
}

#[tokio::test]
async fn a_migration_of_mariadb_10_5_goes_on_wherever_it_broke() {
    goes_on_wherever_it_broke("mariadb-10.5", 1).await;
}

/// Breaks a migration after its first statement, and then every `step` statements later.
async fn goes_on_wherever_it_broke(server: &str, step: usize) {
    let url = need(server).detail("url").to_owned();
    let mut session = Session::open(&url).await.unwrap();
    for done in (1..).step_by(step) {
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup { table, shards: 2, ..Setup::new(url.clone()) };
        let outbox = store::open(&setup).await.unwrap();
        let text = outbox.migration();
        let statements: Vec<&str> = text.split(";\n").filter(|part| is_one(part)).collect();
        if done > statements.len() {
            assert!(done > 5, "a migration has several statements");
            return;
        }
        for statement in &statements[..done] {
            session.run(*statement).await.unwrap();
        }
        let schema = outbox.migrate().await.unwrap();
        assert_eq!(schema.found, schema.wanted, "after {done} statements");
        outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap();
        let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let want = Want { limit: 2, bytes: 1 << 20, lease: Duration::from_secs(30) };
        assert_eq!(lane.claim(&want).await.unwrap().len(), 1, "after {done} statements");
        let finding = outbox.examine().await.unwrap();
        assert!(finding.iter().all(|one| one.grade != store::Grade::Bad), "{done}: {finding:?}");
        outbox.close().await;
    }
}

/// Tells whether a part of a migration is more than remarks.
fn is_one(part: &str) -> bool {
    part.lines().any(|line| !line.trim().is_empty() && !line.starts_with("--"))
}
