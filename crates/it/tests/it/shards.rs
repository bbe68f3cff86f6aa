//! One relay for the shard databases of one service, and no more connections than it may make.

use std::collections::BTreeSet;
use std::time::Duration;

use it::process::Process;
use it::receiver::{Receiver, willing};
use it::session::Session;
use it::site::{Site, in_order};
use it::world::need;

const PATIENCE: Duration = Duration::from_secs(60);
const SHARDS: usize = 3;
/// Two for each of the outboxes, as few as they can do with.
const BUDGET: i64 = 2 * SHARDS as i64;

#[tokio::test]
async fn one_relay_carries_the_shards_of_a_service_on_postgres() {
    shards_of_a_service("postgres").await;
}

#[tokio::test]
async fn one_relay_carries_the_shards_of_a_service_on_mysql() {
    shards_of_a_service("mysql").await;
}

async fn shards_of_a_service(server: &str) {
    let server = need(server);
    let url = server.detail("url");
    let (address, _) = url.rsplit_once('/').unwrap();
    let base = format!("n{:08x}", fastrand::u32(..));
    let mut session = Session::open(url).await.unwrap();
    for shard in 0..SHARDS {
        session.run(format!("CREATE DATABASE {base}_{shard}")).await.unwrap();
    }
    let receiver = Receiver::start(willing()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nconnections = {BUDGET}\n\
         [outbox.orders]\nurl = \"{address}/{base}_{{0..{}}}\"\n\
         [sink.stock]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n\
         [[route]]\ntopic = \"*\"\nsink = \"stock\"\noutbox = \"orders\"\n[admin]\noff = true\n",
        SHARDS - 1,
        receiver.url("a")
    );
    std::fs::write(folder.path().join("postbox.toml"), text).unwrap();
    let mut migrates = Process::start(folder.path(), "migrate", &["migrate"]).unwrap();
    assert!(migrates.ends(PATIENCE).await.unwrap().success(), "{}", migrates.log());
    let mut events = Vec::new();
    for shard in 0..SHARDS {
        let site = Site::on(&format!("{address}/{base}_{shard}"), PATIENCE).await.unwrap();
        events.push(site.put(100, 7).await.unwrap());
        site.outbox.close().await;
    }
    while connections(&mut session, &base).await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _relay = Process::start(folder.path(), "relay", &["run"]).unwrap();
    let mut most = 0;
    let arrive = receiver.until_distinct(100 * SHARDS, PATIENCE);
    tokio::pin!(arrive);
    loop {
        tokio::select! {
            arrived = &mut arrive => break arrived.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(5)) => {
                most = most.max(connections(&mut session, &base).await);
            }
        }
    }
    assert!((1..=BUDGET).contains(&most), "{most} connections of {BUDGET}");
    let arrivals = receiver.arrivals();
    for events in &events {
        let ids: BTreeSet<_> = events.iter().map(|event| event.id.to_string()).collect();
        let own = arrivals.iter().filter(|arrival| ids.contains(&arrival.id)).cloned();
        in_order(events, &own.collect::<Vec<_>>()).unwrap();
    }
}

/// Counts the connections to the shards.
async fn connections(session: &mut Session, base: &str) -> i64 {
    let ask = match session.is_postgres() {
        true => format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname LIKE '{base}%' AND application_name = 'postbox'"
        ),
        false => {
            format!("SELECT COUNT(*) FROM information_schema.processlist WHERE db LIKE '{base}%'")
        }
    };
    session.number(ask).await.unwrap()
}
