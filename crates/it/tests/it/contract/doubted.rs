//! A connection that is cut at a commit leaves in doubt whether that was done. Whichever it was:
//! nothing is lost, nothing counts as settled that was not, no late outcome changes anything,
//! nothing waits for longer than a lease, and where shards are leased each key keeps its order.
//!
//! A relay takes leases, claims, settles in every way, overstays, and gives back what it has. In
//! one life after the other, it is cut at each of its commits.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use event::{
    Cause, Claim, Code, Event, EventId, Outcome, Receipt, Settlement, Source, StoreError, Topics,
    Want,
};
use it::brink::{Brink, Cut};
use it::clock::HandClock;
use it::session::Session;
use it::world::need;
use store::{Lane, Outbox, Setup, Strategy};

const LEASE: Duration = Duration::from_secs(60);
const WANT: Want = Want { limit: 100, bytes: 1 << 20, lease: LEASE };
const KEYS: usize = 4;
/// How long a life takes at the most.
const SOON: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(1);

/// What becomes of a relay that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It connects anew, and goes on.
    Returns,
    /// It is silent for as long as its lease lasts, and another has taken over when it returns.
    Stays,
}

/// What a relay does when it is cut.
const FIRST: &str = "taking leases, and the first claim";
const CLAIM: &str = "a claim";
const SETTLE: &str = "a settlement";
const RENEW: &str = "a renewal";
const OVERSTAYED: &str = "setting down, and the claim after it";
const RELEASE: &str = "a release";
const LATE: &str = "a late settlement";

/// An outbox, and a way to it that can be cut.
struct Place {
    setup: Setup,
    clock: HandClock,
    outbox: Arc<dyn Outbox>,
    /// A relay whose way is not cut.
    heir: Arc<dyn Source>,
    session: Session,
    put: u64,
}

impl Place {
    async fn new(server: &str, strategy: Strategy) -> (Place, Brink, String) {
        let (address, clock) = (need(server), HandClock::new());
        let (url, table) = (address.detail("url"), format!("t{:016x}", fastrand::u64(..)));
        let (now, shards) = (clock.hand(), 4);
        let setup = Setup { table, strategy, now, shards, ..Setup::new(url) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let mut session = Session::open(url).await.unwrap();
        let (brink, account) = match session.is_postgres() {
            true => (Brink::open_postgres(address.socket).await.unwrap(), "postgres"),
            false => {
                let account = "CREATE USER IF NOT EXISTS 'plain'@'%' IDENTIFIED BY ''; \
                               GRANT ALL ON *.* TO 'plain'@'%'";
                session.run(account).await.unwrap();
                (Brink::open(address.socket).await.unwrap(), "plain")
            }
        };
        let way = brink.url(url, account).unwrap();
        let heir = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
        (Place { setup, clock, outbox, heir, session, put: 0 }, brink, way)
    }

    /// Counts the events that were sent, and sees that none is missing or made up.
    async fn sent(&self) -> u64 {
        let counts = self.outbox.catalog().count().await.unwrap();
        assert_eq!((counts.pending() + counts.sent, counts.dead), (self.put, 0), "{counts:?}");
        counts.sent
    }
}

/// One life of a relay.
struct Life<'a> {
    place: &'a mut Place,
    then: Then,
    relay: Arc<dyn Source>,
    /// What it does now.
    doing: &'a Cell<&'static str>,
    /// How often it was cut off, and whether another has taken over.
    cuts: u32,
    is_over: bool,
    /// The events of each key, in their order.
    lines: Vec<Vec<EventId>>,
    /// How often each was handed out, and every claim that the relay was given.
    handed: HashMap<EventId, u32>,
    claims: Vec<Claim>,
    /// What was published, each once, and of what it was said that this is written down.
    published: Vec<EventId>,
    settled: HashSet<EventId>,
}

impl Life<'_> {
    async fn live(&mut self) {
        self.put(3).await;
        self.doing.set(FIRST);
        self.work_off(CLAIM).await;
        // All of these are published at once.
        self.put(1).await;
        self.work_off(CLAIM).await;
        self.put(1).await;
        self.claim_some(CLAIM).await;
        self.place.clock.advance(LEASE / 2);
        let more = self.claim(RENEW).await;
        self.publish(&more).await;
        self.place.clock.advance(LEASE / 2 + TICK);
        self.work_off(OVERSTAYED).await;
        self.put(1).await;
        self.claim_some(CLAIM).await;
        self.release().await;
        self.work_off(CLAIM).await;
        let all = std::mem::take(&mut self.claims);
        self.come_late(&all).await;
        self.check().await;
    }

    /// Puts so many events of each key.
    async fn put(&mut self, each: usize) {
        let event = |key: usize| Event::new("t", "T", "{}").key(key.to_string());
        let lines: Vec<Vec<Event>> =
            (0..KEYS).map(|key| (0..each).map(|_| event(key)).collect()).collect();
        self.place.outbox.put(&lines.concat(), None).await.unwrap();
        self.place.put += (KEYS * each) as u64;
        let ids = |line: &Vec<Event>| line.iter().map(|event| event.id).collect();
        self.lines.extend(lines.iter().map(ids));
    }

    fn lane(&self) -> Arc<dyn Source> {
        if self.is_over { self.place.heir.clone() } else { self.relay.clone() }
    }

    /// Learns that the relay was cut off.
    fn cut_off(&mut self, error: &StoreError) {
        assert!(matches!(error, StoreError::Down(_)), "{error}");
        self.cuts += 1;
        if self.then == Then::Stays {
            self.end();
        } else if self.place.setup.strategy.competes() {
            // What is in nobody's hand waits for as long as the claim was to last.
            self.place.clock.advance(LEASE + TICK);
        }
    }

    /// Lets another take over.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.place.clock.advance(LEASE + TICK);
        }
    }

    /// Claims once.
    async fn claim(&mut self, doing: &'static str) -> Vec<Claim> {
        if self.doing.get() != FIRST || !self.handed.is_empty() {
            self.doing.set(doing);
        }
        let claims = match self.lane().claim(&WANT).await {
            Ok(claims) => claims,
            Err(error) => {
                self.cut_off(&error);
                return Vec::new();
            }
        };
        for claim in &claims {
            let id = claim.event.id;
            assert!(!self.settled.contains(&id), "it was settled, and comes again: {claim:?}");
            let handed = self.handed.entry(id).or_default();
            *handed += 1;
            assert!(claim.attempt <= *handed + self.cuts, "{handed} times: {claim:?}");
        }
        let again = |old: &&Claim| claims.iter().any(|new| new.event.id == old.event.id);
        let old: Vec<Claim> = self.claims.iter().filter(again).cloned().collect();
        if !self.is_over {
            self.claims.extend(claims.iter().cloned());
        }
        self.come_late(&old).await;
        claims
    }

    async fn claim_some(&mut self, doing: &'static str) -> Vec<Claim> {
        loop {
            let claims = self.claim(doing).await;
            if !claims.is_empty() {
                return claims;
            }
            self.lane().wait(50 * TICK).await;
        }
    }

    /// Brings outcomes of claims that are not the newest.
    async fn come_late(&mut self, old: &[Claim]) {
        if old.is_empty() {
            return;
        }
        let dead = || Outcome::Dead(Cause::new(Code::SinkRefused, "too late"));
        let ends: Vec<Settlement> = old.iter().map(|claim| claim.end(dead())).collect();
        self.doing.set(LATE);
        let settled = loop {
            match self.relay.settle(&ends).await {
                Ok(settled) => break settled,
                Err(error) => self.cut_off(&error),
            }
        };
        assert_eq!((settled.settled, settled.stale.len()), (0, old.len()));
    }

    /// Publishes what was claimed: the second of a key at the second time, and the third not
    /// before the second. Writes down how it went, if that can be.
    async fn publish(&mut self, claims: &[Claim]) {
        let mut ends = Vec::new();
        for claim in claims {
            let id = claim.event.id;
            let line = self.lines.iter().find(|line| line.contains(&id)).expect("it was put");
            let at = line.iter().position(|it| *it == id).expect("it stands there");
            let is_next = at == 0 || self.published.contains(&line[at - 1]);
            let cause = || Cause::new(Code::SinkBusy, "503");
            let outcome = match (at, self.handed[&id]) {
                (1, 1) => Outcome::Retry { after: Duration::ZERO, cause: cause() },
                (2, 1) => Outcome::Release { after: Duration::ZERO },
                _ => Outcome::Done(Receipt { broker_id: None }),
            };
            if matches!(outcome, Outcome::Done(_)) && !self.published.contains(&id) {
                assert!(is_next || self.place.setup.strategy.competes(), "out of order: {claim:?}");
                self.published.push(id);
            }
            ends.push(claim.end(outcome));
        }
        self.settle(&ends).await;
    }

    async fn settle(&mut self, ends: &[Settlement]) {
        let lane = self.lane();
        self.doing.set(SETTLE);
        let settled = loop {
            match lane.settle(ends).await {
                Ok(settled) => break settled,
                Err(error) => self.cut_off(&error),
            }
            if self.then == Then::Stays {
                return;
            }
        };
        for end in ends.iter().filter(|end| matches!(end.outcome, Outcome::Done(_))) {
            if !settled.stale.contains(&end.id) {
                assert!(self.settled.insert(end.id), "settled twice: {end:?}");
            }
        }
    }

    /// Takes turns until everything is sent.
    async fn work_off(&mut self, doing: &'static str) {
        while self.place.sent().await < self.place.put {
            let claims = self.claim(doing).await;
            match claims.is_empty() {
                true => self.lane().wait(50 * TICK).await,
                false => self.publish(&claims).await,
            }
        }
    }

    /// Gives back what is in flight. Where that is in doubt, the lease ends it.
    async fn release(&mut self) {
        self.doing.set(RELEASE);
        match self.lane().release().await {
            Ok(()) => self.is_over = true,
            Err(error) => {
                self.cut_off(&error);
                self.end();
            }
        }
    }

    /// Looks at the history: each event stands there once, and was published.
    async fn check(&mut self) {
        let ids: HashSet<EventId> = self.lines.concat().into_iter().collect();
        let published: HashSet<EventId> = self.published.iter().copied().collect();
        assert_eq!(published, ids);
        assert!(self.settled.is_subset(&ids));
        let table = &self.place.setup.table;
        let count = format!("SELECT count(DISTINCT event_id) FROM {table}_sent");
        assert_eq!(self.place.session.number(count).await.unwrap() as u64, self.place.put);
        let count = format!("SELECT count(*) FROM {table}_sent");
        assert_eq!(self.place.session.number(count).await.unwrap() as u64, self.place.put);
    }
}

/// Has a relay live, and cuts it at one of its commits. Returns what it did then, if it got there.
async fn live(
    place: &mut Place,
    (brink, way): (&mut Brink, &str),
    at: usize,
    (cut, then): (Cut, Then),
) -> Option<&'static str> {
    let setup = Setup { url: way.to_owned(), ..place.setup.clone() };
    let outbox = store::open(&setup).await.unwrap();
    let relay = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let (doing, mut commits, mut cut_in) = (Cell::new(FIRST), 0, None);
    let mut life = Life {
        place,
        then,
        relay,
        doing: &doing,
        cuts: 0,
        is_over: false,
        lines: Vec::new(),
        handed: HashMap::new(),
        claims: Vec::new(),
        published: Vec::new(),
        settled: HashSet::new(),
    };
    let mut living = Box::pin(tokio::time::timeout(SOON, life.live()));
    loop {
        tokio::select! {
            waiting = brink.next() => {
                if commits == at {
                    cut_in = Some(doing.get());
                    waiting.cut(cut);
                }
                commits += 1;
            }
            lived = &mut living => break lived.expect("nothing waits for so long"),
        }
    }
    drop(living);
    outbox.close().await;
    place.heir.release().await.unwrap();
    place.clock.advance(2 * LEASE);
    cut_in
}

#[expect(clippy::print_stdout, reason = "a test that fails shows how far it came")]
async fn a_relay_may_be_cut_at_any_commit(server: &str, strategy: Strategy) {
    let (mut place, mut brink, way) = Place::new(server, strategy).await;
    let mut cuts: HashMap<&str, usize> = HashMap::new();
    for at in 0.. {
        // Not every life has as many commits, so one may be at its end where another is not.
        let mut met = HashSet::new();
        for cut in [Cut::Unheard, Cut::Unanswered] {
            for then in [Then::Returns, Then::Stays] {
                println!("commit {at}, {cut:?}, and the relay {then:?}");
                let cut_in = live(&mut place, (&mut brink, &way), at, (cut, then)).await;
                println!("cut in {cut_in:?}");
                met.extend(cut_in);
            }
        }
        if met.is_empty() {
            break;
        }
        met.into_iter().for_each(|met| *cuts.entry(met).or_default() += 1);
    }
    let least: &[(&str, usize)] = match strategy.competes() {
        true => &[(FIRST, 1), (CLAIM, 1), (SETTLE, 2), (OVERSTAYED, 1), (RELEASE, 1)],
        false => &[(FIRST, 2), (CLAIM, 2), (SETTLE, 2), (RENEW, 1), (OVERSTAYED, 2), (RELEASE, 1)],
    };
    for (step, least) in least {
        assert!(cuts.get(step).is_some_and(|cuts| cuts >= least), "{step}: {cuts:?}");
    }
    place.session.close().await.unwrap();
    place.outbox.close().await;
}

macro_rules! tests {
    ($($test:ident = $server:literal $strategy:ident;)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                super::a_relay_may_be_cut_at_any_commit($server, super::Strategy::$strategy).await;
            }
        )+
    };
}

mod a_relay_may_be_cut_at_any_commit {
    tests! {
        postgres = "postgres" Own;
        postgres_skip_locked = "postgres" SkipLocked;
        postgres_cas = "postgres" Cas;
        mysql = "mysql" Own;
        mysql_skip_locked = "mysql" SkipLocked;
        mariadb = "mariadb" Own;
        mariadb_cas = "mariadb" Cas;
        mariadb_10_5 = "mariadb-10.5" Own;
        mariadb_10_5_preempt = "mariadb-10.5" Preempt;
    }
}
