//! What the rights that are printed for MySQL and MariaDB allow, and what they refuse: the relay's
//! account cannot read business tables, and the service's cannot read or change events.

use std::time::Duration;

use event::{Begun, Keep, Outcome, Receipt, Topics, Want};
use it::session::Session;
use it::world::need;
use postbox::{Event, Outbox};
use sqlx::{Connection, MySqlConnection};
use store::{Accounts, Lane, Setup, Strategy};

/// Reaches an outbox as somebody else.
fn as_account(setup: &Setup, account: &str) -> Setup {
    let mut url = url::Url::parse(&setup.url).unwrap();
    url.set_username(account).unwrap();
    url.set_password(Some("canary")).unwrap();
    Setup { url: url.into(), ..setup.clone() }
}

/// Asks something as an account, and expects to be refused.
async fn refused(setup: &Setup, sql: &str) {
    let mut session = Session::open(&setup.url).await.unwrap();
    let sql = sql.replace("{outbox}", &setup.table);
    let why = session.run(sql).await.unwrap_err().to_string();
    assert!(why.contains("command denied"), "{why}");
}

async fn each_account_does_its_work_and_nothing_else(server: &str) {
    let table = format!("t{:08x}", fastrand::u32(..));
    let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
    let owner = store::open(&setup).await.unwrap();
    owner.migrate().await.unwrap();
    let accounts = Accounts { relay: format!("{table} `re'lay"), service: format!("{table}-app") };
    let mut made = format!("CREATE TABLE {table}_orders (id BIGINT PRIMARY KEY);");
    for account in [&accounts.relay, &accounts.service] {
        let quoted = account.replace('`', "``");
        made += &format!("CREATE USER `{quoted}`@`%` IDENTIFIED BY 'canary';");
    }
    let mut session = Session::open(&setup.url).await.unwrap();
    session.run(made + &owner.grants(&accounts)).await.unwrap();
    service(&as_account(&setup, &accounts.service)).await;
    relay(&as_account(&setup, &accounts.relay)).await;
    let older = "sent_at = sent_at - 9 * 86400000, slot = sent_at DIV 86400000 % 16";
    session.run(format!("UPDATE {table}_sent SET {older}")).await.unwrap();
    retention(&as_account(&setup, &accounts.relay)).await;
}

async fn service(setup: &Setup) {
    let app = Outbox::named(&setup.table).unwrap();
    let mut conn = MySqlConnection::connect(&setup.url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let event = Event::new("order.paid", "OrderPaid", "{}").key("123");
    app.put(&mut tx, &event).await.unwrap();
    app.put_at(&mut tx, &event, event::Millis(4_102_444_800_000)).await.unwrap();
    tx.commit().await.unwrap();
    let inbox = store::open(setup).await.unwrap().inbox();
    let begun = inbox.begin("stock", event.id, Duration::from_secs(30)).await.unwrap();
    assert!(matches!(begun, Begun::Go(_)), "{begun:?}");
    for denied in [
        "SELECT payload FROM {outbox}",
        "DELETE FROM {outbox}_later",
        "UPDATE {outbox}_lease SET owner = 'me'",
        "INSERT INTO {outbox} (seq, topic, event_type, payload) VALUES (1, 't', 'T', '{}')",
    ] {
        refused(setup, denied).await;
    }
}

/// Publishes what the service has put down, then another, as a relay that competes.
async fn relay(setup: &Setup) {
    for strategy in [Strategy::Own, Strategy::Cas] {
        let relay = store::open(&Setup { strategy, ..setup.clone() }).await.unwrap();
        let lane = relay.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(30) };
        let claims = lane.claim(&want).await.unwrap();
        let done = || Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done())).collect();
        assert_eq!(lane.settle(&ends).await.unwrap().settled, 1);
        relay.put(&[Event::new("order.paid", "OrderPaid", "{}")], None).await.unwrap();
        lane.release().await.unwrap();
        relay.close().await;
    }
    for denied in [
        "SELECT id FROM {outbox}_orders",
        "DROP TABLE {outbox}",
        "DELETE FROM {outbox}_lease",
        "TRUNCATE TABLE {outbox}_dead",
    ] {
        refused(setup, denied).await;
    }
}

/// Drops a day of history.
async fn retention(setup: &Setup) {
    let relay = store::open(setup).await.unwrap();
    let day = Duration::from_secs(86_400);
    let keep = Keep { sent: 7 * day, inbox: 14 * day, step: 10, lease: Duration::from_secs(30) };
    assert_eq!(relay.chores().sweep(&keep).await.unwrap().sent, 2);
    relay.close().await;
}

#[tokio::test]
async fn mysql() {
    each_account_does_its_work_and_nothing_else("mysql").await;
}

#[tokio::test]
async fn mariadb() {
    each_account_does_its_work_and_nothing_else("mariadb").await;
}

#[tokio::test]
async fn mariadb_10_5() {
    each_account_does_its_work_and_nothing_else("mariadb-10.5").await;
}
