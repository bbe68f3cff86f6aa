//! One run of a consumer: who takes from the feed, who works, and how it ends.

mod end;

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use event::{Begun, Cause, Code, Consumed, Delivery, Event, Refusal, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::failure::Kind;
use super::lines::{Lines, Turn};
use super::rest::Rest;
use super::{Consumer, Database, Failure};
use crate::Error;
use crate::outbox::USUAL;
use crate::tx::Tx;

/// How long the feed is asked before the consumer looks around.
const ASK: Duration = Duration::from_secs(1);

/// After how long the inbox is asked again for an event that another holder works on.
const WAIT: Duration = Duration::from_secs(1);

/// How many are in hand for each that is worked on.
const AHEAD: usize = 4;

/// What a work has missed that goes on after an error of the database.
const UNDONE: &str =
    "the work ignored an error that has undone its transaction; return errors by ?";

/// A consumer at work.
pub(super) struct Shift<DB: Database, W>
where
    DB::Connection: Tx,
{
    consumer: Consumer<DB>,
    work: W,
    lines: Mutex<Lines>,
    places: Semaphore,
    hands: Semaphore,
    rest: Rest,
    stopped: watch::Sender<bool>,
    broken: Mutex<Option<StoreError>>,
}

/// What came, and its place in the line of its key.
struct InHand<'a> {
    delivery: Delivery,
    turn: Turn,
    _hand: SemaphorePermit<'a>,
}

/// How the work on an event ended.
enum Worked {
    /// It was taken in, and that took so long.
    First(Duration),
    Before,
    /// The stop came first.
    Left,
    /// Somebody works on it in another way, or the database is away: not before then again.
    Wait(Instant, Cause),
    Failed(Cause),
    Never(Cause),
}

impl<DB: Database, W> Shift<DB, W>
where
    DB::Connection: Tx,
    W: for<'a> Fn(&'a mut DB::Connection, &'a Event) -> BoxFuture<'a, Result<(), Failure>>
        + Send
        + Sync,
{
    pub(super) fn new(consumer: Consumer<DB>, work: W) -> Shift<DB, W> {
        let places = Semaphore::new(consumer.at_once);
        let hands = Semaphore::new(consumer.at_once * AHEAD);
        let (lines, rest, broken) = (Mutex::default(), Rest::default(), Mutex::default());
        let stopped = watch::Sender::new(false);
        Shift { consumer, work, lines, places, hands, rest, stopped, broken }
    }

    /// Takes and works until the stop; what is in hand then has its time.
    pub(super) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let working = self.work_on(receiver);
        let stopping = async {
            tokio::select! {
                () = stop => self.stop(),
                () = self.stopped() => {}
            }
        };
        let all = async { tokio::join!(self.take(sender), working, stopping) };
        let drained = async {
            self.stopped().await;
            sleep(self.consumer.drain).await;
        };
        tokio::select! {
            _ = all => {}
            () = drained => {}
        }
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner).take();
        broken.map_or(Ok(()), |error| Err(Error::Store(error)))
    }

    /// Carries everything that comes to its end, side by side.
    async fn work_on<'a>(&'a self, mut receiver: mpsc::UnboundedReceiver<InHand<'a>>) {
        let (mut carried, mut open) = (FuturesUnordered::new(), true);
        while open || !carried.is_empty() {
            tokio::select! {
                come = receiver.recv(), if open => match come {
                    Some(come) => carried.push(self.carry(come)),
                    None => open = false,
                },
                Some(()) = carried.next(), if !carried.is_empty() => {}
            }
        }
    }

    /// Takes from the feed while there is a free hand. The feed is never interrupted: what it was
    /// about to hand out would be nobody's.
    async fn take<'a>(&'a self, sender: mpsc::UnboundedSender<InHand<'a>>) {
        while let Some(hand) = self.free().await {
            match self.consumer.feed.next(ASK).await {
                Ok(Some(delivery)) if *self.stopped.borrow() => {
                    self.put_back(delivery.handle).await;
                }
                Ok(Some(delivery)) => {
                    let key = delivery.event.as_ref().ok().and_then(|event| event.key.as_deref());
                    let turn = self.lines.lock().unwrap_or_else(PoisonError::into_inner).enter(key);
                    let come = InHand { delivery, turn, _hand: hand };
                    // The other end outlives this one.
                    let _ = sender.send(come);
                }
                Ok(None) => {}
                Err(refusal) => {
                    self.tell(&Consumed::Away(cause(refusal)));
                    self.rest.begin(fastrand::f64());
                }
            }
        }
    }

    /// Waits for a free hand and for the end of a rest; none after the stop.
    async fn free(&self) -> Option<SemaphorePermit<'_>> {
        let free = async {
            let hand = self.hands.acquire().await.ok()?;
            if let Some(until) = self.rest.until() {
                sleep_until(until).await;
            }
            Some(hand)
        };
        tokio::select! {
            biased;
            () = self.stopped() => None,
            hand = free => hand,
        }
    }

    /// Carries one delivery to its end, and keeps it from others meanwhile.
    async fn carry(&self, mut come: InHand<'_>) {
        let (delivery, turn) = (&come.delivery, &mut come.turn);
        let worked = self.keep(delivery.handle, self.work(delivery, turn)).await;
        self.end(delivery, worked).await;
        if let Ok(event) = &delivery.event {
            self.consumer.patience.went(event.id);
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).leave(come.turn);
    }

    /// Works on an event as often as nobody is to blame. It stays in hand meanwhile: the broker
    /// counts how often it hands out, and would blame the event in the end.
    async fn work(&self, delivery: &Delivery, turn: &mut Turn) -> Worked {
        let event = match &delivery.event {
            Ok(event) => event,
            Err(cause) => return Worked::Never(cause.clone()),
        };
        if let Some(cause) = self.consumer.patience.came(event.id, delivery.attempt) {
            return Worked::Never(cause);
        }
        loop {
            let turned = async {
                turn.wait().await;
                self.places.acquire().await
            };
            let place = tokio::select! {
                biased;
                () = self.stopped() => return Worked::Left,
                place = turned => place,
            };
            let worked = self.take_in(event).await.unwrap_or_else(|failure| self.judge(failure));
            drop(place);
            let Worked::Wait(until, cause) = &worked else { return worked };
            self.tell(&Consumed::Again(cause.clone()));
            tokio::select! {
                biased;
                () = self.stopped() => return worked,
                () = sleep_until(*until) => {}
            }
        }
    }

    /// Does the work in one transaction with the memory of it.
    async fn take_in(&self, event: &Event) -> Result<Worked, Failure> {
        let (consumer, group) = (&self.consumer, &self.consumer.group);
        let outbox = consumer.outbox.as_ref().unwrap_or(&USUAL);
        let began = Instant::now();
        let mut tx = DB::open(&consumer.pool).await?;
        match Tx::take_in(&mut *tx, &outbox.tables, group, event.id).await? {
            Begun::Go(_) => {}
            Begun::Done => return Ok(Worked::Before),
            Begun::Busy { until } => {
                let why = format_args!("another holder works on it until {until}");
                let cause = Cause::new(Code::StoreBusy, why);
                return Ok(Worked::Wait(Instant::now() + WAIT, cause));
            }
        }
        let worked = AssertUnwindSafe((self.work)(&mut *tx, event)).catch_unwind().await;
        let worked = worked.unwrap_or_else(|panic| Err(Failure::later(told(&*panic))));
        let whole = match worked {
            // The answer to a commit does not tell that an error has undone what is committed.
            Ok(()) => match Tx::remembers(&mut *tx, &outbox.tables, group, event.id).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failure::later(UNDONE)),
                Err(error) => Err(Failure::from(error)),
            },
            Err(failure) => Err(failure),
        };
        match whole {
            Ok(()) => {
                tx.commit().await?;
                Ok(Worked::First(began.elapsed()))
            }
            Err(failure) => {
                // A connection that cannot roll back is closed, which does the same.
                let _ = tx.rollback().await;
                Err(failure)
            }
        }
    }

    /// Says what a failure means. The database's faults are not the event's.
    fn judge(&self, failure: Failure) -> Worked {
        let error = match failure.0 {
            Kind::Later(why) => return Worked::Failed(Cause::new(Code::ConsumerFailed, why)),
            Kind::Never(why) => return Worked::Never(Cause::new(Code::ConsumerFailed, why)),
            Kind::Database(error) => DB::meaning(&error),
            Kind::Store(error) => error,
        };
        match error {
            StoreError::Down(cause) => Worked::Wait(self.rest.begin(fastrand::f64()), cause),
            StoreError::Broken(cause) if cause.code == Code::SchemaMissing => {
                let error = StoreError::Broken(cause.clone());
                self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                self.stop();
                Worked::Wait(Instant::now(), cause)
            }
            StoreError::Broken(cause) => Worked::Failed(cause),
        }
    }
}

impl<DB: Database, W> Shift<DB, W>
where
    DB::Connection: Tx,
{
    fn tell(&self, what: &Consumed) {
        if let Some(witness) = &self.consumer.witness {
            witness.consumed(&self.consumer.group, what);
        }
    }

    fn stop(&self) {
        self.stopped.send_replace(true);
    }

    async fn stopped(&self) {
        // The sender is our own, so the news always comes.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Returns what a panic said.
fn told(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the work panicked: {}", said.unwrap_or_default())
}

fn cause(refusal: Refusal) -> Cause {
    match refusal {
        Refusal::Down(cause)
        | Refusal::Retry(cause, _)
        | Refusal::Reject(cause)
        | Refusal::Unknown(cause) => cause,
        Refusal::Held => Cause::new(Code::SinkBusy, "the feed holds back"),
    }
}
