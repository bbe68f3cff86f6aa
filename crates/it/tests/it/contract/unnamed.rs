//! Rows that commit late, of transactions that no snapshot has named: PostgreSQL lists as running
//! only those below the newest one that has ended. Each case has a server of its own, where nobody
//! else ends a transaction; none waits for a full look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Claim, Order, Outcome, Receipt, Source, Topics, Want};
use it::instance::Instance;
use it::session::Session;
use it::site::Site;
use store::{Lane, Outbox, Setup, Strategy};

use super::backlog::read;

const PATIENCE: Duration = Duration::from_secs(60);
/// How long a row that is there may take: a full look comes after 30 s.
const SOON: Duration = Duration::from_secs(10);
/// How many rows wait, where there is a backlog.
const ROWS: i64 = 2_000;
/// Longer than any case, so that no lease is renewed for its time.
const WANT: Want = Want { limit: 100, bytes: 1 << 20, lease: Duration::from_secs(600) };

/// An outbox of one shard on a server of its own, whose lane has its shard and is told of nothing.
struct Place {
    table: String,
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    /// Whose transaction is the older one, and whose the newer.
    older: Session,
    newer: Session,
    other: Session,
    _instance: Instance,
}

impl Place {
    async fn new(strategy: Strategy) -> Place {
        let instance = Instance::start_with("postgres", &["-c", "autovacuum=off"]).unwrap();
        Site::on(&instance.url, PATIENCE).await.unwrap().outbox.close().await;
        let table = format!("t{:016x}", fastrand::u64(..));
        let url = instance.url.clone();
        let setup = Setup { table: table.clone(), strategy, shards: 1, ..Setup::new(&*url) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let topics = Topics::of(vec![("a.*".parse().unwrap(), true)]);
        let lane = outbox.lane(Lane { topics, order: Order::Hold });
        let open = async || Session::open(&url).await.unwrap();
        let (older, newer, mut other) = (open().await, open().await, open().await);
        other.run("CREATE TABLE business AS SELECT 1 AS id").await.unwrap();
        let place = Place { table, outbox, lane, older, newer, other, _instance: instance };
        place.warm().await
    }

    /// Hands out an event of either shelf, so that the lane has begun, and knows both.
    async fn warm(mut self) -> Place {
        let (hot, later) = (self.row("", "a.x", "warm"), self.row("_later", "a.x", "warm"));
        self.other.run(hot + &later).await.unwrap();
        let until = Instant::now() + SOON;
        let mut came = 0;
        while came < 2 {
            assert!(Instant::now() < until, "{came} came");
            came += self.claim().await.len();
        }
        assert_eq!(self.claim().await, [""; 0]);
        self
    }

    /// Writes a row, as any language would. Later rows are due, the oldest first.
    fn row(&self, shelf: &str, topic: &str, payload: &str) -> String {
        let (table, due) = match shelf {
            "" => (self.table.clone(), ("", "")),
            _ => (format!("{}{shelf}", self.table), (", due_at", ", 1")),
        };
        format!(
            "INSERT INTO {table} (topic, event_type, biz_key, payload{}) \
             VALUES ('{topic}', 'T', '{payload}', '{payload}'{});",
            due.0, due.1
        )
    }

    /// Lets the newer transaction draw a number, and the older one the next, and commit. So the
    /// newer one runs, and no snapshot names it.
    async fn overtake(&mut self, shelf: &str, topic: &str) {
        self.older.run("BEGIN; UPDATE business SET id = 2").await.unwrap();
        let late = self.row(shelf, "a.x", "late");
        self.newer.run(format!("BEGIN; {late}")).await.unwrap();
        let early = self.row(shelf, topic, "early");
        self.older.run(format!("{early} COMMIT")).await.unwrap();
        let newer = self.newer.number("SELECT pg_current_xact_id()::text::bigint").await.unwrap();
        let last = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
        let last = self.other.number(last).await.unwrap();
        assert!(newer >= last, "somebody else has ended a transaction: {newer} is below {last}");
    }

    async fn settle(&self, claims: &[Claim]) {
        let done = |claim: &Claim| claim.end(Outcome::Done(Receipt { broker_id: None }));
        let ends: Vec<_> = claims.iter().map(done).collect();
        assert_eq!(self.lane.settle(&ends).await.unwrap().settled, claims.len());
    }

    /// Claims once, and publishes what came.
    async fn claim(&self) -> Vec<String> {
        let claims = self.lane.claim(&WANT).await.unwrap();
        self.settle(&claims).await;
        let text = |claim: &Claim| String::from_utf8(claim.event.payload.as_bytes().to_vec());
        claims.iter().map(|claim| text(claim).unwrap()).collect()
    }

    /// Claims until so many have come.
    async fn come(&self, most: usize) -> Vec<String> {
        let (mut came, until) = (Vec::new(), Instant::now() + SOON);
        while came.len() < most && Instant::now() < until {
            came.extend(self.claim().await);
            self.lane.wait(Duration::from_millis(20)).await;
        }
        came
    }
}

async fn a_row_of_a_transaction_that_no_snapshot_named_comes_soon_and_in_order(strategy: Strategy) {
    let mut place = Place::new(strategy).await;
    place.overtake("", "a.x").await;
    assert_eq!(place.claim().await, ["early"], "the lane has read beyond what is not committed");
    place.newer.run("COMMIT").await.unwrap();
    let follower = place.row("", "a.x", "late").replace("'late');", "'follower');");
    place.other.run(follower).await.unwrap();
    assert_eq!(place.come(2).await, ["late", "follower"]);
    place.outbox.close().await;
}

async fn a_delayed_row_of_a_transaction_that_no_snapshot_named_comes_soon(strategy: Strategy) {
    let mut place = Place::new(strategy).await;
    place.overtake("_later", "b.x").await;
    for _ in 0..2 {
        assert_eq!(place.claim().await, [""; 0], "the row of another lane is passed");
    }
    place.newer.run("COMMIT").await.unwrap();
    assert_eq!(place.come(1).await, ["late"]);
    place.outbox.close().await;
}

/// What begins now writes above the backlog, so its end shows nothing where the lane has read.
#[tokio::test]
async fn a_backlog_is_read_once_whoever_ends_a_transaction_meanwhile() {
    let mut place = Place::new(Strategy::Own).await;
    let Place { table, .. } = &place;
    let backlog = format!(
        "INSERT INTO {table} (topic, event_type, biz_key, payload) \
         SELECT 'a.x', 'T', 'k' || n, '{{}}' FROM generate_series(1, {ROWS}) AS n"
    );
    place.other.run(backlog).await.unwrap();
    let (mut came, mut last) = (0, Vec::new());
    while came < ROWS {
        place.older.run("BEGIN; UPDATE business SET id = id + 1").await.unwrap();
        let claims = place.lane.claim(&WANT).await.unwrap();
        place.older.run("COMMIT").await.unwrap();
        came += claims.len() as i64;
        place.settle(&std::mem::replace(&mut last, claims)).await;
    }
    place.settle(&last).await;
    place.outbox.close().await;
    place.older.close().await.unwrap();
    place.newer.close().await.unwrap();
    // A settlement finds each row once as well.
    let read = read(&mut place.other, "PostgreSQL", &place.table).await;
    assert!(read < 5 * ROWS / 2, "{read} rows were read of {ROWS}");
}

mod a_row_of_a_transaction_that_no_snapshot_named {
    use super::Strategy;
    use super::a_delayed_row_of_a_transaction_that_no_snapshot_named_comes_soon as delayed;
    use super::a_row_of_a_transaction_that_no_snapshot_named_comes_soon_and_in_order as hot;

    #[tokio::test]
    async fn comes_soon_and_in_order() {
        hot(Strategy::Own).await;
    }

    #[tokio::test]
    async fn comes_soon_where_relays_compete() {
        hot(Strategy::SkipLocked).await;
    }

    #[tokio::test]
    async fn comes_soon_where_relays_compete_by_cas() {
        hot(Strategy::Cas).await;
    }

    #[tokio::test]
    async fn comes_soon_where_it_was_delayed() {
        delayed(Strategy::Own).await;
    }
}
