//! What the printed rights allow, and what they refuse: the relay's account cannot read business
//! tables, and the service's cannot read or change events.

use std::time::Duration;

use event::{Begun, Keep, Outcome, Receipt, Topics, Want};
use it::world::need;
use postbox::{Event, Outbox};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store::{Accounts, Lane, Setup};

/// An outbox, a business table, and two accounts with no rights but the printed ones.
struct Place {
    setup: Setup,
    accounts: Accounts,
}

async fn place() -> Place {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), ..Setup::new(need("postgres").detail("url")) };
    let owner = store::open(&setup).await.unwrap();
    owner.migrate().await.unwrap();
    let accounts =
        Accounts { relay: format!("{table} \"relay\""), service: format!("{table}-service") };
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut made = format!("CREATE TABLE {table}_orders (id bigint PRIMARY KEY);");
    for account in [&accounts.relay, &accounts.service] {
        made += &format!("CREATE ROLE {} LOGIN PASSWORD 'canary';", quoted(account));
    }
    made += &owner.grants(&accounts);
    let mut conn = PgConnection::connect(&setup.url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(made)).execute(&mut conn).await.unwrap();
    Place { setup, accounts }
}

impl Place {
    /// Reaches the outbox as somebody else.
    fn as_account(&self, account: &str) -> Setup {
        let mut url = url::Url::parse(&self.setup.url).unwrap();
        url.set_username(account).unwrap();
        url.set_password(Some("canary")).unwrap();
        Setup { url: url.into(), ..self.setup.clone() }
    }

    /// Makes all history nine days older.
    async fn age(&self) {
        let mut conn = PgConnection::connect(&self.setup.url).await.unwrap();
        let age = format!("UPDATE {}_sent SET sent_at = sent_at - 9 * 86400000", self.setup.table);
        sqlx::raw_sql(AssertSqlSafe(age)).execute(&mut conn).await.unwrap();
    }

    /// Asks something in the database as an account, and returns why it is refused.
    async fn refused(&self, account: &str, sql: &str) -> String {
        let url = self.as_account(account).url;
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let sql = sql.replace("{outbox}", &self.setup.table);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap_err().to_string()
    }
}

#[tokio::test]
async fn the_relays_account_does_its_work_and_reads_no_business_table() {
    let place = place().await;
    let relay = store::open(&place.as_account(&place.accounts.relay)).await.unwrap();
    let event = Event::new("order.paid", "OrderPaid", "{}").key("123");
    relay.put(&[event], None).await.unwrap();
    let lane = relay.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(30) };
    let claims = lane.claim(&want).await.unwrap();
    let ends = claims.iter().map(|claim| claim.end(Outcome::Done(Receipt { broker_id: None })));
    let settled = lane.settle(&ends.collect::<Vec<_>>()).await.unwrap();
    assert_eq!(settled.settled, 1);
    place.age().await;
    let day = Duration::from_secs(86_400);
    let keep = Keep { sent: 7 * day, inbox: 14 * day, step: 10, lease: want.lease };
    assert_eq!(relay.chores().sweep(&keep).await.unwrap().sent, 1, "a day of history goes");
    relay.close().await;
    for denied in [
        "SELECT id FROM {outbox}_orders",
        "DROP TABLE {outbox}",
        "DELETE FROM {outbox}_lease",
        "TRUNCATE {outbox}_dead",
        "DROP TABLE {outbox}_sent_0",
    ] {
        let why = place.refused(&place.accounts.relay, denied).await;
        assert!(why.contains("permission denied") || why.contains("must be owner"), "{why}");
    }
}

#[tokio::test]
async fn the_services_account_puts_and_takes_in_and_can_do_nothing_else() {
    let place = place().await;
    let setup = place.as_account(&place.accounts.service);
    let app = Outbox::named(&setup.table).unwrap();
    let mut conn = PgConnection::connect(&setup.url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let event = Event::new("order.paid", "OrderPaid", "{}").key("123");
    app.put(&mut tx, &event).await.unwrap();
    app.put_at(&mut tx, &event, event::Millis(4_102_444_800_000)).await.unwrap();
    tx.commit().await.unwrap();
    let inbox = store::open(&setup).await.unwrap().inbox();
    let begun = inbox.begin("stock", event.id, Duration::from_secs(30)).await.unwrap();
    assert!(matches!(begun, Begun::Go(_)), "{begun:?}");
    for denied in [
        "SELECT payload FROM {outbox}",
        "DELETE FROM {outbox}_later",
        "UPDATE {outbox}_lease SET owner = 'me'",
        "INSERT INTO {outbox} (seq, topic, event_type, payload) VALUES (1, 't', 'T', '{}')",
    ] {
        let why = place.refused(&place.accounts.service, denied).await;
        assert!(why.contains("permission denied"), "{denied}: {why}");
    }
}
