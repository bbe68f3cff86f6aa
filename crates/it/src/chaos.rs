//! Chaos: real relays are killed and stopped beyond their leases, again and again, while producers
//! write. At the end every promise is counted from facts of the database and the destination.
//!
//! What happens is drawn from a seed; when it happens is left to the machine. The sleeps are the
//! weather, and no check counts on what they bring about. The weather calms once everything is
//! committed: what is promised is that every event ends sent once faults end, and a machine that is
//! busy enough gets nothing done in between.

mod deadlock;
mod destination;
mod facts;
mod fleet;
mod home;
mod producer;
mod told;
mod watched;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use fastrand::Rng;
use store::Strategy;
use tokio_util::sync::CancellationToken;

use destination::Destination;
use facts::{Came, Facts, Sent};
use fleet::Fleet;
use home::{Home, Session, Watch};
use producer::{Demand, Producer};

pub use facts::Finding;
pub use fleet::Toll;
pub use told::Outcome;
pub use watched::watched;

/// How long nothing may move in calm weather before the rest is given up as lost.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many events are put before there is a relay: one in so many, and so many at the most.
const BEFORE: (usize, usize) = (20, 1000);

/// What shall happen.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server of the world, or `sqlite`.
    pub database: String,
    /// How relays divide the rows. Where they compete, no order is promised.
    pub strategy: Strategy,
    /// How many events are committed, at the least.
    pub events: usize,
    /// How many relays work.
    pub relays: usize,
    /// What everything is drawn from.
    pub seed: u64,
    /// Whether relays only come and go as they should.
    pub calm: bool,
    /// In how many rounds something befalls the relays, at the least.
    pub rounds: usize,
}

/// Lets it happen, and tells what came of it.
pub async fn run(plan: &Plan, tell: &(dyn Fn(&str) + Sync)) -> Result<Outcome> {
    let home = home::make(&plan.database, plan.strategy).await?;
    let began = Instant::now();
    let outcome = happen(plan, &*home, tell).await;
    home.leave().await?;
    outcome.map(|outcome| Outcome { took: began.elapsed(), ..outcome })
}

async fn happen(plan: &Plan, home: &dyn Home, tell: &(dyn Fn(&str) + Sync)) -> Result<Outcome> {
    let mut chance = Rng::with_seed(plan.seed);
    let destination = Arc::new(Destination::start(plan.seed).await?);
    let mut crew = Crew::hire(home, &mut chance).await?;
    let first = demand((plan.events / BEFORE.0).min(BEFORE.1), 1, &destination);
    crew.work(&first).await?;
    let alone = crew.took();

    let mut fleet = Fleet::new(home, destination.clone(), chance.fork(), plan)?;
    for _ in 0..plan.relays {
        fleet.start().await?;
    }
    let rest = demand(plan.events, plan.rounds.max(1), &destination);
    rest.committed.store(first.committed.load(Ordering::SeqCst), Ordering::SeqCst);
    let (put, over) = (CancellationToken::new(), CancellationToken::new());
    let ((), (), waits) = tokio::try_join!(
        async {
            let work = async { crew.work(&rest).await.map(|()| put.cancel()) };
            tokio::try_join!(work, fleet.weather(&rest, &put))?;
            drained(home, &destination, &rest).await?;
            over.cancel();
            Ok(())
        },
        progress(&rest, &over, tell),
        watch(home, &over),
    )?;
    fleet.end().await?;
    let beside = crew.took();
    let undone = crew.undone();
    let facts = learn(home, crew, &destination, waits, plan).await?;
    Ok(Outcome {
        title: format!("{} {}, {}", plan.database, home.version(), plan.strategy),
        findings: facts.findings(),
        committed: facts.put.len(),
        undone,
        warned: fleet.warned(),
        refused: destination.refused(),
        twice: facts.twice(),
        toll: fleet.toll,
        alone,
        beside,
        took: Duration::ZERO,
    })
}

fn demand(events: usize, rounds: usize, destination: &Arc<Destination>) -> Demand {
    let (committed, over) = Default::default();
    Demand { events, committed, rounds, over, destination: destination.clone() }
}

/// All producers.
struct Crew(Vec<Producer>);

impl Crew {
    async fn hire(home: &dyn Home, chance: &mut Rng) -> Result<Crew> {
        let mut crew = Vec::new();
        for number in 0..home.manners().producers {
            crew.push(Producer::new(home, number, chance.fork()).await?);
        }
        Ok(Crew(crew))
    }

    async fn work(&mut self, demand: &Demand) -> Result<()> {
        let work = self.0.iter_mut().map(|producer| producer.work(demand));
        futures_util::future::try_join_all(work).await.map(drop)
    }

    /// Takes how long each INSERT took since the last time.
    fn took(&mut self) -> Vec<Duration> {
        let mut took: Vec<_> = self.0.iter_mut().flat_map(|it| it.took.drain(..)).collect();
        took.sort();
        took
    }

    fn undone(&self) -> usize {
        self.0.iter().map(|producer| producer.undone.len()).sum()
    }
}

/// Waits until nothing waits any more, or until nothing has moved for long.
async fn drained(home: &dyn Home, destination: &Destination, demand: &Demand) -> Result<()> {
    let mut session = home.onlooker().await?;
    let (mut last, mut moved) = ((0, 0), Instant::now());
    loop {
        let now = (destination.distinct(), waiting(&mut *session).await?);
        if now.1 == 0 && now.0 >= demand.committed.load(Ordering::SeqCst) {
            return Ok(());
        }
        if now != last {
            (last, moved) = (now, Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Counts the rows that are not sent.
async fn waiting(session: &mut dyn Session) -> Result<usize> {
    let mut sum = 0;
    for table in ["outbox", "outbox_later", "outbox_dead"] {
        sum += number(session, &format!("SELECT count(*) FROM {table}")).await?;
    }
    Ok(sum)
}

/// Returns the rows that are not sent, and what went wrong with them.
async fn left(session: &mut dyn Session) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for (table, trail) in [("outbox", "''"), ("outbox_later", "trail"), ("outbox_dead", "trail")] {
        let rows = session.rows(&format!("SELECT event_id, {trail} FROM {table}")).await?;
        let told = |row: Vec<_>| row.into_iter().flatten().collect::<Vec<String>>().join(" ");
        left.extend(rows.into_iter().map(|row| format!("in {table}: {}", told(row))));
    }
    Ok(left)
}

async fn number(session: &mut dyn Session, sql: &str) -> Result<usize> {
    let sql = format!("SELECT CAST(({sql}) AS CHAR(20))");
    let rows = session.rows(&sql).await?;
    let text = rows.into_iter().flatten().flatten().next().unwrap_or_default();
    Ok(text.trim().parse()?)
}

async fn progress(
    demand: &Demand,
    over: &CancellationToken,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let began = Instant::now();
    while !over.is_cancelled() {
        tokio::select! {
            () = over.cancelled() => {}
            () = tokio::time::sleep(Duration::from_secs(2)) => {}
        }
        let committed = demand.committed.load(Ordering::SeqCst);
        let (arrived, seconds) = (demand.destination.distinct(), began.elapsed().as_secs());
        tell(&format!("{seconds:>5} s  {committed:>8} committed  {arrived:>8} arrived"));
    }
    Ok(())
}

/// Looks for producers that wait for a relay, for as long as the run lasts.
async fn watch(home: &dyn Home, over: &CancellationToken) -> Result<Option<Vec<String>>> {
    let Some(look) = home.watch() else { return Ok(None) };
    let mut session = home.onlooker().await?;
    let mut waits = Vec::new();
    while !over.is_cancelled() {
        waits.extend(seen(&mut *session, look).await?);
        tokio::time::sleep(look.every).await;
    }
    Ok(Some(waits))
}

/// Returns which producers wait at this moment, and for whom.
async fn seen(session: &mut dyn Session, look: Watch) -> Result<Vec<String>> {
    let rows = session.rows(look.sql).await?.into_iter();
    Ok(rows.map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" by ")).collect())
}

async fn learn(
    home: &dyn Home,
    crew: Crew,
    destination: &Destination,
    waits: Option<Vec<String>>,
    plan: &Plan,
) -> Result<Facts> {
    let mut session = home.onlooker().await?;
    let (mut put, mut waits) = (Vec::new(), waits);
    for producer in crew.0 {
        put.extend(producer.put);
        waits.iter_mut().for_each(|waits| waits.extend(producer.waits.iter().cloned()));
    }
    let keys: std::collections::HashMap<_, _> =
        put.iter().map(|put| (put.id.as_str(), put.key.as_deref())).collect();
    let came = destination.accepted().into_iter().map(|arrival| {
        let key = keys.get(arrival.id.as_str()).copied().flatten();
        let whole = arrival.key.as_deref() == key && arrival.body == producer::payload(&arrival.id);
        Came { id: arrival.id, by: arrival.by, receipt: arrival.receipt.to_string(), whole }
    });
    let came = came.collect();
    let sold = session.rows("SELECT event_id FROM sale").await?.into_iter().flatten().flatten();
    let sent = session.rows("SELECT event_id, broker_message_id FROM outbox_sent").await?;
    let sent = sent.into_iter().map(|row| {
        let mut row = row.into_iter();
        Sent { id: row.next().flatten().unwrap_or_default(), receipt: row.next().flatten() }
    });
    Ok(Facts {
        sold: sold.collect(),
        came,
        sent: sent.collect(),
        left: left(&mut *session).await?,
        counted: number(&mut *session, home.counted()).await?,
        changes: home::changes(&mut *session).await?,
        waits,
        calm: plan.calm,
        ordered: !plan.strategy.competes(),
        put,
    })
}
