//! What a page of PostgreSQL's history, and a step of its upkeep, pass over and read.

use std::time::Duration;

use event::{Filter, Keep, Page, Status};
use fastrand::Rng;
use it::session::Session;

use super::{LEASE, Place, Row, made_at};

const DAY: Duration = Duration::from_secs(86_400);

async fn old_rows_are_trimmed_beside_random_identities_that_are_everywhere(server: &str) {
    const RANDOM: i64 = 5_000;
    let mut place = Place::new(server).await;
    let (table, now) = (place.table.clone(), place.clock.now().0);
    // On both sides of every identity of version 7, and none of them is old.
    let sql = format!(
        "INSERT INTO {table}_sent (event_id, topic, event_type, payload, headers, created_at, seq, \
         attempts, sent_at, stray) \
         SELECT CASE WHEN n % 2 = 0 THEN '0000' ELSE 'ffff' END \
         || substr(gen_random_uuid()::text, 5), 't', 'T', 'x', '{{}}', {now}, n, 1, {now}, true \
         FROM generate_series(1, {RANDOM}) AS n"
    );
    place.session.run(sql).await.unwrap();
    let mut rng = Rng::new();
    let old = |at| {
        let created = now - 30 * DAY.as_millis() as i64 - at;
        Row { id: made_at(&mut rng, created), created, kind: "A", key: "k", stray: false }
    };
    place.write(&(0..20).map(old).collect::<Vec<_>>()).await;
    // Too long to go by the day.
    let keep = Keep { sent: 20 * DAY, inbox: 60 * DAY, step: 10, lease: LEASE };
    let mut gone = 0;
    while gone < 20 {
        let swept = place.outbox.chores().sweep(&keep).await.unwrap();
        assert!(swept.sent > 0, "{gone} of 20 old rows went");
        gone += swept.sent;
    }
    let left = place.session.number(format!("SELECT count(*) FROM {table}_sent")).await.unwrap();
    assert_eq!((gone, left), (20, RANDOM));
    place.outbox.close().await;
}

async fn random_identities_are_neither_passed_over_one_by_one_nor_counted(server: &str) {
    const RANDOM: i64 = 101_000;
    let mut place = Place::new(server).await;
    let (table, now) = (place.table.clone(), place.clock.now().0);
    let from = now - RANDOM;
    let sql = format!(
        "INSERT INTO {table}_sent (event_id, topic, event_type, biz_key, payload, headers, \
         created_at, seq, attempts, sent_at, stray) \
         SELECT gen_random_uuid()::text, 't', CASE WHEN n % 1000 = 0 THEN 'A' ELSE 'B' END, 'k', \
         'x', '{{}}', {from} + n, n, 1, {from} + n, true FROM generate_series(1, {RANDOM}) AS n"
    );
    place.session.run(sql).await.unwrap();
    let mut rng = Rng::new();
    let own = |at| {
        let (created, kind, key) = (now - at, "B", "k");
        Row { id: made_at(&mut rng, created), created, kind, key, stray: false }
    };
    place.write(&(0..20).map(own).collect::<Vec<_>>()).await;
    place.session.run(format!("ANALYZE {table}_sent")).await.unwrap();
    let page = Page { limit: 10, after: None, payloads: false };
    let sent = Filter { status: Some(Status::Sent), ..Filter::default() };
    let few = Filter { kind: Some("A".to_owned()), ..sent.clone() };
    let found = place.outbox.catalog().find(&few, &page).await.unwrap();
    assert_eq!(found.events.len(), 10, "they are among the newest: {found:?}");

    let read = entries(place, &sent, &page).await;
    assert!(read < 1_000, "{read} index entries were read for ten rows");
}

async fn a_later_page_reads_what_was_created_within_a_second_of_it(server: &str) {
    const ROWS: i64 = 20_000;
    let mut place = Place::new(server).await;
    let (table, now) = (place.table.clone(), place.clock.now().0);
    // One each millisecond.
    let moment = format!("lpad(to_hex({now} - n), 12, '0')");
    let sql = format!(
        "INSERT INTO {table}_sent (event_id, topic, event_type, payload, headers, created_at, seq, \
         attempts, sent_at, stray) \
         SELECT overlay({moment} PLACING '-' FROM 9 FOR 0) || '-7' \
         || substr(gen_random_uuid()::text, 16), 't', 'T', 'x', '{{}}', {now} - n, n, 1, \
         {now} - n, false FROM generate_series(1, {ROWS}) AS n"
    );
    place.session.run(sql).await.unwrap();
    place.session.run(format!("ANALYZE {table}_sent")).await.unwrap();
    let sent = Filter { status: Some(Status::Sent), ..Filter::default() };
    let mut page = Page { limit: 10, after: None, payloads: false };
    page.after = place.outbox.catalog().find(&sent, &page).await.unwrap().next;
    // A second after its beginning, passed over and read; and one before its end.
    let read = entries(place, &sent, &page).await;
    assert!(read < 3_500, "{read} index entries were read for ten rows");
}

/// Returns how many index entries of history are read for a page of ten rows.
async fn entries(mut place: Place, filter: &Filter, page: &Page) -> i64 {
    let read = format!(
        "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes \
         WHERE relname LIKE '{}_sent_%'",
        place.table
    );
    let other = store::open(&place.setup).await.unwrap();
    place.outbox.close().await;
    let before = told(&mut place.session, &read, 0).await;
    let found = other.catalog().find(filter, page).await.unwrap();
    assert_eq!(found.events.len(), 10);
    other.close().await;
    told(&mut place.session, &read, before).await - before
}

/// Returns a count of the server's, once it is more than it was: sessions tell theirs at their end.
async fn told(session: &mut Session, sql: &str, before: i64) -> i64 {
    tokio::time::timeout(LEASE, async {
        loop {
            let now = session.number(sql.to_owned()).await.unwrap();
            if now > before {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the server counts what is read")
}

mod trimmed {
    use super::old_rows_are_trimmed_beside_random_identities_that_are_everywhere as test;

    #[tokio::test]
    async fn on_postgres() {
        test("postgres").await;
    }
}

mod later {
    use super::a_later_page_reads_what_was_created_within_a_second_of_it as test;

    #[tokio::test]
    async fn on_postgres() {
        test("postgres").await;
    }
}

mod random {
    use super::random_identities_are_neither_passed_over_one_by_one_nor_counted as test;

    #[tokio::test]
    async fn on_postgres() {
        test("postgres").await;
    }
}
