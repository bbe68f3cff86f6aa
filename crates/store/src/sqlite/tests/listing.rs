//! Listings and counts of more rows than one look may read.

use std::collections::HashSet;

use event::{Event, EventId, Filter, Page, Status};

use super::super::connect;
use super::{Place, bounded};
use crate::Outbox;

/// Fills the four tables: `rows` of each, one a millisecond, every tenth of them a `Rare`. Some hot
/// rows are dated back, as a producer may.
pub(super) async fn fill(place: &Place, rows: i64) {
    let mut conn = connect::writer(&place.outbox.base.path, false).await.unwrap();
    let numbers = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)";
    let event = "lower(hex(randomblob(4))) || '-' || lower(hex(randomblob(2))) || '-7000-8000-' \
                 || lower(hex(randomblob(6))), 't', iif(n % 10 = 0, 'Rare', 'Often'), \
                 'k' || (n % 5), 'x', '{}'";
    let columns = "event_id, topic, event_type, biz_key, payload, headers, created_at";
    for (table, more, values) in [
        ("", "", "iif(n % 7 = 0, n / 2, n)"),
        ("_later", ", due_at, attempts, trail", "n, n, n % 2, '[]'"),
        ("_dead", ", seq, attempts, trail, dead_at", "n, n, 1, '[]', n"),
        ("_sent", ", seq, attempts, sent_at", "n, n, 1, n"),
    ] {
        let sql = format!(
            "{numbers} INSERT INTO outbox{table} ({columns}{more}) SELECT {event}, {values} FROM n"
        );
        sqlx::query(sqlx::AssertSqlSafe(sql)).bind(rows).execute(&mut conn).await.unwrap();
    }
}

/// Reads a listing to its end. Returns the identities, and how often a page said how far it came.
async fn read_on(place: &Place, filter: &Filter, limit: usize) -> (Vec<EventId>, usize) {
    let (catalog, mut page) = (place.outbox.catalog(), Page { limit, ..Page::default() });
    let (mut ids, mut stops) = (Vec::new(), 0);
    for _ in 0..10_000 {
        let listing = catalog.find(filter, &page).await.unwrap();
        assert!(listing.searched_to.is_none() || listing.next.is_some(), "it goes on");
        stops += usize::from(listing.searched_to.is_some());
        ids.extend(listing.events.iter().map(|listed| listed.event.id));
        page.after = listing.next;
        if page.after.is_none() {
            return (ids, stops);
        }
    }
    panic!("the pages go on for ever");
}

#[tokio::test]
async fn a_search_that_stops_early_says_so_and_leaves_nothing_out() {
    let (whole, part) = (bounded(100_000).await, bounded(20).await);
    fill(&whole, 150).await;
    let copy = format!("ATTACH '{}' AS whole", whole.outbox.base.path.display());
    let mut conn = connect::writer(&part.outbox.base.path, false).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(copy)).execute(&mut conn).await.unwrap();
    for table in ["outbox", "outbox_later", "outbox_dead", "outbox_sent"] {
        let copy = format!("INSERT INTO {table} SELECT * FROM whole.{table}");
        sqlx::query(sqlx::AssertSqlSafe(copy)).execute(&mut conn).await.unwrap();
    }
    let all = Filter::default;
    let filters = [
        all(),
        Filter { kind: Some("Rare".into()), ..all() },
        Filter { kind: Some("Rare".into()), status: Some(Status::Sent), ..all() },
        Filter { topic: Some("none".into()), ..all() },
        Filter { code: Some("none".into()), ..all() },
        Filter { key: Some("k3".into()), ..all() },
        Filter { key: Some("k0".into()), kind: Some("Rare".into()), ..all() },
        Filter { status: Some(Status::New), ..all() },
        Filter { status: Some(Status::Retry), ..all() },
        Filter { status: Some(Status::Dead), key: Some("k0".into()), ..all() },
    ];
    for filter in filters {
        let (wanted, stops) = read_on(&whole, &filter, 10_000).await;
        assert_eq!(stops, 0);
        for limit in [1, 3, 50] {
            let (found, stops) = read_on(&part, &filter, limit).await;
            let [one, two] = [&wanted, &found].map(|ids| ids.iter().collect::<HashSet<_>>());
            assert_eq!((found.len(), one), (wanted.len(), two), "{filter:?} by {limit}");
            assert!(stops > 0 || limit < 50, "{filter:?} by {limit} hid that it stopped");
        }
    }
}

#[tokio::test]
async fn an_identity_is_found_wherever_it_stands_and_whatever_its_producer_dated() {
    let place = bounded(20).await;
    fill(&place, 150).await;
    let (ids, _) = read_on(&place, &Filter::default(), 1000).await;
    assert_eq!(ids.len(), 600);
    for id in ids {
        let one = Filter { id: Some(id), ..Filter::default() };
        assert_eq!(read_on(&place, &one, 10).await, (vec![id], 0));
    }
    // Near its own moment, and then in the whole table.
    let near = Event::new("t", "T", "{}");
    place.outbox.put(std::slice::from_ref(&near), None).await.unwrap();
    let one = Filter { id: Some(near.id), ..Filter::default() };
    assert_eq!(read_on(&place, &one, 10).await, (vec![near.id], 0));
}

#[tokio::test]
async fn beyond_its_bound_a_count_is_an_estimate_from_above_and_says_so() {
    let (whole, part) = (bounded(100_000).await, bounded(20).await);
    for place in [&whole, &part] {
        fill(place, 150).await;
    }
    let counts = whole.outbox.catalog().count().await.unwrap();
    assert_eq!((counts.new, counts.retry, counts.dead, counts.exact), (225, 75, 150, true));
    let counts = part.outbox.catalog().count().await.unwrap();
    assert_eq!((counts.new, counts.retry, counts.dead, counts.exact), (225, 75, 150, false));
}
