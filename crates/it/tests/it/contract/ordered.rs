//! History is listed in the order of time, whatever its identities say: each row once, on every
//! page size, whether its identity was made when it was created, long before, ahead, or at random.

mod cost;

use std::sync::Arc;
use std::time::Duration;

use event::{Event, EventId, Filter, Listed, Outcome, Page, Receipt, Status, Topics, Want};
use fastrand::Rng;
use it::clock::HandClock;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);

/// How far an identity's moment may be from its row's, for the row to be no stray.
const DRIFT: i64 = 1_000;

/// How far ahead a row may be dated, for it to be no stray.
const HOUR: i64 = 3_600_000;

/// How far identities are from their rows, and whether a relay takes those rows for strays.
const DRIFTS: [(i64, bool); 8] = [
    (0, false),
    (1, false),
    (-DRIFT, false),
    (DRIFT, false),
    (-DRIFT - 1, true),
    (DRIFT + 1, true),
    (-86_400_000, true),
    (86_400_000, true),
];

struct Place {
    table: String,
    setup: Setup,
    clock: HandClock,
    outbox: Arc<dyn Outbox>,
    session: Session,
}

impl Place {
    async fn new(server: &str) -> Place {
        let clock = HandClock::new();
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup::new(need(server).detail("url"));
        let setup = Setup { table: table.clone(), now: clock.hand(), ..setup };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let session = Session::open(&setup.url).await.unwrap();
        Place { table, setup, clock, outbox, session }
    }

    /// Writes rows of history down. Their days are all of the ring.
    async fn write(&mut self, rows: &[Row]) {
        let (more, is_postgres) = match self.session.is_postgres() {
            true => (", stray", true),
            false => ("", false),
        };
        let mut values = Vec::new();
        for (at, Row { id, created, kind, key, stray }) in rows.iter().enumerate() {
            let stray = if is_postgres { format!(", {stray}") } else { String::new() };
            let sent = 86_400_000 * at;
            values.push(format!(
                "('{id}', 't', '{kind}', '{key}', 'x', '{{}}', {created}, {at}, 1, {sent}{stray})"
            ));
        }
        let sql = format!(
            "INSERT INTO {}_sent (event_id, topic, event_type, biz_key, payload, headers, \
             created_at, seq, attempts, sent_at{more}) VALUES {}",
            self.table,
            values.join(", ")
        );
        self.session.run(sql).await.unwrap();
    }

    /// Publishes events now, together.
    async fn publish(&self, events: &[Event]) {
        self.outbox.put(events, None).await.unwrap();
        self.settle(events.len()).await;
    }

    /// Settles so many events that wait, together.
    async fn settle(&self, count: usize) {
        let lane = self.outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let want = Want { limit: count, bytes: 1 << 20, lease: LEASE };
        let claims = lane.claim(&want).await.unwrap();
        let done = || Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done())).collect();
        assert_eq!(lane.settle(&ends).await.unwrap().settled, count);
        lane.release().await.unwrap();
    }

    /// Tells whether a row of PostgreSQL's history is called a stray.
    async fn is_stray(&mut self, id: EventId) -> bool {
        let table = &self.table;
        let sql = format!("SELECT count(*) FROM {table}_sent WHERE event_id = '{id}' AND stray");
        self.session.number(sql).await.unwrap() == 1
    }

    /// Lists everything, page by page.
    async fn pages(&self, filter: &Filter, limit: usize) -> Vec<(i64, String)> {
        let mut page = Page { limit, after: None, payloads: false };
        let mut came = Vec::new();
        loop {
            let listing = self.outbox.catalog().find(filter, &page).await.unwrap();
            came.extend(listing.events.iter().map(place_of));
            page.after = listing.next;
            if page.after.is_none() {
                return came;
            }
            assert!(came.len() < 10_000, "the pages go on for ever");
        }
    }
}

struct Row {
    id: EventId,
    created: i64,
    kind: &'static str,
    key: &'static str,
    stray: bool,
}

fn place_of(listed: &Listed) -> (i64, String) {
    (listed.event.created.0, listed.event.id.to_string())
}

/// Makes an identity of a moment, of version 7.
fn made_at(rng: &mut Rng, moment: i64) -> EventId {
    let moment = u128::try_from(moment.clamp(0, (1 << 47) - 1)).unwrap();
    let rest = rng.u128(..) & 0x0fff_3fff_ffff_ffff_ffff;
    EventId::from_uuid(Uuid::from_u128(moment << 80 | 7 << 76 | 1 << 63 | rest))
}

fn random(rng: &mut Rng) -> EventId {
    EventId::from_uuid(uuid::Builder::from_random_bytes(rng.u128(..).to_be_bytes()).into_uuid())
}

/// Makes rows of some seconds, many of them of the same moments.
fn rows(rng: &mut Rng, count: usize) -> Vec<Row> {
    let (around, spread) = (HandClock::new().now().0 - 10_000, [5, 400, 5_000][rng.usize(..3)]);
    let row = |_| {
        let created = match rng.u32(..20) {
            0 => [0, 999, -1, 1 << 41][rng.usize(..4)],
            _ => around + rng.i64(..spread),
        };
        let drift = match rng.u32(..3) {
            0 => DRIFTS[rng.usize(..DRIFTS.len())].0,
            _ => rng.i64(-DRIFT..=DRIFT),
        };
        let moment = (created + drift).max(0);
        let is_far = (moment - created).abs() > DRIFT || created > around + HOUR;
        let id = match rng.u32(..8) {
            0 => (random(rng), true),
            _ => (made_at(rng, moment), is_far),
        };
        // Whoever does not know calls it a stray.
        let stray = id.1 || rng.u32(..6) == 0;
        let (kind, key) = (["A", "B"][rng.usize(..2)], ["k", "l"][rng.usize(..2)]);
        Row { id: id.0, created, kind, key, stray }
    };
    (0..count).map(row).collect()
}

async fn history_is_listed_in_the_order_of_time_and_each_row_once(server: &str) {
    for _ in 0..4 {
        let seed = fastrand::u64(..);
        let mut rng = Rng::with_seed(seed);
        let mut place = Place::new(server).await;
        let rows = rows(&mut rng, 150);
        place.write(&rows).await;
        let (kind, key) = (Some("A".to_owned()), Some("k".to_owned()));
        let sent = Filter { status: Some(Status::Sent), ..Filter::default() };
        for filter in [
            Filter::default(),
            sent.clone(),
            Filter { kind: kind.clone(), ..sent.clone() },
            Filter { key: key.clone(), ..sent.clone() },
            Filter { key, kind, ..sent.clone() },
            Filter { topic: Some("none".into()), ..sent },
        ] {
            let fits = |row: &&Row| {
                filter.kind.as_ref().is_none_or(|kind| kind == row.kind)
                    && filter.key.as_ref().is_none_or(|key| key == row.key)
                    && filter.topic.is_none()
            };
            let wanted = rows.iter().filter(fits).map(|row| (row.created, row.id.to_string()));
            let mut wanted: Vec<_> = wanted.collect();
            wanted.sort_by(|one, other| other.cmp(one));
            for limit in [1, 7, 1_000] {
                let came = place.pages(&filter, limit).await;
                assert_eq!(came, wanted, "seed {seed}, pages of {limit}, {filter:?}");
            }
        }
        place.outbox.close().await;
    }
}

async fn a_relay_calls_every_row_a_stray_that_its_identity_does_not_find(server: &str) {
    let mut place = Place::new(server).await;
    let mut rng = Rng::new();
    let event = |id| Event { id, ..Event::new("t", "T", "{}") };
    let now = place.clock.now().0;
    let mut all = Vec::new();
    for far in [false, true] {
        let drifts = DRIFTS.iter().filter(|(_, is_far)| *is_far == far);
        let mut ids: Vec<EventId> =
            drifts.map(|(drift, _)| made_at(&mut rng, now + drift)).collect();
        ids.extend(far.then(|| random(&mut rng)));
        // Each alone: whatever is settled beside a stray may be called one.
        for id in ids {
            place.publish(&[event(id)]).await;
            all.push((now, id.to_string()));
            if place.session.is_postgres() {
                assert_eq!(place.is_stray(id).await, far, "{id}");
            }
        }
    }
    all.sort_by(|one, other| other.cmp(one));
    assert_eq!(place.pages(&Filter::default(), 2).await, all);
    place.outbox.close().await;
}

async fn no_stray_hides_among_others_of_its_settlement_nor_ahead_of_time(server: &str) {
    let mut place = Place::new(server).await;
    let mut rng = Rng::new();
    let now = place.clock.now().0;
    let event = |id| Event { id, ..Event::new("t", "T", "{}") };
    for at in 0..5 {
        let mut ids: Vec<EventId> = (0..5).map(|_| made_at(&mut rng, now)).collect();
        ids[at] = random(&mut rng);
        let events: Vec<Event> =
            ids.iter().map(|id| event(*id).key(rng.u8(..).to_string())).collect();
        place.publish(&events).await;
        assert!(place.is_stray(ids[at]).await, "the one at {at} of five");
    }
    // Its producer's clock is ahead, for its identity and for its date.
    let ahead = now + 2 * HOUR;
    let (id, table) = (made_at(&mut rng, ahead), &place.table);
    let put = format!(
        "INSERT INTO {table} (event_id, topic, event_type, payload, created_at) \
         VALUES ('{id}', 't', 'T', '{{}}', {ahead})"
    );
    place.session.run(put).await.unwrap();
    place.settle(1).await;
    assert!(place.is_stray(id).await, "it is dated ahead by two hours");
    place.outbox.close().await;
}

async fn a_bare_search_by_identity_or_key_is_served_by_index(server: &str) {
    let mut place = Place::new(server).await;
    place.session.run("SET enable_seqscan = off").await.unwrap();
    for (column, index) in [("event_id", "id"), ("biz_key", "key")] {
        let table = &place.table;
        for searched in ["sent", "events"] {
            let sql =
                format!("EXPLAIN SELECT payload FROM {table}_{searched} WHERE {column} = 'x'");
            let plan = place.session.texts(sql, 0).await.unwrap().join(" ");
            assert!(!plan.contains(&format!("Seq Scan on {table}_sent")), "{plan}");
            for day in 0..16 {
                assert!(plan.contains(&format!("{table}_sent_{index}_{day:x} ")), "{plan}");
            }
        }
    }
    place.outbox.close().await;
}

mod pages {
    use super::history_is_listed_in_the_order_of_time_and_each_row_once as test;
    servers!(test);

    #[tokio::test]
    async fn on_postgres_13() {
        test("postgres-13").await;
    }

    #[tokio::test]
    async fn on_postgres_18() {
        test("postgres-18").await;
    }
}

mod strays {
    use super::a_relay_calls_every_row_a_stray_that_its_identity_does_not_find as test;
    servers!(test);
}

mod hidden {
    use super::no_stray_hides_among_others_of_its_settlement_nor_ahead_of_time as test;

    #[tokio::test]
    async fn on_postgres() {
        test("postgres").await;
    }
}

mod bare {
    use super::a_bare_search_by_identity_or_key_is_served_by_index as test;

    #[tokio::test]
    async fn on_postgres() {
        test("postgres").await;
    }

    #[tokio::test]
    async fn on_postgres_13() {
        test("postgres-13").await;
    }

    #[tokio::test]
    async fn on_postgres_18() {
        test("postgres-18").await;
    }
}
