//! A database that hangs costs its own outbox time, and no other outbox of its relay.
//!
//! Nothing is judged by how fast it is. A question to a server that stands still is given up after
//! half a minute, and a connection to it after ten seconds: whoever had to wait for that one, once
//! for each event, would not be done in time by far.

use std::time::Duration;

use it::instance::Instance;
use it::process::Process;
use it::receiver::{Arrival, Receiver, willing};
use it::session::Session;
use it::site::Site;
use it::world::need;

const PATIENCE: Duration = Duration::from_secs(60);
/// How many events flow one after the other, each put after the one before was published, before
/// anything is given up. Had one of them to wait for the database that hangs, none would.
const STEPS: usize = 9;
/// How many do afterwards, within the time of six connections that are given up.
const MORE: usize = 30;
/// How many wait in the database that hangs: more than it publishes before it does.
const MANY: usize = 5000;
/// What the relay says once the first question to the database was given up.
const GIVEN_UP: &str = "its database is down";

#[tokio::test]
async fn a_postgres_that_hangs_does_not_slow_the_others_of_its_relay() {
    a_database_that_hangs_does_not_slow_the_others("postgres").await;
}

#[tokio::test]
async fn a_mysql_that_hangs_does_not_slow_the_others_of_its_relay() {
    a_database_that_hangs_does_not_slow_the_others("mysql").await;
}

#[tokio::test]
async fn a_mariadb_that_hangs_does_not_slow_the_others_of_its_relay() {
    a_database_that_hangs_does_not_slow_the_others("mariadb").await;
}

async fn a_database_that_hangs_does_not_slow_the_others(server: &str) {
    let mut instance = Instance::start(server).unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let (ill, wells) = (Site::on(&instance.url, PATIENCE).await.unwrap(), healthy().await);
    let (folder, urls) = (tempfile::tempdir().unwrap(), wells.iter().map(|(url, _)| url));
    let text = config(&instance.url, urls.map(String::as_str), &receiver);
    std::fs::write(folder.path().join("postbox.toml"), text).unwrap();
    ill.put(MANY, 7).await.unwrap();
    let mut relay = Process::start(folder.path(), "relay", &["run"]).unwrap();
    flow(&wells, &receiver, wells.len()).await;
    receiver.until("something of the ill one", PATIENCE, |all| some(all, "ill")).await.unwrap();
    instance.pause(true).unwrap();
    assert!(count(&receiver, "ill") < MANY, "it hangs in mid-flow");

    flow(&wells, &receiver, STEPS).await;
    let log = relay.log();
    assert!(!log.contains(GIVEN_UP), "nobody waited for the first answer to be given up:\n{log}");

    relay.says(GIVEN_UP, PATIENCE).await.unwrap();
    let flows = flow(&wells, &receiver, MORE);
    tokio::time::timeout(PATIENCE, flows).await.expect("nobody waits for a connection");
    let before = count(&receiver, "ill");
    assert!(before < MANY, "it hung all the time");
    instance.pause(false).unwrap();
    relay.says("lane runs again: its database is back", PATIENCE).await.unwrap();
    let more = |all: &[Arrival]| (distinct(all, "ill") > before).then_some(());
    receiver.until("more of the ill one", PATIENCE, more).await.unwrap();
}

/// Makes an outbox on a server of each kind.
async fn healthy() -> Vec<(String, Site)> {
    let mut wells = Vec::new();
    for server in ["postgres", "mysql", "mariadb"] {
        let server = need(server);
        let name = format!("n{:08x}", fastrand::u32(..));
        let mut session = Session::open(server.detail("url")).await.unwrap();
        session.run(format!("CREATE DATABASE {name}")).await.unwrap();
        let (address, _) = server.detail("url").rsplit_once('/').unwrap();
        let url = format!("{address}/{name}");
        let site = Site::on(&url, PATIENCE).await.unwrap();
        wells.push((url, site));
    }
    wells
}

/// One relay for all of them. The ill one has a sink of its own, which tells its events apart.
fn config<'a>(ill: &str, wells: impl Iterator<Item = &'a str>, receiver: &Receiver) -> String {
    let mut text = String::new();
    let mut add = |outbox: &str, url: &str, by: &str| {
        text += &format!(
            "[outbox.{outbox}]\nurl = \"{url}\"\nidle = \"100ms\"\n\
             [sink.{outbox}]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n\
             [[route]]\ntopic = \"*\"\nsink = \"{outbox}\"\noutbox = \"{outbox}\"\n",
            receiver.url(by)
        );
    };
    add("ill", ill, "ill");
    for (at, well) in wells.enumerate() {
        add(&format!("well{at}"), well, "well");
    }
    text + "[policy]\nrest = \"200ms\"\n[admin]\noff = true\n"
}

/// Puts events into one healthy outbox after the other, each after the last was published.
async fn flow(wells: &[(String, Site)], receiver: &Receiver, steps: usize) {
    for (_, well) in wells.iter().cycle().take(steps) {
        let id = well.put(1, 1).await.unwrap()[0].id.to_string();
        let came = |all: &[Arrival]| all.iter().any(|it| it.id == id).then_some(());
        receiver.until("a healthy outbox's event", PATIENCE, came).await.unwrap();
    }
}

fn some(arrivals: &[Arrival], by: &str) -> Option<()> {
    arrivals.iter().any(|it| it.by == by).then_some(())
}

fn count(receiver: &Receiver, by: &str) -> usize {
    distinct(&receiver.arrivals(), by)
}

/// Counts the events that one outbox has published.
fn distinct(arrivals: &[Arrival], by: &str) -> usize {
    it::receiver::first(arrivals).into_iter().filter(|it| it.by == by).count()
}
