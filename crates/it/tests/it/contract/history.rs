//! History on servers goes by the day: at once, only what is old, and never at anybody's cost.

use std::sync::Arc;
use std::time::Duration;

use event::{Chores, Event, Keep, Outcome, Receipt, Swept, Topics, Want};
use it::clock::HandClock;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup};

const DAY: Duration = Duration::from_secs(86_400);
const MILLI: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(30);

fn keep() -> Keep {
    Keep { sent: 7 * DAY, inbox: 30 * DAY, step: 10, lease: LEASE }
}

/// An outbox, a relay's handle on it, and a session of somebody else.
struct Place {
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
        let setup = Setup { table, now: clock.hand(), ..setup };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let session = Session::open(&setup.url).await.unwrap();
        Place { setup, clock, outbox, session }
    }

    /// Publishes so many events now.
    async fn publish(&self, count: usize) {
        let events: Vec<Event> = (0..count).map(|_| Event::new("t", "T", "{}")).collect();
        self.outbox.put(&events, None).await.unwrap();
        let lane = self.outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        let want = Want { limit: count, bytes: 1 << 20, lease: LEASE };
        let claims = lane.claim(&want).await.unwrap();
        let done = || Outcome::Done(Receipt { broker_id: None });
        let ends: Vec<_> = claims.iter().map(|claim| claim.end(done())).collect();
        assert_eq!(lane.settle(&ends).await.unwrap().settled, count);
        lane.release().await.unwrap();
    }

    /// Writes so many rows of history down, sent now and created long ago.
    async fn write(&mut self, count: i64) {
        let (table, now) = (&self.setup.table, self.clock.now().0);
        let id = if self.session.is_postgres() { "gen_random_uuid()::text" } else { "UUID()" };
        let sql = format!(
            "INSERT INTO {table}_sent (event_id, topic, event_type, payload, headers, created_at, \
             seq, attempts, sent_at) SELECT {id}, 't', 'T', 'x', '{{}}', n, n, 1, {now} FROM {}",
            self.session.numbers(count)
        );
        self.session.run(sql).await.unwrap();
    }

    async fn rows(&mut self) -> i64 {
        self.session
            .number(format!("SELECT COUNT(*) FROM {}_sent", self.setup.table))
            .await
            .unwrap()
    }

    async fn sweep(&self) -> Swept {
        self.outbox.chores().sweep(&keep()).await.unwrap()
    }
}

async fn a_large_day_goes_at_once_when_all_of_it_is_past(server: &str) {
    let mut place = Place::new(server).await;
    place.write(12_000).await;
    place.clock.advance(DAY);
    place.publish(3).await;
    // The first day is 2 h from its end, and so is what is kept of it.
    place.clock.advance(6 * DAY + MILLI);
    assert_eq!(place.sweep().await, Swept::default(), "a row of that day may be younger");
    place.clock.advance(DAY / 8);
    assert_eq!(place.sweep().await.sent, 10_000, "as many as are counted");
    assert_eq!(place.rows().await, 3);
    place.clock.advance(DAY);
    assert_eq!(place.sweep().await.sent, 3);
    assert_eq!((place.rows().await, place.sweep().await), (0, Swept::default()));
    assert_eq!(place.outbox.catalog().count().await.unwrap().sent, 3);
    place.outbox.close().await;
}

async fn rows_that_are_dated_ahead_stay_and_hold_up_no_others(server: &str) {
    let mut place = Place::new(server).await;
    place.publish(4).await;
    for ahead in [16 * DAY, 1600 * DAY] {
        place.clock.advance(ahead);
        place.publish(1).await;
        place.clock.set_back(ahead);
    }
    place.clock.advance(9 * DAY);
    assert_eq!(place.sweep().await.sent, 4, "they stand in the same slot");
    assert_eq!((place.rows().await, place.sweep().await), (2, Swept::default()));
    place.clock.advance(16 * DAY);
    assert_eq!(place.sweep().await.sent, 1);
    assert_eq!(place.rows().await, 1);
    place.clock.advance(1584 * DAY);
    assert_eq!(place.sweep().await.sent, 1);
    assert_eq!(place.rows().await, 0);
    place.outbox.close().await;
}

async fn a_reader_of_history_is_not_waited_for_and_keeps_nobody_waiting(server: &str) {
    let mut place = Place::new(server).await;
    place.write(500).await;
    place.clock.advance(9 * DAY);
    let chores: Arc<dyn Chores> = place.outbox.chores();
    place.session.run("BEGIN").await.unwrap();
    assert_eq!(place.rows().await, 500);
    let keep = keep();
    let (swept, ()) = tokio::join!(chores.sweep(&keep), place.publish(1));
    assert_eq!(swept.unwrap(), Swept::default());
    place.publish(1).await;
    place.session.run("COMMIT").await.unwrap();
    assert_eq!(place.rows().await, 502);
    if !place.session.is_postgres() {
        // A trial costs whoever settles a moment, so there is none again at once.
        assert_eq!(chores.sweep(&keep).await.unwrap(), Swept::default());
        place.clock.advance(Duration::from_secs(60));
    }
    assert_eq!(chores.sweep(&keep).await.unwrap().sent, 500);
    assert_eq!(place.rows().await, 2);
    place.outbox.close().await;
}

async fn a_day_goes_below_a_snapshot_that_has_not_read_it(server: &str) {
    let mut place = Place::new(server).await;
    place.write(500).await;
    place.clock.advance(9 * DAY);
    let begin = match place.session.is_postgres() {
        true => "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class",
        false => {
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
             START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
        }
    };
    place.session.run(begin).await.unwrap();
    assert_eq!(place.sweep().await.sent, 500);
    let count = format!("SELECT COUNT(*) FROM {}_sent", place.setup.table);
    let read = place.session.number(count).await.map_err(|error| error.to_string());
    match server.starts_with("mariadb") {
        // A store's own listing begins anew when it is told so.
        true => assert!(read.as_ref().is_err_and(|error| error.contains("1412")), "{read:?}"),
        false => assert_eq!(read, Ok(0)),
    }
    place.outbox.close().await;
}

async fn whoever_does_not_hold_the_chores_drops_no_day(server: &str) {
    let mut place = Place::new(server).await;
    let other = store::open(&place.setup).await.unwrap();
    assert_eq!(other.chores().sweep(&keep()).await.unwrap(), Swept::default());
    place.write(500).await;
    place.clock.advance(9 * DAY);
    assert_eq!(other.chores().sweep(&Keep { sent: 12 * DAY, ..keep() }).await.unwrap().sent, 0);
    place.clock.advance(LEASE - MILLI);
    assert_eq!(place.sweep().await, Swept { elsewhere: true, ..Swept::default() });
    assert_eq!(place.rows().await, 500);
    place.clock.advance(MILLI);
    assert_eq!(place.sweep().await.sent, 500);
    for outbox in [&place.outbox, &other] {
        outbox.close().await;
    }
}

mod large {
    use super::a_large_day_goes_at_once_when_all_of_it_is_past as test;
    servers!(test);
}

mod ahead {
    use super::rows_that_are_dated_ahead_stay_and_hold_up_no_others as test;
    servers!(test);
}

mod reader {
    use super::a_reader_of_history_is_not_waited_for_and_keeps_nobody_waiting as test;
    servers!(test);
}

mod snapshot {
    use super::a_day_goes_below_a_snapshot_that_has_not_read_it as test;
    servers!(test);
}

mod lease {
    use super::whoever_does_not_hold_the_chores_drops_no_day as test;
    servers!(test);
}
