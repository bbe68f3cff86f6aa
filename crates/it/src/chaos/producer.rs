//! Producers: plain SQL, business row and event in one transaction, which ends in every way that a
//! transaction can. Each has keys of its own, so the order of its commits is the order of the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use event::Millis;
use fastrand::Rng;
use uuid::Uuid;

use super::deadlock::{DEADLOCK, is_among_producers};
use super::destination::Destination;
use super::home::{Home, Manners, Session, TwoPhase};

/// How many keys each producer has.
const KEYS: usize = 16;
/// How many events wait at the most before producers pause.
const BACKLOG: usize = 3000;

/// One committed event.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) id: String,
    pub(super) key: Option<String>,
}

/// What is put, and how fast. Shared by all producers.
pub(super) struct Demand {
    /// How many events are to be committed.
    pub(super) events: usize,
    /// How many are.
    pub(super) committed: AtomicUsize,
    /// Over how many rounds of what befalls the relays they are spread at the least.
    pub(super) rounds: usize,
    /// How many rounds are over.
    pub(super) over: AtomicUsize,
    pub(super) destination: Arc<Destination>,
}

/// One producer, and what it remembers.
pub(super) struct Producer {
    session: Box<dyn Session>,
    manners: Manners,
    number: usize,
    chance: Rng,
    /// How the transaction under way is given up.
    undo: Vec<String>,
    /// What was committed, in order.
    pub(super) put: Vec<Put>,
    /// What was rolled back.
    pub(super) undone: Vec<String>,
    /// How long each INSERT of an event took.
    pub(super) took: Vec<Duration>,
    /// What was said when it waited for too long.
    pub(super) waits: Vec<String>,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    /// After a while in which others commit what has higher numbers.
    Late(Duration),
    RollBack,
    /// Without what came after a savepoint.
    Partly,
    TwoPhase(TwoPhase),
}

impl Producer {
    pub(super) async fn new(home: &dyn Home, number: usize, chance: Rng) -> Result<Producer> {
        Ok(Producer {
            session: home.producer().await?,
            manners: home.manners(),
            number,
            chance,
            undo: Vec::new(),
            put: Vec::new(),
            undone: Vec::new(),
            took: Vec::new(),
            waits: Vec::new(),
        })
    }

    /// Commits its share of what is demanded.
    pub(super) async fn work(&mut self, demand: &Demand) -> Result<()> {
        while demand.committed.load(Ordering::SeqCst) < demand.events {
            self.pause(demand).await;
            let committed = match self.transaction().await {
                Ok(committed) => committed,
                Err(error) if self.has_waited(&error) => {
                    self.give_up().await?;
                    let said = format!("{error:#}");
                    if !(said.contains(DEADLOCK) && is_among_producers(&mut *self.session).await?) {
                        self.waits.push(said);
                    }
                    0
                }
                Err(error) => return Err(error),
            };
            demand.committed.fetch_add(committed, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Gives the transaction under way up. After a deadlock all but the last word may be refused.
    async fn give_up(&mut self) -> Result<()> {
        let mut said = Ok(());
        for words in &self.undo {
            said = self.session.run(words).await;
        }
        said
    }

    fn has_waited(&self, error: &anyhow::Error) -> bool {
        let said = format!("{error:#}");
        self.manners.waited.is_some_and(|words| words.iter().any(|word| said.contains(word)))
    }

    /// Waits while too much waits, or while this round has had its share.
    async fn pause(&self, demand: &Demand) {
        loop {
            let committed = demand.committed.load(Ordering::SeqCst);
            let waiting = committed.saturating_sub(demand.destination.distinct());
            let share = demand.events * (demand.over.load(Ordering::SeqCst) + 1) / demand.rounds;
            if waiting < BACKLOG && committed < share.max(1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn end(&mut self) -> End {
        match self.chance.u32(..1000) {
            0..80 => End::RollBack,
            80..130 => End::Partly,
            130..180 => End::Late(Duration::from_millis(self.chance.u64(1..60))),
            180..182 => End::Late(Duration::from_millis(self.chance.u64(500..4000))),
            182..200 => self.manners.two_phase.map_or(End::Commit, End::TwoPhase),
            _ => End::Commit,
        }
    }

    /// Returns how many events it committed.
    async fn transaction(&mut self) -> Result<usize> {
        let mut end = self.end();
        // Where there is one writer, nobody could commit meanwhile.
        if let (End::Late(_), None) = (end, self.manners.waited) {
            end = End::Commit;
        }
        let name = Uuid::now_v7().to_string();
        let (begin, undo) = match end {
            End::TwoPhase(words) => (words.begin, words.undo),
            _ => (self.manners.begin, &["ROLLBACK"][..]),
        };
        self.undo = undo.iter().map(|words| words.replace("{name}", &name)).collect();
        self.session.run(&begin.replace("{name}", &name)).await?;
        let mut put = Vec::new();
        // Large ones leave relays with something in hand whenever they are struck.
        let large = self.chance.u32(..20) == 0;
        for _ in 0..if large { self.chance.usize(50..150) } else { self.chance.usize(1..6) } {
            put.push(self.insert().await?);
        }
        if end == End::Partly {
            self.session.run("SAVEPOINT part").await?;
            let more = self.insert().await?;
            self.session.run("ROLLBACK TO SAVEPOINT part").await?;
            self.undone.push(more.id);
            put.push(self.insert().await?);
        }
        match end {
            End::Commit | End::Partly => self.session.run("COMMIT").await?,
            End::Late(after) => {
                tokio::time::sleep(after).await;
                self.session.run("COMMIT").await?;
            }
            End::RollBack => {
                self.session.run("ROLLBACK").await?;
                self.undone.extend(put.into_iter().map(|put| put.id));
                return Ok(0);
            }
            End::TwoPhase(words) => {
                self.session.run(&words.prepare.replace("{name}", &name)).await?;
                tokio::time::sleep(Duration::from_millis(self.chance.u64(1..100))).await;
                self.session.run(&words.commit.replace("{name}", &name)).await?;
            }
        }
        let committed = put.len();
        self.put.extend(put);
        Ok(committed)
    }

    /// Writes a business row and its event. A few events are due later, and have no key.
    async fn insert(&mut self) -> Result<Put> {
        let id = Uuid::now_v7().to_string();
        self.session.run(&format!("INSERT INTO sale (event_id) VALUES ('{id}')")).await?;
        let payload = payload(&id);
        let (key, sql) = if self.chance.u32(..100) < 2 {
            let due = (Millis::now() + Duration::from_millis(self.chance.u64(..500))).0;
            let sql = format!(
                "INSERT INTO outbox_later (event_id, topic, event_type, payload, due_at) \
                 VALUES ('{id}', 'order.paid', 'OrderPaid', '{payload}', {due})"
            );
            (None, sql)
        } else {
            let key = format!("p{}-{}", self.number, self.chance.usize(..KEYS));
            let sql = format!(
                "INSERT INTO outbox (event_id, topic, event_type, biz_key, payload) \
                 VALUES ('{id}', 'order.paid', 'OrderPaid', '{key}', '{payload}')"
            );
            (Some(key), sql)
        };
        let began = Instant::now();
        self.session.run(&sql).await?;
        self.took.push(began.elapsed());
        Ok(Put { id, key })
    }
}

/// Returns the payload of an event, which tells whose it is.
pub(super) fn payload(id: &str) -> String {
    format!("{{\"of\":\"{id}\",\"note\":\"für {}\"}}", "x".repeat(200))
}
