//! What the printed rights allow, and what they refuse: the relay's account cannot read business
//! tables, and the service's cannot read or change events.

use std::time::Duration;

use event::{Begun, Keep, Millis, Outcome, Receipt, Topics, Want};
use it::session::Session;
use it::world::need;
use postbox::{Event, Outbox};
use sqlx::{Connection, MySqlConnection, PgConnection};
use store::{Accounts, Lane, Setup, Strategy};

const DAY: Duration = Duration::from_secs(86_400);

/// An outbox, a business table, and two accounts with no rights but the printed ones.
struct Place {
    setup: Setup,
    accounts: Accounts,
    session: Session,
}

impl Place {
    async fn new(server: &str) -> Place {
        let table = format!("t{:08x}", fastrand::u32(..));
        let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
        let owner = store::open(&setup).await.unwrap();
        owner.migrate().await.unwrap();
        let mut session = Session::open(&setup.url).await.unwrap();
        // Names that would be something else without their quotes.
        let relay = format!("{table} `re'lay\"");
        let accounts = Accounts { relay, service: format!("{table}-app") };
        let mut made = format!("CREATE TABLE {table}_orders (id BIGINT PRIMARY KEY);");
        for account in [&accounts.relay, &accounts.service] {
            made += &match session.is_postgres() {
                true => {
                    let quoted = account.replace('"', "\"\"");
                    format!("CREATE ROLE \"{quoted}\" LOGIN PASSWORD 'canary';")
                }
                false => {
                    let quoted = account.replace('`', "``");
                    format!("CREATE USER `{quoted}`@`%` IDENTIFIED BY 'canary';")
                }
            };
        }
        session.run(made + &owner.grants(&accounts)).await.unwrap();
        owner.close().await;
        Place { setup, accounts, session }
    }

    /// Reaches the outbox as somebody else.
    fn as_account(&self, account: &str) -> Setup {
        let mut url = url::Url::parse(&self.setup.url).unwrap();
        url.set_username(account).unwrap();
        url.set_password(Some("canary")).unwrap();
        Setup { url: url.into(), ..self.setup.clone() }
    }

    /// Makes all history nine days older.
    async fn age(&mut self) {
        let slot = match self.session.is_postgres() {
            true => "",
            false => ", slot = sent_at DIV 86400000 % 16",
        };
        let table = &self.setup.table;
        let age = format!("UPDATE {table}_sent SET sent_at = sent_at - 9 * 86400000{slot}");
        self.session.run(age).await.unwrap();
    }
}

/// Asks things as an account, and expects to be refused each.
async fn refused(setup: &Setup, all: &[&str]) {
    let mut session = Session::open(&setup.url).await.unwrap();
    for sql in all {
        let sql = sql.replace("{outbox}", &setup.table);
        let why = session.run(&*sql).await.unwrap_err().to_string();
        let words = ["permission denied", "must be owner", "command denied"];
        assert!(words.iter().any(|word| why.contains(word)), "{sql}: {why}");
    }
}

/// Puts an event down in a transaction, at once and for later, as the service would.
macro_rules! put {
    ($connection:ty, $setup:expr, $event:expr) => {{
        let app = Outbox::named(&$setup.table).unwrap();
        let mut conn = <$connection>::connect(&$setup.url).await.unwrap();
        let mut tx = conn.begin().await.unwrap();
        app.put(&mut tx, $event).await.unwrap();
        app.put_at(&mut tx, $event, Millis(4_102_444_800_000)).await.unwrap();
        tx.commit().await.unwrap();
    }};
}

async fn the_service_puts_and_takes_in_and_can_do_nothing_else(place: &Place) {
    let setup = place.as_account(&place.accounts.service);
    let event = Event::new("order.paid", "OrderPaid", "{}").key("123");
    match place.session.is_postgres() {
        true => put!(PgConnection, setup, &event),
        false => put!(MySqlConnection, setup, &event),
    }
    let outbox = store::open(&setup).await.unwrap();
    let begun = outbox.inbox().begin("stock", event.id, Duration::from_secs(30)).await.unwrap();
    assert!(matches!(begun, Begun::Go(_)), "{begun:?}");
    outbox.close().await;
    let denied = [
        "SELECT payload FROM {outbox}",
        "DELETE FROM {outbox}_later",
        "UPDATE {outbox}_lease SET owner = 'me'",
        "UPDATE {outbox}_tally SET owner = 'me'",
        "INSERT INTO {outbox} (seq, topic, event_type, payload) VALUES (1, 't', 'T', '{}')",
    ];
    refused(&setup, &denied).await;
}

/// Publishes what the service has put down, then another, as a relay that competes; drops a day of
/// history; and can do nothing else.
async fn the_relay_does_its_work_and_reads_no_business_table(place: &mut Place) {
    let setup = place.as_account(&place.accounts.relay);
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
    place.age().await;
    let relay = store::open(&setup).await.unwrap();
    let schema = relay.migrate().await.expect("there is nothing to make");
    assert_eq!(schema.found, schema.wanted);
    let elsewhere = Setup { table: format!("{}_b", setup.table), ..setup.clone() };
    let other = store::open(&elsewhere).await.unwrap();
    let why = other.migrate().await.expect_err("a relay makes no tables").to_string();
    other.close().await;
    assert!(why.contains("migrate with the url of their owner"), "{why}");
    assert!(why.contains("--grants"), "they may be there, and not for this account: {why}");
    let keep = Keep { sent: 7 * DAY, inbox: 14 * DAY, step: 10, lease: Duration::from_secs(30) };
    assert!(relay.chores().sweep(&keep).await.unwrap().sent > 0, "a day of history goes");
    let findings = relay.examine().await.unwrap();
    let bad: Vec<_> = findings.iter().filter(|one| one.grade == store::Grade::Bad).collect();
    assert!(bad.is_empty(), "the doctor finds what it needs: {bad:?}");
    relay.close().await;
    let denied = [
        "SELECT id FROM {outbox}_orders",
        "DROP TABLE {outbox}",
        "DELETE FROM {outbox}_lease",
        "DELETE FROM {outbox}_tally",
        "INSERT INTO {outbox}_tally (shard) VALUES (99)",
        "TRUNCATE TABLE {outbox}_dead",
    ];
    refused(&setup, &denied).await;
}

async fn each_account_does_its_work_and_nothing_else(server: &str) {
    let mut place = Place::new(server).await;
    Box::pin(the_service_puts_and_takes_in_and_can_do_nothing_else(&place)).await;
    Box::pin(the_relay_does_its_work_and_reads_no_business_table(&mut place)).await;
}

servers!(each_account_does_its_work_and_nothing_else);
