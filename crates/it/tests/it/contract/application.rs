//! What an application does in its own transaction on a server: an event and the business data
//! stand or fall together, and each event is taken in once.

use std::time::Duration;

use event::{Begun, EventId, Millis, Topics, Want};
use it::session::Session;
use it::world::need;
use postbox::{Error, Event, Outbox};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};
use store::{Lane, Setup};

struct Place<C> {
    setup: Setup,
    app: Outbox,
    conn: C,
}

async fn place<C: Connection>(server: &str) -> Place<C> {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table, ..Setup::new(need(server).detail("url")) };
    store::open(&setup).await.unwrap().migrate().await.unwrap();
    let (app, conn) = (Outbox::named(&setup.table), C::connect(&setup.url).await);
    Place { app: app.unwrap(), conn: conn.unwrap(), setup }
}

impl<C> Place<C> {
    async fn count(&self, end: &str) -> i64 {
        let mut session = Session::open(&self.setup.url).await.unwrap();
        session.number(format!("SELECT count(*) FROM {}{end}", self.setup.table)).await.unwrap()
    }
}

fn event() -> Event {
    Event::new("order.paid", "OrderPaid", r#"{"total": 42}"#).key("123").header("traceparent", "1")
}

macro_rules! applications {
    ($($name:ident $connection:ident $server:literal,)+) => {
        $(mod $name {
            use super::*;

            #[tokio::test]
            async fn an_event_stands_or_falls_with_its_transaction_and_comes_as_it_was_put() {
                let mut place = place::<$connection>($server).await;
                let event = event();
                for (commit, expected) in [(false, 0), (true, 1)] {
                    let mut tx = place.conn.begin().await.unwrap();
                    place.app.put(&mut tx, &event).await.unwrap();
                    if commit {
                        tx.commit().await.unwrap();
                    } else {
                        tx.rollback().await.unwrap();
                    }
                    assert_eq!(place.count("").await, expected);
                }
                let mut tx = place.conn.begin().await.unwrap();
                place.app.put_at(&mut tx, &event, Millis(4_102_444_800_000)).await.unwrap();
                tx.commit().await.unwrap();
                assert_eq!(place.count("_later").await, 1);

                let relay = store::open(&place.setup).await.unwrap();
                let lane = relay.lane(Lane { topics: Topics::all(), ..Lane::default() });
                let want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(30) };
                let claims = lane.claim(&want).await.unwrap();
                let Event { created, sequence, .. } = claims[0].event;
                let event = Event { created, sequence, ..event };
                assert_eq!((claims.len(), &claims[0].event), (1, &event));
            }

            #[tokio::test]
            async fn a_connection_without_a_transaction_is_refused() {
                let mut place = place::<$connection>($server).await;
                let refused = place.app.put(&mut place.conn, &event()).await;
                assert!(matches!(refused, Err(Error::NoTransaction)), "{refused:?}");
                let refused = place.app.take_in(&mut place.conn, "stock", EventId::new()).await;
                assert!(matches!(refused, Err(Error::NoTransaction)), "{refused:?}");
                sqlx::raw_sql("BEGIN").execute(&mut place.conn).await.unwrap();
                place.app.put(&mut place.conn, &event()).await.expect("begun by hand is begun");
                sqlx::raw_sql("COMMIT").execute(&mut place.conn).await.unwrap();
                assert_eq!(place.count("").await, 1);
            }

            #[tokio::test]
            async fn a_group_takes_an_event_in_once_and_not_while_another_works_on_it() {
                let mut place = place::<$connection>($server).await;
                let id = EventId::new();
                for (commit, first) in [(false, true), (true, true), (true, false)] {
                    let mut tx = place.conn.begin().await.unwrap();
                    assert_eq!(place.app.take_in(&mut tx, "stock", id).await.unwrap(), first);
                    if commit {
                        tx.commit().await.unwrap();
                    } else {
                        tx.rollback().await.unwrap();
                    }
                }
                let inbox = store::open(&place.setup).await.unwrap().inbox();
                let begun = inbox.begin("mail", id, Duration::from_secs(60)).await.unwrap();
                assert!(matches!(begun, Begun::Go(_)), "{begun:?}");
                let mut tx = place.conn.begin().await.unwrap();
                let busy = place.app.take_in(&mut tx, "mail", id).await;
                assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
            }
        })+
    };
}

/// Makes a transaction lose a deadlock, and returns what becomes of an event that is put then, and
/// how many events stay when all of it was rolled back.
async fn put_after_a_deadlock(server: &str) -> (Result<(), Error>, i64) {
    let mut place = Box::pin(place::<MySqlConnection>(server)).await;
    let business = format!("{}_business", place.setup.table);
    let mut heavy = Session::open(&place.setup.url).await.unwrap();
    let rows = format!(
        "CREATE TABLE {business} (id INT PRIMARY KEY, n INT NOT NULL);
         INSERT INTO {business} VALUES (1, 0), (2, 0)"
    );
    heavy.run(rows).await.unwrap();
    // Whoever has changed more rows wins.
    let more = format!("BEGIN; INSERT INTO {business} VALUES (3, 0), (4, 0), (5, 0), (6, 0)");
    heavy.run(more).await.unwrap();
    let set = |id: u8| format!("UPDATE {business} SET n = 1 WHERE id = {id}");
    heavy.run(set(2)).await.unwrap();
    let number = heavy.number("SELECT CAST(CONNECTION_ID() AS SIGNED)").await.unwrap();
    let mut tx = place.conn.begin().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(set(1))).execute(&mut *tx).await.unwrap();
    let crossing = set(1);
    let waiting = tokio::spawn(async move { heavy.run(crossing).await });
    let mut observer = Session::open(&place.setup.url).await.unwrap();
    let waits = format!(
        "SELECT COUNT(*) FROM information_schema.innodb_trx \
         WHERE trx_mysql_thread_id = {number} AND trx_state = 'LOCK WAIT'"
    );
    // What these servers show of transactions is a copy that stays for whoever looks more often.
    while observer.number(waits.clone()).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(110)).await;
    }
    let lost = sqlx::raw_sql(AssertSqlSafe(set(2))).execute(&mut *tx).await.unwrap_err();
    assert!(lost.to_string().contains("1213"), "{lost}");
    let put = place.app.put(&mut tx, &event()).await;
    tx.rollback().await.unwrap();
    waiting.await.unwrap().unwrap();
    (put, place.count("").await)
}

#[tokio::test]
async fn an_event_after_a_lost_deadlock_is_refused_or_goes_with_the_transaction() {
    for server in ["mysql", "mariadb"] {
        let (put, events) = Box::pin(put_after_a_deadlock(server)).await;
        assert!(matches!(put, Err(Error::NoTransaction)), "{server}: {put:?}");
        assert_eq!(events, 0, "{server}");
    }
    // It begins a new transaction by itself.
    let (put, events) = Box::pin(put_after_a_deadlock("mariadb-10.5")).await;
    put.expect("a transaction is open");
    assert_eq!(events, 0);
}

applications! {
    postgres PgConnection "postgres",
    mysql MySqlConnection "mysql",
    mariadb MySqlConnection "mariadb",
    mariadb_10_5 MySqlConnection "mariadb-10.5",
}
