//! An event and the business data stand or fall together, and each event is taken in once.

use event::{EventId, Millis};
use postbox::{Error, Event, Outbox};
use sqlx::{Connection, Row, SqliteConnection};

struct Place {
    _folder: tempfile::TempDir,
    url: String,
}

async fn place() -> Place {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let url = format!("sqlite:{}", folder.path().join("orders.sqlite3").display());
    postbox::migrate(&url).await.expect("an empty file takes the schema");
    let mut conn = SqliteConnection::connect(&url).await.expect("the file opens");
    let orders = "CREATE TABLE orders (id TEXT PRIMARY KEY)";
    sqlx::query(orders).execute(&mut conn).await.expect("a table can be made");
    Place { _folder: folder, url }
}

async fn count(conn: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(conn).await.expect("one row").get(0)
}

fn event() -> Event {
    Event::new("order.paid", "OrderPaid", r#"{"total": 42}"#).key("123")
}

#[tokio::test]
async fn what_is_rolled_back_leaves_no_event_and_what_is_committed_leaves_one() {
    let place = place().await;
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    for (commit, expected) in [(false, 0), (true, 1)] {
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ('123')").execute(&mut *tx).await.unwrap();
        postbox::put(&mut tx, &event()).await.unwrap();
        if commit {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(count(&mut conn, "SELECT count(*) FROM orders").await, expected);
        assert_eq!(count(&mut conn, "SELECT count(*) FROM outbox").await, expected);
    }
}

#[tokio::test]
async fn an_event_is_written_as_it_was_given() {
    let place = place().await;
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    let event = event().header("traceparent", "00-1");
    let mut tx = conn.begin().await.unwrap();
    postbox::put(&mut tx, &event).await.unwrap();
    tx.commit().await.unwrap();
    let row =
        sqlx::query("SELECT event_id, topic, event_type, biz_key, payload, headers FROM outbox")
            .fetch_one(&mut conn)
            .await
            .unwrap();
    let columns: Vec<String> = (0..6).map(|at| row.get(at)).collect();
    let id = event.id.to_string();
    let headers = r#"{"traceparent":"00-1"}"#;
    assert_eq!(columns, [&id, "order.paid", "OrderPaid", "123", r#"{"total": 42}"#, headers]);
}

#[tokio::test]
async fn a_connection_without_a_transaction_is_refused() {
    let place = place().await;
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    let refused = postbox::put(&mut conn, &event()).await;
    assert!(matches!(refused, Err(Error::NoTransaction)), "{refused:?}");
    let refused = postbox::inbox::take_in(&mut conn, "stock", EventId::new()).await;
    assert!(matches!(refused, Err(Error::NoTransaction)), "{refused:?}");
    assert_eq!(count(&mut conn, "SELECT count(*) FROM outbox").await, 0);

    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
    postbox::put(&mut conn, &event()).await.expect("begun by hand is begun");
    sqlx::raw_sql("COMMIT").execute(&mut conn).await.unwrap();
    assert_eq!(count(&mut conn, "SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn a_delayed_event_waits_in_the_later_table() {
    let place = place().await;
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    postbox::put_at(&mut tx, &event(), Millis(4_102_444_800_000)).await.unwrap();
    tx.commit().await.unwrap();
    let due = count(&mut conn, "SELECT due_at FROM outbox_later").await;
    assert_eq!(due, 4_102_444_800_000);
}

#[tokio::test]
async fn what_is_no_event_is_refused_before_the_database_is_asked() {
    let place = place().await;
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let nameless = Event::new("", "OrderPaid", "{}");
    assert!(matches!(postbox::put(&mut tx, &nameless).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_group_takes_an_event_in_once_and_again_only_after_a_rollback() {
    let place = place().await;
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    let id = EventId::new();
    for (commit, first) in [(false, true), (true, true), (true, false)] {
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
        assert_eq!(postbox::inbox::take_in(&mut tx, "stock", id).await.unwrap(), first);
        if commit {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(postbox::inbox::take_in(&mut tx, "mail", id).await.unwrap(), "groups are apart");
}

#[tokio::test]
async fn an_outbox_of_another_name_has_tables_of_its_own() {
    let place = place().await;
    let setup = store::Setup { table: "bills".into(), ..store::Setup::new(&place.url) };
    store::open(&setup).await.unwrap().migrate().await.unwrap();
    let mut conn = SqliteConnection::connect(&place.url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    Outbox::named("bills").unwrap().put(&mut tx, &event()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(count(&mut conn, "SELECT count(*) FROM bills").await, 1);
    assert_eq!(count(&mut conn, "SELECT count(*) FROM outbox").await, 0);
    Outbox::named("bills; DROP TABLE orders").unwrap_err();
}
