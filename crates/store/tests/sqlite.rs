//! The SQLite outbox from outside: what strangers write, what is refused, and what stays unwritten.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use event::{
    Begun, Claim, Code, Event, EventId, Filter, InboxEnd, Keep, Order, Outcome, Page, Receipt,
    Source, Status, StoreError, Topics, Want,
};
use postbox_store::sqlite::Tables;
use postbox_store::{Finding, Grade, Lane, Now, Outbox, Setup};
use sqlx::{Connection, Row, SqliteConnection};
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(30);
const START: i64 = 1_700_000_000_000;

struct Place {
    _folder: TempDir,
    setup: Setup,
    clock: Arc<AtomicI64>,
}

impl Place {
    async fn new() -> Place {
        let place = Place::empty();
        place.relay().await.migrate().await.expect("an empty file takes the schema");
        place
    }

    fn empty() -> Place {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let clock = Arc::new(AtomicI64::new(START));
        let url = format!("sqlite:{}", folder.path().join("outbox.sqlite3").display());
        let setup = Setup { now: Now::Hand(clock.clone()), ..Setup::new(url) };
        Place { _folder: folder, setup, clock }
    }

    async fn relay(&self) -> Arc<dyn Outbox> {
        postbox_store::open(&self.setup).await.expect("a handle opens")
    }

    async fn stranger(&self) -> SqliteConnection {
        SqliteConnection::connect(&self.setup.url).await.expect("the file opens")
    }

    fn pass(&self, time: Duration) {
        self.clock.fetch_add(time.as_millis() as i64, Ordering::SeqCst);
    }
}

fn lane(relay: &Arc<dyn Outbox>) -> Arc<dyn Source> {
    relay.lane(Lane { topics: Topics::all(), order: Order::Hold })
}

async fn claim(lane: &Arc<dyn Source>) -> Vec<Claim> {
    let want = Want { limit: 100, bytes: 1 << 20, lease: LEASE };
    lane.claim(&want).await.expect("the store hands out")
}

fn done() -> Outcome {
    Outcome::Done(Receipt { broker_id: Some("b-1".into()) })
}

async fn number(conn: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(conn).await.expect("one row").get(0)
}

#[tokio::test]
async fn a_plain_insert_is_a_whole_producer() {
    let place = Place::new().await;
    let mut conn = place.stranger().await;
    let insert = "INSERT INTO outbox (topic, event_type, biz_key, payload)
                  VALUES ('order.paid', 'OrderPaid', '123', '{}'), ('a', 'A', NULL, '')";
    sqlx::raw_sql(insert).execute(&mut conn).await.unwrap();
    let claims = claim(&lane(&place.relay().await)).await;
    assert_eq!(claims.len(), 2);
    assert_ne!(claims[0].event.id, claims[1].event.id, "each row has an identity of its own");
    let version = claims[0].event.id.uuid().get_version_num();
    assert_eq!(version, 7, "made by the database, sortable by time");
    assert_eq!(claims[0].event.key.as_deref(), Some("123"));
}

#[tokio::test]
async fn a_row_that_is_no_event_is_refused_with_the_name_of_the_rule() {
    let place = Place::new().await;
    let mut conn = place.stranger().await;
    for (insert, rule) in [
        ("(topic, event_type) VALUES ('a', 'A')", "exactly_one_of_payload_and_payload_bytes"),
        (
            "(topic, event_type, payload, payload_bytes) VALUES ('a', 'A', '', x'')",
            "exactly_one_of_payload_and_payload_bytes",
        ),
        ("(topic, event_type, payload) VALUES ('', 'A', '')", "topic_has_1_to_255_bytes"),
        ("(topic, event_type, payload) VALUES ('a', '', '')", "event_type_has_1_to_255_bytes"),
        (
            "(topic, event_type, payload, biz_key) VALUES ('a', 'A', '', '')",
            "biz_key_has_1_to_255_bytes",
        ),
        (
            "(topic, event_type, payload, event_id) VALUES ('a', 'A', '', 'ABC')",
            "event_id_is_a_lowercase_uuid",
        ),
        (
            "(topic, event_type, payload, headers) VALUES ('a', 'A', '', '[1]')",
            "headers_is_a_json_object",
        ),
    ] {
        for table in ["outbox", "outbox_later"] {
            let sql = match table {
                "outbox" => format!("INSERT INTO outbox {insert}"),
                _ => {
                    let insert = insert.replacen("(topic", "(due_at, topic", 1);
                    format!(
                        "INSERT INTO outbox_later {}",
                        insert.replace("VALUES (", "VALUES (0, ")
                    )
                }
            };
            let refused = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await;
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(rule), "{table} {rule}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_dead_and_stops_nobody() {
    let place = Place::new().await;
    let mut conn = place.stranger().await;
    let insert = "INSERT INTO outbox (topic, event_type, payload, headers)
                  VALUES ('a', 'Number', '', '{\"n\": 1e999}'),
                         ('a', 'Letter', CAST(x'ff' AS TEXT), '{}'), ('a', 'Good', '', '{}');
                  INSERT INTO outbox_later (topic, event_type, payload, headers, due_at, biz_key)
                  VALUES ('a', 'Later', '', '{\"n\": 1e999}', 0, 'k')";
    sqlx::raw_sql(insert).execute(&mut conn).await.unwrap();
    let relay = place.relay().await;
    let lane = lane(&relay);
    let claims = claim(&lane).await;
    let kinds: Vec<&str> = claims.iter().map(|claim| &*claim.event.kind).collect();
    assert_eq!(kinds, ["Good"]);
    let filter = Filter { code: Some(Code::BadEvent.to_string()), ..Filter::default() };
    let page = Page { limit: 10, after: None, payloads: true };
    let dead = relay.catalog().find(&filter, &page).await.unwrap().events;
    assert_eq!(dead.len(), 3);
    assert!(dead.iter().all(|listed| listed.status == Status::Dead && !listed.trail.is_empty()));
    assert_eq!(lane.settle(&[claims[0].end(done())]).await.unwrap().settled, 1);
    assert_eq!(relay.catalog().count().await.unwrap().pending(), 0);
}

#[tokio::test]
async fn a_claim_that_finds_nothing_writes_nothing() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let (first, second) = (lane(&relay), lane(&place.relay().await));
    relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap();
    let claims = claim(&first).await;
    first.settle(&[claims[0].end(done())]).await.unwrap();
    let mut conn = place.stranger().await;
    let before = number(&mut conn, "PRAGMA data_version").await;
    for _ in 0..3 {
        // A later moment, because SQLite leaves out writes that change nothing.
        place.pass(Duration::from_secs(1));
        assert!(claim(&first).await.is_empty() && claim(&second).await.is_empty());
    }
    first.wait(Duration::from_millis(20)).await;
    assert_eq!(number(&mut conn, "PRAGMA data_version").await, before);
    place.pass(LEASE / 2);
    assert!(claim(&first).await.is_empty());
    assert_ne!(number(&mut conn, "PRAGMA data_version").await, before, "the lease was renewed");
}

#[tokio::test]
async fn a_lane_that_waits_keeps_its_lease() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let (first, second) = (lane(&relay), lane(&place.relay().await));
    relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap();
    let claims = claim(&first).await;
    first.settle(&[claims[0].end(done())]).await.unwrap();
    for _ in 0..4 {
        place.pass(LEASE / 2);
        first.wait(Duration::from_millis(1)).await;
    }
    relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap();
    assert!(claim(&second).await.is_empty(), "it is still the first one's");
    assert_eq!(claim(&first).await.len(), 1);
}

#[tokio::test]
async fn a_wait_ends_when_a_claim_is_overdue_and_the_next_turn_has_its_rows() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let (first, second) = (lane(&relay), lane(&place.relay().await));
    relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap();
    let claims = claim(&first).await;
    for _ in 0..2 {
        place.pass(LEASE / 2);
        first.wait(Duration::from_millis(1)).await;
    }
    first.wait(Duration::from_secs(600)).await;
    assert!(claim(&second).await.is_empty(), "the first relay lives");
    let again = claim(&first).await;
    assert_eq!((again.len(), again[0].attempt), (1, 2), "nobody said what became of the first");
    assert_eq!(first.settle(&[claims[0].end(done())]).await.unwrap().stale.len(), 1);
}

#[tokio::test]
async fn a_ring_or_a_strangers_insert_ends_a_wait() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let lane = lane(&relay);
    assert!(claim(&lane).await.is_empty());
    let long = Duration::from_secs(60);
    let ((), ()) = tokio::join!(lane.wait(long), async { relay.ring() });

    assert!(claim(&lane).await.is_empty());
    let mut conn = place.stranger().await;
    let insert = "INSERT INTO outbox (topic, event_type, payload) VALUES ('a', 'A', '')";
    let ((), inserted) = tokio::join!(lane.wait(long), sqlx::raw_sql(insert).execute(&mut conn));
    inserted.unwrap();
    assert_eq!(claim(&lane).await.len(), 1);
}

#[tokio::test]
async fn a_lane_that_stops_leaves_the_others_of_its_relay_at_work() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let of = |pattern: &str| {
        let topics = Topics::of(vec![(pattern.parse().unwrap(), true)]);
        relay.lane(Lane { topics, order: Order::Hold })
    };
    let (a, b) = (of("a"), of("b"));
    let other = lane(&place.relay().await);
    relay.put(&[Event::new("a", "A", "{}"), Event::new("b", "B", "{}")], None).await.unwrap();
    let (held_a, held_b) = (claim(&a).await, claim(&b).await);
    a.release().await.unwrap();
    assert!(claim(&other).await.is_empty(), "b is still in flight");
    assert_eq!(a.settle(&[held_a[0].end(done())]).await.unwrap().stale.len(), 1);
    assert_eq!(b.settle(&[held_b[0].end(done())]).await.unwrap().settled, 1);
    b.release().await.unwrap();
    let claims = claim(&other).await;
    assert_eq!((claims.len(), claims[0].attempt), (1, 1), "a release spends no attempt");
}

#[tokio::test]
async fn opening_makes_no_file_and_migrating_twice_changes_nothing() {
    let place = Place::empty();
    let relay = place.relay().await;
    let path = place.setup.url.trim_start_matches("sqlite:");
    assert_eq!(relay.schema().await.unwrap().found, 0);
    let refused = relay.catalog().count().await.unwrap_err();
    assert!(matches!(refused, StoreError::Down(_)), "{refused}");
    assert!(!std::path::Path::new(path).exists());
    assert!(relay.examine().await.unwrap().iter().any(|finding| finding.grade == Grade::Bad));

    let once = relay.migrate().await.unwrap();
    relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap();
    assert_eq!(relay.migrate().await.unwrap(), once);
    assert_eq!(relay.catalog().count().await.unwrap().new, 1);
    let findings = relay.examine().await.unwrap();
    let good = |finding: &&Finding| finding.grade == Grade::Good && finding.what != "clock";
    assert_eq!(findings.iter().filter(good).count(), findings.len() - 1, "{findings:?}");
}

#[tokio::test]
async fn a_schema_that_is_missing_or_unknown_is_refused() {
    let place = Place::empty();
    let path = place.setup.url.trim_start_matches("sqlite:");
    std::fs::write(path, "").unwrap();
    let refused = place.relay().await.put(&[Event::new("a", "A", "{}")], None).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Broken(cause) if cause.code == Code::SchemaMissing));

    place.relay().await.migrate().await.unwrap();
    let mut conn = place.stranger().await;
    sqlx::raw_sql("INSERT INTO outbox_schema (version) VALUES (99)")
        .execute(&mut conn)
        .await
        .unwrap();
    let relay = place.relay().await;
    assert_eq!(relay.schema().await.unwrap().found, 99);
    for refused in [
        relay.migrate().await.unwrap_err(),
        relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap_err(),
        relay.catalog().count().await.unwrap_err(),
    ] {
        let unknown =
            matches!(&refused, StoreError::Broken(cause) if cause.code == Code::SchemaUnknown);
        assert!(unknown, "{refused}");
    }
}

#[tokio::test]
async fn the_printed_migration_is_the_one_that_is_applied() {
    let (printed, applied) = (Place::empty(), Place::new().await);
    let path = printed.setup.url.trim_start_matches("sqlite:");
    std::fs::write(path, "").unwrap();
    let text = printed.relay().await.migration();
    let mut by_hand = printed.stranger().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut by_hand).await.unwrap();
    assert_eq!(printed.relay().await.schema().await.unwrap().found, 1);
    let mut by_us = applied.stranger().await;
    let schema = "SELECT group_concat(name || sql, ';') FROM sqlite_master";
    let [one, two] = [&mut by_hand, &mut by_us].map(|conn| sqlx::query(schema).fetch_one(conn));
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!(one.get::<String, _>(0), two.get::<String, _>(0));
}

#[tokio::test]
async fn a_writer_that_stays_is_told_as_busy() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let mut conn = place.stranger().await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
    let refused = relay.put(&[Event::new("a", "A", "{}")], None).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Down(cause) if cause.code == Code::StoreBusy),
        "{refused}"
    );
    sqlx::raw_sql("COMMIT").execute(&mut conn).await.unwrap();
    relay.put(&[Event::new("a", "A", "{}")], None).await.expect("it goes on");
}

#[tokio::test]
async fn the_view_shows_every_row_under_the_names_that_people_know() {
    let place = Place::new().await;
    let relay =
        postbox_store::open(&Setup { now: Now::Database, ..place.setup.clone() }).await.unwrap();
    let lane = lane(&relay);
    let kinds = ["Sent", "Dead", "Retry", "Out", "New"];
    let events: Vec<Event> = kinds.iter().map(|kind| Event::new("a", *kind, "{}")).collect();
    relay.put(&events[..4], None).await.unwrap();
    let claims = claim(&lane).await;
    let cause = || event::Cause::new(Code::SinkRefused, "no");
    let ends = [
        claims[0].end(done()),
        claims[1].end(Outcome::Dead(cause())),
        claims[2].end(Outcome::Retry { after: LEASE, cause: cause() }),
    ];
    lane.settle(&ends).await.unwrap();
    relay.put(&events[4..], None).await.unwrap();
    let due = event::Millis(i64::MAX);
    relay.put(&[Event::new("a", "Delayed", "{}")], Some(due)).await.unwrap();
    let mut conn = place.stranger().await;
    let rows = sqlx::query(
        "SELECT event_type, status, attempts, last_error, broker_message_id FROM outbox_events
         ORDER BY event_type",
    );
    let rows = rows.fetch_all(&mut conn).await.unwrap();
    type Shown = (String, String, i64, Option<String>, Option<String>);
    let shown: Vec<Shown> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)))
        .collect();
    let row = |kind: &str, status: &str, attempts, error: Option<&str>, broker: Option<&str>| {
        let (error, broker) = (error.map(str::to_owned), broker.map(str::to_owned));
        (kind.to_owned(), status.to_owned(), attempts, error, broker)
    };
    let refused = Some("sink-refused: no");
    assert_eq!(
        shown,
        [
            row("Dead", "DEAD", 1, refused, None),
            row("Delayed", "NEW", 0, None, None),
            row("New", "NEW", 0, None, None),
            row("Out", "DISPATCHING", 1, None, None),
            row("Retry", "RETRY", 1, refused, None),
            row("Sent", "SENT", 1, None, Some("b-1")),
        ]
    );
    let due = "SELECT event_id, next_attempt_at FROM outbox_events ORDER BY event_id";
    let due = sqlx::query_as::<_, (String, Option<i64>)>(due).fetch_all(&mut conn).await.unwrap();
    let page = Page { limit: 10, ..Page::default() };
    let mut listed = relay.catalog().find(&Filter::default(), &page).await.unwrap().events;
    listed.sort_by_key(|one| one.event.id);
    let told = listed.iter().map(|one| (one.event.id.to_string(), one.next_attempt.map(|at| at.0)));
    assert_eq!(due, told.collect::<Vec<_>>(), "the catalog says the same");
}

#[tokio::test]
async fn history_from_a_clock_that_was_ahead_does_not_stop_the_trimming() {
    let place = Place::new().await;
    let relay = place.relay().await;
    let lane = lane(&relay);
    let publish = async |count: usize| {
        let events: Vec<Event> = (0..count).map(|_| Event::new("a", "A", "{}")).collect();
        relay.put(&events, None).await.unwrap();
        let ends: Vec<_> = claim(&lane).await.iter().map(|claim| claim.end(done())).collect();
        assert_eq!(lane.settle(&ends).await.unwrap().settled, count);
    };
    let day = Duration::from_secs(86_400);
    let keep = Keep { sent: 7 * day, inbox: 7 * day, step: 10, lease: LEASE };
    place.pass(3650 * day);
    for _ in 0..11 {
        publish(100).await;
    }
    place.clock.store(START, Ordering::SeqCst);
    // The lease of the shard, too, was taken by that clock.
    lane.release().await.unwrap();
    publish(25).await;
    place.pass(4 * day);
    publish(5).await;
    place.pass(3 * day + Duration::from_secs(1));
    let mut swept = Vec::new();
    for _ in 0..4 {
        swept.push(relay.chores().sweep(&keep).await.unwrap().sent);
    }
    assert_eq!(swept, [10, 10, 5, 0]);
    let sent = Filter { status: Some(Status::Sent), ..Filter::default() };
    let page = Page { limit: 2000, ..Page::default() };
    let left = relay.catalog().find(&sent, &page).await.unwrap().events.len();
    assert_eq!(left, 1100 + 5);
}

#[tokio::test]
async fn chores_that_a_clock_ahead_has_leased_are_taken_over() {
    let place = Place::new().await;
    let keep = Keep { sent: LEASE, inbox: LEASE, step: 10, lease: LEASE };
    place.pass(3650 * 86_400 * Duration::from_secs(1));
    assert!(!place.relay().await.chores().sweep(&keep).await.unwrap().elsewhere);
    place.clock.store(START, Ordering::SeqCst);
    assert!(!place.relay().await.chores().sweep(&keep).await.unwrap().elsewhere);
    assert!(place.relay().await.chores().sweep(&keep).await.unwrap().elsewhere);
}

#[tokio::test]
async fn taking_in_waits_for_whoever_holds_the_event() {
    let place = Place::new().await;
    let setup = Setup { now: Now::Database, ..place.setup.clone() };
    let inbox = postbox_store::open(&setup).await.unwrap().inbox();
    let tables = Tables::named("outbox").unwrap();
    let mut conn = place.stranger().await;
    let (held, free) = (EventId::new(), EventId::new());
    let Ok(Begun::Go(fence)) = inbox.begin("stock", held, LEASE).await else { panic!("free") };
    let busy = tables.take_in(&mut conn, "stock", held).await.unwrap();
    assert!(matches!(busy, Begun::Busy { .. }), "{busy:?}");
    assert_eq!(inbox.finish("stock", held, fence, InboxEnd::Processed).await, Ok(true));
    assert_eq!(tables.take_in(&mut conn, "stock", held).await.unwrap(), Begun::Done);

    let Ok(Begun::Go(late)) = inbox.begin("stock", free, Duration::ZERO).await else {
        panic!("free")
    };
    let taken = tables.take_in(&mut conn, "stock", free).await.unwrap();
    assert!(matches!(taken, Begun::Go(fence) if fence > late), "its holder fell silent: {taken:?}");
    assert_eq!(inbox.finish("stock", free, late, InboxEnd::Processed).await, Ok(false));
}
