//! How many rows work on an outbox has open: those that it is about, and no others, however many
//! there are. Whoever fills the tables asks.
//!
//! The clock is moved by hand: later rows are due one a millisecond, so it says how many are.

mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use event::{
    Begun, Cause, Claim, Code, EventId, InboxEnd, Keep, Order, Outcome, Receipt, Settlement, Shelf,
    Source, Topics, Want,
};
use it::session::Session;
use store::{Lane, Now, Outbox, Setup, Strategy, mysql, postgres};

use self::watch::{Kind, Open, Watch};

/// The table of a site.
const TABLE: &str = "outbox";
const LEASE: Duration = Duration::from_secs(1);
/// Longer than any lease can last, for whoever takes one for a second.
const AHEAD: Duration = Duration::from_secs(86_400);
/// How many keys the rows have.
const KEYS: i64 = 50;
/// When nothing more is due.
const FAR: i64 = 1_000_000_000_000;

/// Ends every lease.
const OVER: &str = "UPDATE outbox_lease SET lease_until = 0 WHERE shard >= 0";

/// Work on the tables of a server.
pub(super) struct Trial {
    watch: Watch,
    session: Session,
    clock: Arc<AtomicI64>,
    /// How many rows of a table each piece of work is about.
    some: i64,
}

/// How relays divide the rows on a server, and whether they keep history.
pub(super) fn ways(server: &str) -> Vec<(Strategy, bool)> {
    let rivals: &[Strategy] = match server {
        "postgres-13" | "postgres" | "postgres-18" => &[Strategy::SkipLocked, Strategy::Cas],
        "mariadb-10.5" => &[Strategy::Cas, Strategy::Preempt],
        _ => &[Strategy::SkipLocked, Strategy::Cas, Strategy::Preempt],
    };
    let own = [(Strategy::Own, true), (Strategy::Own, false)];
    own.into_iter().chain(rivals.iter().map(|rival| (*rival, true))).collect()
}

/// One relay.
struct Relay {
    outbox: Arc<dyn Outbox>,
    lane: Arc<dyn Source>,
    /// A lane that nothing is for.
    idle: Arc<dyn Source>,
}

impl Relay {
    async fn new(setup: &Setup) -> Relay {
        let outbox = store::open(setup).await.unwrap();
        let lane = |topic: &str| {
            let topics = Topics::of(vec![(topic.parse().unwrap(), true)]);
            outbox.lane(Lane { topics, order: Order::Pass })
        };
        let (lane, idle) = (lane("t"), lane("nothing"));
        Relay { outbox, lane, idle }
    }
}

impl Trial {
    /// Begins one whose work is about so many rows each, after a clock has come so far.
    pub(super) async fn new(url: &str, clock: &Arc<AtomicI64>, some: i64) -> Trial {
        let (watch, session) = (Watch::on(url).await, Session::open(url).await.unwrap());
        Trial { watch, session, clock: clock.clone(), some }
    }

    pub(super) async fn end(self) {
        self.watch.end().await;
    }

    /// Returns how many rows of a table are worn by the work of relays.
    pub(super) fn worn(&self, history: bool) -> i64 {
        if history { 5 * self.some } else { self.some }
    }

    fn setup(&self, strategy: Strategy, history: bool, clock: &Arc<AtomicI64>) -> Setup {
        let now = Now::Hand(clock.clone());
        Setup { strategy, history, now, ..Setup::new(&*self.watch.url) }
    }

    /// Has claims made, settled in every way, and left behind.
    pub(super) async fn relays(&mut self, (strategy, history): (Strategy, bool)) {
        self.clock.fetch_add(self.worn(history), Ordering::SeqCst);
        let setup = self.setup(strategy, history, &self.clock);
        let (one, other) = (Relay::new(&setup).await, Relay::new(&setup).await);
        let cause = Cause::new(Code::SinkTimeout, "too late");
        let after = Duration::from_millis(FAR as u64);
        let mut outcomes = vec![
            Outcome::Done(Receipt { broker_id: None }),
            Outcome::Retry { after, cause: cause.clone() },
            Outcome::Dead(cause),
            Outcome::Release { after },
        ];
        // Without history only what was published goes elsewhere.
        outcomes.truncate(if history { 4 } else { 1 });
        for (at, outcome) in outcomes.into_iter().enumerate() {
            let claims = self.claim_some(&one, strategy, LEASE, at == 0).await;
            for (shelf, end) in [(Shelf::Hot, ""), (Shelf::Later, "_later")] {
                let ends = claims.iter().filter(|claim| claim.address.shelf == shelf);
                let ends = ends.map(|claim| claim.end(outcome.clone())).collect();
                let open = self.settle(&one, ends).await;
                // What its owner releases stays where it is.
                let stays = matches!(outcome, Outcome::Release { .. }) && shelf == Shelf::Hot;
                let rows = if stays && !strategy.competes() { 0 } else { self.some };
                self.expect(&open, &[(end, rows)], &format!("{strategy}: {outcome:?}, {shelf:?}"));
            }
        }
        if history {
            self.leave(&one, &other, strategy).await;
        }
        for Relay { outbox, lane, idle } in [one, other] {
            let part = async move {
                lane.release().await.unwrap();
                idle.release().await.unwrap();
                outbox.close().await;
            };
            self.watch.pass(part).await;
        }
        let rest = format!("UPDATE {TABLE}_later SET due_at = {FAR}, unexplained = 0");
        self.session.run(format!("{rest} WHERE unexplained > 0; {OVER}")).await.unwrap();
    }

    /// Has one relay leave rows in flight, which another finds.
    async fn leave(&mut self, one: &Relay, other: &Relay, strategy: Strategy) {
        self.claim_some(one, strategy, AHEAD, false).await;
        // A shard in which nothing waits is left alone until what was in flight there is due.
        let (numbers, postgres) = (self.session.numbers(KEYS), self.session.is_postgres());
        let key = if postgres { "'k' || n % 50" } else { "CONCAT('k', n % 50)" };
        let put = format!(
            "INSERT INTO {TABLE} (topic, event_type, biz_key, payload) \
             SELECT 't', 'T', {key}, 'x' FROM {numbers}"
        );
        self.session.run(format!("{put}; {OVER}")).await.unwrap();
        let (claims, open) = self.claim(&other.idle, 1, LEASE).await;
        assert_eq!(claims, []);
        let rows = [("", self.some), ("_later", self.some)];
        self.expect(&open, &rows, &format!("{strategy}: what another left in flight"));
    }

    /// Claims hot rows and as many later ones. A first claim may change the strategy, for which
    /// MariaDB counts a lease twice.
    async fn claim_some(
        &mut self,
        relay: &Relay,
        strategy: Strategy,
        lease: Duration,
        first: bool,
    ) -> Vec<Claim> {
        let (claims, open) = self.claim(&relay.lane, 2 * self.some, lease).await;
        let later = claims.iter().filter(|claim| claim.address.shelf == Shelf::Later).count();
        let claimed = (i64::try_from(later).unwrap(), i64::try_from(claims.len()).unwrap());
        assert_eq!(claimed, (self.some, 2 * self.some), "{strategy}");
        if !first || self.watch.kind != Kind::MariaDb {
            self.expect(&open, &[("_later", self.some)], &format!("{strategy}: a claim"));
        }
        claims
    }

    async fn claim(
        &mut self,
        lane: &Arc<dyn Source>,
        limit: i64,
        lease: Duration,
    ) -> (Vec<Claim>, Open) {
        let want = Want { limit: usize::try_from(limit).unwrap(), bytes: 1 << 20, lease };
        let lane = lane.clone();
        self.watch.during(async move { lane.claim(&want).await.unwrap() }).await
    }

    async fn settle(&mut self, relay: &Relay, ends: Vec<Settlement>) -> Open {
        let (lane, all) = (relay.lane.clone(), ends.len());
        let (settled, open) =
            self.watch.during(async move { lane.settle(&ends).await.unwrap() }).await;
        assert_eq!(settled.settled, all);
        open
    }

    fn expect(&self, open: &Open, rows: &[(&'static str, i64)], what: &str) {
        assert_eq!(*open, self.watch.told(rows), "{what}");
    }

    /// Has everything done that is no relay's turn. The newest row of the dead has this number.
    pub(super) async fn others(&mut self, newest: i64) {
        let clock = Arc::new(AtomicI64::new(FAR + newest));
        let setup = self.setup(Strategy::Own, true, &clock);
        let outbox = store::open(&setup).await.unwrap();
        self.requeue(&outbox, newest).await;
        self.sweep(&outbox).await;
        self.take_in(&outbox).await;
        outbox.close().await;
    }

    async fn requeue(&mut self, outbox: &Arc<dyn Outbox>, newest: i64) {
        let id = |n: i64| format!("{n:08x}-0000-7000-8000-000000000000").parse().unwrap();
        let ids: Vec<EventId> = (newest - self.some + 1..=newest).map(id).collect();
        let (catalog, all) = (outbox.catalog(), ids.len());
        let requeue = async move { catalog.requeue(&ids, None, all).await.unwrap() };
        let (requeued, open) = self.watch.during(requeue).await;
        assert_eq!(requeued.requeued.len(), all);
        // InnoDB has the row of the index open too by which it was found.
        let each = if self.watch.kind == Kind::Postgres { 1 } else { 2 };
        self.expect(&open, &[("_dead", each * self.some)], "a requeue");
    }

    async fn sweep(&mut self, outbox: &Arc<dyn Outbox>) {
        let (chores, step) = (outbox.chores(), usize::try_from(self.some).unwrap());
        let (sent, inbox, lease) = (Duration::ZERO, Duration::ZERO, Duration::from_millis(1));
        let keep = Keep { sent, inbox, step, lease };
        let (swept, open) =
            self.watch.during(async move { chores.sweep(&keep).await.unwrap() }).await;
        assert_eq!((swept.sent, swept.inbox), (step as u64, step as u64));
        self.expect(&open, &[("_sent", self.some), ("_inbox", self.some)], "a sweep");
    }

    async fn take_in(&mut self, outbox: &Arc<dyn Outbox>) {
        let id = EventId::new();
        let failed = InboxEnd::Failed(Cause::new(Code::SinkTimeout, "too late"));
        for (end, there) in [(failed, 0), (InboxEnd::Processed, 1)] {
            let inbox = outbox.inbox();
            let begin = async move { inbox.begin("g", id, LEASE).await.unwrap() };
            let (begun, open) = self.watch.during(begin).await;
            if self.watch.kind == Kind::Postgres {
                self.expect(&open, &[("_inbox", there)], "a beginning");
            }
            let Begun::Go(fence) = begun else { panic!("{begun:?}") };
            let inbox = outbox.inbox();
            let finish = async move { inbox.finish("g", id, fence, end).await.unwrap() };
            let (finished, open) = self.watch.during_change(finish).await;
            assert!(finished);
            self.expect(&open, &[("_inbox", 1)], "an end");
            self.take_in_again(id).await;
        }
    }

    /// Takes an event in that was begun before, in a transaction of an application.
    async fn take_in_again(&mut self, id: EventId) {
        self.session.run("BEGIN").await.unwrap();
        let begun = match &mut self.session {
            Session::Postgres(conn) => {
                postgres::Tables::named(TABLE).unwrap().take_in(conn, "g", id).await
            }
            Session::MySql(conn) => {
                mysql::Tables::named(TABLE).unwrap().take_in(conn, "g", id).await
            }
        };
        begun.unwrap();
        let open = self.watch.open().await;
        self.session.run("ROLLBACK").await.unwrap();
        // A duplicate opens the row to read it, before it is opened: MariaDB counts both.
        let each = if self.watch.kind == Kind::MariaDb { 2 } else { 1 };
        self.expect(&open, &[("_inbox", each)], "what was begun before");
    }
}
