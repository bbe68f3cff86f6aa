//! Events on their way without a fault: once each, no more at once than the destination is given,
//! and none that is no event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use event::{Code, Status};
use it::process::{Process, Signal};
use it::receiver::{Receiver, counting, willing};
use it::site::{Rules, Site, in_order};
use sqlx::{Connection, SqliteConnection};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn two_relays_on_one_file_publish_each_event_exactly_once() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let rules = Rules { lease: "10s", timeout: "4s", ..Rules::default() };
    let mut events = site.put(500, 20).await.unwrap();
    let mut a = site.relay("a", &receiver.url("a"), &rules).unwrap();
    let mut b = site.relay("b", &receiver.url("b"), &rules).unwrap();
    for _ in 0..3 {
        events.extend(site.put(500, 20).await.unwrap());
    }
    site.until("everything is sent", PATIENCE, |counts| counts.sent == 2000).await.unwrap();
    for relay in [&mut a, &mut b] {
        // One of them only waits, and its log must not say more than that.
        relay.says("lane runs: it claims what no other relay holds", PATIENCE).await.unwrap();
        relay.signal(Signal::TERM).unwrap();
        assert!(relay.ends(PATIENCE).await.unwrap().success(), "{}", relay.log());
    }
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 2000, "an event was published twice without a fault");
    in_order(&events, &arrivals).unwrap();
    let counts = site.counts().await.unwrap();
    assert_eq!((counts.sent, counts.dead, counts.pending()), (2000, 0, 0));
}

#[tokio::test]
async fn all_outboxes_and_sinks_of_one_destination_share_its_limit() {
    let most = Arc::new(AtomicUsize::new(0));
    let habit = counting(Duration::from_millis(20), most.clone());
    let receiver = Receiver::start(habit).await.unwrap();
    let (orders, bills) = (Site::new().await.unwrap(), Site::new().await.unwrap());
    orders.put(60, 60).await.unwrap();
    bills.put(60, 60).await.unwrap();
    let mut text = String::from("[admin]\noff = true\n");
    for (name, site, concurrency) in [("orders", &orders, 3), ("bills", &bills, 16)] {
        let (file, url) = (site.file(), receiver.url(name));
        text += &format!(
            "[outbox.{name}]\nurl = \"sqlite:{}\"\n\
             [sink.{name}]\nkind = \"http\"\nurl = \"{url}\"\n\
             allow_private = true\nconcurrency = {concurrency}\n[[route]]\ntopic = \"*\"\n\
             sink = \"{name}\"\noutbox = \"{name}\"\n",
            file.display()
        );
    }
    let file = orders.file();
    let folder = file.parent().unwrap();
    std::fs::write(folder.join("both.toml"), text).unwrap();
    let _relay = Process::start(folder, "both", &["run", "-c", "both.toml"]).unwrap();
    for site in [&orders, &bills] {
        site.until("everything is sent", PATIENCE, |counts| counts.sent == 60).await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 3, "at once, of the 3 that one sink allows");
}

#[tokio::test]
async fn a_plain_insert_that_is_no_event_is_dead_and_never_reaches_the_destination() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let url = format!("sqlite:{}", site.file().display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    let inserts = [
        ("two'||char(10)||'lines", "{}", "'{}'"),
        ("header", r#"{"note": "two\nlines"}"#, "'{}'"),
        ("large", "{}", "printf('%.*c', 1048577, 'x')"),
        ("good", "{}", "printf('%.*c', 1048576, 'x')"),
    ];
    for (key, headers, payload) in inserts {
        let insert = format!(
            "INSERT INTO outbox (topic, event_type, biz_key, headers, payload)
             VALUES ('order.paid', 'OrderPaid', '{key}', '{headers}', {payload})"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&mut conn).await.unwrap();
    }
    let _relay = site.relay("a", &receiver.url("a"), &Rules::default()).unwrap();
    let ended = site.until("all have ended", PATIENCE, |counts| counts.sent + counts.dead == 4);
    assert_eq!(ended.await.unwrap().dead, 3);
    let arrivals = receiver.arrivals();
    let keys: Vec<_> = arrivals.iter().map(|arrival| arrival.key.as_deref().unwrap()).collect();
    assert_eq!(keys, ["good"]);
    for row in site.rows().await.unwrap().iter().filter(|row| row.status == Status::Dead) {
        let cause = row.last_error().unwrap();
        assert_eq!(cause.code, Code::BadEvent, "{cause}");
    }
}
