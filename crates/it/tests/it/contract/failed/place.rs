//! An outbox on a server on which work fails, and what is done there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event::{
    Cause, Claim, Code, Event, EventId, Outcome, Pattern, Receipt, Settled, Source, StoreError,
    Topics, Want,
};
use it::session::Session;
use it::world::need;
use store::{Lane, Now, Outbox, Setup};

pub(super) const WANT: Want = Want { limit: 1000, bytes: 1 << 20, lease: Duration::from_secs(120) };

/// An outbox, a lane, and a session of somebody else.
pub(super) struct Place {
    server: String,
    pub(super) table: String,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) lane: Arc<dyn Source>,
    pub(super) session: Session,
}

impl Place {
    pub(super) async fn new(server: &str) -> Place {
        Place::at(server, Now::Database).await
    }

    pub(super) async fn at(server: &str, now: Now) -> Place {
        let table = format!("t{:016x}", fastrand::u64(..));
        let setup = Setup { table: table.clone(), now, ..Setup::new(need(server).detail("url")) };
        let outbox = store::open(&setup).await.unwrap();
        outbox.migrate().await.unwrap();
        let lane = outbox.lane(Lane { topics: only("t"), ..Lane::default() });
        let session = Session::open(&setup.url).await.unwrap();
        Place { server: server.to_owned(), table, outbox, lane, session }
    }

    /// Puts so many events of each key.
    pub(super) async fn put(&self, keys: std::ops::Range<usize>, each: usize) -> Vec<EventId> {
        let event = |key: usize| Event::new("t", "T", "{}").key(key.to_string());
        let events: Vec<Event> = (0..each).flat_map(|_| keys.clone().map(event)).collect();
        self.outbox.put(&events, None).await.unwrap();
        events.iter().map(|event| event.id).collect()
    }

    pub(super) async fn claim(&self) -> Vec<Claim> {
        self.lane.claim(&WANT).await.unwrap()
    }

    pub(super) async fn begin(&mut self) {
        let begin = if self.session.is_postgres() { "BEGIN" } else { "START TRANSACTION" };
        self.session.run(begin).await.unwrap();
    }

    /// Waits until a relay of this outbox waits for somebody.
    pub(super) async fn until_somebody_waits(&mut self) {
        let mut onlooker = Session::open(need(&self.server).detail("url")).await.unwrap();
        let looking = async {
            while self.who_waits(&mut onlooker).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(WANT.lease / 2, looking).await.expect("somebody waits");
        onlooker.close().await.unwrap();
    }

    /// Has the server give up what relays of this outbox wait for.
    pub(super) async fn give_up_who_waits(&mut self) {
        let mut onlooker = Session::open(need(&self.server).detail("url")).await.unwrap();
        for who in self.who_waits(&mut onlooker).await {
            let give_up = match onlooker.is_postgres() {
                true => format!("SELECT pg_cancel_backend({who})"),
                false => format!("KILL QUERY {who}"),
            };
            onlooker.run(give_up).await.unwrap();
        }
        onlooker.close().await.unwrap();
    }

    /// Returns the sessions in which relays of this outbox wait for somebody. The tables in which
    /// servers of MySQL's family tell it are a copy, which grows old while many look at it.
    async fn who_waits(&self, onlooker: &mut Session) -> Vec<String> {
        if onlooker.is_postgres() {
            let sql = format!(
                "SELECT pid::text FROM pg_stat_activity \
                 WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
                self.table
            );
            return onlooker.texts(sql, 0).await.unwrap();
        }
        let status = onlooker.texts("SHOW ENGINE INNODB STATUS", 2).await.unwrap().remove(0);
        let waits = |it: &&str| it.contains("LOCK WAIT ") && it.contains(&self.table);
        let waiting = status.split("---TRANSACTION ").skip(1).filter(waits);
        let who = |it: &str| it.split("thread id ").nth(1)?.split(',').next().map(str::to_owned);
        waiting.filter_map(who).collect()
    }

    /// Opens leases, until the session commits.
    pub(super) async fn hold(&mut self, rows: &str) {
        self.begin().await;
        let sql = format!("UPDATE {}_lease SET shard = shard WHERE {rows}", self.table);
        self.session.run(sql).await.unwrap();
    }

    pub(super) async fn let_go(&mut self) {
        self.session.run("COMMIT").await.unwrap();
    }

    /// Claims and ends until so many are sent. Returns each that came, with its attempt.
    pub(super) async fn drain(&self, sent: usize) -> Vec<(EventId, u32)> {
        let mut came = Vec::new();
        let draining = async {
            while self.outbox.catalog().count().await.unwrap().sent < sent as u64 {
                let claims = self.claim().await;
                came.extend(claims.iter().map(|claim| (claim.event.id, claim.attempt)));
                assert_eq!(end(&self.lane, &claims, &done()).await.stale, []);
            }
        };
        let soon = tokio::time::timeout(WANT.lease / 2, draining).await;
        soon.expect("it comes long before a lease ends");
        came
    }

    pub(super) async fn end(self) {
        self.session.close().await.unwrap();
        self.lane.release().await.unwrap();
        self.outbox.close().await;
    }
}

pub(super) fn only(topic: &str) -> Topics {
    Topics::of(vec![(topic.parse::<Pattern>().unwrap(), true)])
}

pub(super) fn done() -> Outcome {
    Outcome::Done(Receipt { broker_id: None })
}

pub(super) fn retry() -> Outcome {
    let cause = Cause::new(Code::SinkBusy, "503");
    Outcome::Retry { after: Duration::ZERO, cause }
}

pub(super) async fn end(lane: &Arc<dyn Source>, claims: &[Claim], outcome: &Outcome) -> Settled {
    let ends: Vec<_> = claims.iter().map(|claim| claim.end(outcome.clone())).collect();
    lane.settle(&ends).await.unwrap()
}

pub(super) fn is_busy<T>(failed: &Result<T, StoreError>) -> bool {
    matches!(failed, Err(error) if error.cause().code == Code::StoreBusy)
}

/// Says that each came once, at its first attempt.
pub(super) fn once(ids: &[EventId]) -> HashMap<EventId, u32> {
    ids.iter().map(|id| (*id, 1)).collect()
}
