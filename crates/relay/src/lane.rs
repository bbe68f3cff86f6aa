//! A lane joins one source to one sink: claim, publish, judge, settle.
//!
//! A turn is one straight function. There is no queue between its steps; to go faster, run more
//! turns at once. Where much waits, the outcomes of a turn are written down while the next one
//! claims and publishes; it never gets further than that. If the process dies anywhere in a turn,
//! the leases run out and the rows are due. Because a lane has one sink, a destination that is down
//! rests its own lane and no other.
//!
//! A stop never calls unoffered what may have arrived: an offer that is cut is unknown, and what
//! cannot be written down is left to the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use event::{
    Answer, Cause, Claim, Clock, Code, Event, Limits, Millis, Outcome, Policy, Refusal, Settlement,
    Sink, Source, StoreError, Want,
};
use futures_util::future::{join, join_all};
use tokio_util::sync::CancellationToken;

/// How a lane takes its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Events in a turn at the most.
    pub batch: usize,
    /// Bytes of payload in a turn at the most.
    pub bytes: usize,
    /// How long a claim lasts.
    pub lease: Duration,
    /// How long to wait for a source that does not ring.
    pub idle: Duration,
    /// Turns at once.
    pub turns: usize,
    /// How long a stop waits for offers under way. The sink must be done sooner.
    pub drain: Duration,
}

/// A lane.
#[derive(Clone)]
pub struct Lane {
    /// The outbox's name.
    pub outbox: String,
    /// The sink's name.
    pub sink_name: String,
    /// Where claims come from.
    pub source: Arc<dyn Source>,
    /// Where events go.
    pub sink: Arc<dyn Sink>,
    /// What paces the loop.
    pub clock: Arc<dyn Clock>,
    /// How much patience events get.
    pub policy: Policy,
    /// How turns are taken.
    pub options: Options,
}

/// Outcomes of a turn that are not written down.
struct Owed {
    ends: Vec<Settlement>,
    /// Until when they can be.
    until: Millis,
    next: Next,
}

/// What a turn says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It got all that it wanted, so there is likely to be more.
    Beside,
    /// There was something, so there may be more.
    Again,
    /// The destination is down.
    Rest,
}

/// How the turns of a lane end.
struct Ending {
    /// Claim and offer no more.
    stop: CancellationToken,
    /// Wait for no answer any more.
    cut: CancellationToken,
    /// Until when outcomes last that could not be written down, so that only the lease tells of
    /// their claims; 0 if there are none.
    owed: AtomicI64,
    /// Whether a claim was answered.
    worked: AtomicBool,
}

impl Ending {
    fn owe(&self, until: Millis) {
        self.owed.fetch_max(until.0, Ordering::Relaxed);
    }
}

/// How a lane was broken off by its store.
pub(crate) struct Break {
    pub(crate) cause: Cause,
    /// Whether it had claimed anything well, if only nothing.
    pub(crate) worked: bool,
    /// Until when outcomes last that were not written down; 0 if there are none.
    pub(crate) owed: Millis,
}

/// How a lane begins again after a break.
pub(crate) struct Again<'a> {
    /// What the break has left.
    pub(crate) owed: Millis,
    /// What is told when the store works again.
    pub(crate) mended: &'a (dyn Fn() + Sync),
}

impl Lane {
    /// How long turns that were cut may take to write down how they ended.
    const LAST_WORDS: Duration = Duration::from_secs(5);
    /// How many turns wait for the settlement of the one before after one got nothing beside it.
    const APART: u32 = 16;

    /// Takes turns until told to stop, or until asking the source again cannot help; then hands
    /// over what it leases. Turns under way are finished, and cut only after the drain time.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), Cause> {
        let ended = self.run_once(None, stop).await;
        self.sink.close().await;
        ended.map_err(|broken| broken.cause)
    }

    /// Does the same and leaves the sink open, so that the lane can begin again.
    pub(crate) async fn run_once(
        &self,
        again: Option<&Again<'_>>,
        stop: &CancellationToken,
    ) -> Result<(), Break> {
        let ending = Ending {
            stop: stop.child_token(),
            cut: CancellationToken::new(),
            owed: AtomicI64::new(again.map_or(0, |again| again.owed.0)),
            worked: AtomicBool::new(false),
        };
        let turns = async {
            if let Some(again) = again {
                self.feel(again, &ending).await?;
            }
            let turns = (0..self.options.turns.max(1)).map(|_| async {
                // A turn that cannot go on ends the lane, not just itself.
                let _end = ending.stop.clone().drop_guard();
                self.take_turns(&ending).await
            });
            join_all(turns).await.into_iter().find_map(Result::err).map_or(Ok(()), Err)
        };
        let overstayed = async {
            stop.cancelled().await;
            self.clock.sleep(self.options.drain).await;
            ending.cut.cancel();
            self.clock.sleep(Lane::LAST_WORDS).await;
        };
        let ended = tokio::select! {
            ended = turns => ended,
            () = overstayed => {
                ending.owe(Millis(i64::MAX));
                Ok(())
            }
        };
        let (owed, worked) = (Millis(ending.owed.into_inner()), ending.worked.into_inner());
        self.hand_over(owed > Millis(0)).await;
        ended.map_err(|cause| Break { cause, worked, owed })
    }

    /// Takes one event at a time after a break, until one was written down: a store that reads and
    /// does not write costs one repetition, not a batch. Where nothing waits, an answer is enough,
    /// unless it is from under the lease of what was not written down.
    async fn feel(&self, again: &Again<'_>, ending: &Ending) -> Result<(), Cause> {
        let one = Lane { options: Options { batch: 1, ..self.options }, ..self.clone() };
        let stop = &ending.stop;
        while !stop.is_cancelled() {
            match one.trial(again.owed, ending).await {
                Ok(true) => {
                    (again.mended)();
                    return Ok(());
                }
                Ok(false) => self.wait(stop).await,
                Err(StoreError::Down(_)) => self.pause(self.policy.rest, stop).await,
                Err(StoreError::Broken(cause)) => return Err(cause),
            }
        }
        Ok(())
    }

    /// Takes one turn, and tells whether the store has shown that it works.
    async fn trial(&self, owed: Millis, ending: &Ending) -> Result<bool, StoreError> {
        match self.turn(ending).await? {
            Some(turned) => self.settle(&turned, ending).await.map(|()| true),
            None => Ok(self.clock.now() >= owed),
        }
    }

    /// Gives the lease back, unless there are claims of which only the lease can tell that somebody
    /// had them: to hand those over is to say that they were never offered.
    async fn hand_over(&self, owing: bool) {
        let (outbox, sink) = (&self.outbox, &self.sink_name);
        if owing {
            let why = "outcomes could not be written down";
            tracing::warn!(outbox, sink, why, "the lease was not handed over; it will run out");
        } else if let Err(error) = self.source.release().await {
            tracing::warn!(outbox, sink, %error, "the lease was not handed over; it will run out");
        }
    }

    async fn take_turns(&self, ending: &Ending) -> Result<(), Cause> {
        let (stop, mut apart) = (&ending.stop, 0);
        while !stop.is_cancelled() {
            let ended = match self.turn(ending).await {
                Ok(Some(owed)) => self.go_on(owed, &mut apart, ending).await,
                Ok(None) => {
                    self.wait(stop).await;
                    continue;
                }
                Err(error) => Err(error),
            };
            match ended {
                Ok(Next::Rest) => self.rest(stop).await,
                Ok(Next::Beside | Next::Again) => {}
                Err(StoreError::Down(_)) => self.pause(self.policy.rest, stop).await,
                Err(StoreError::Broken(cause)) => return Err(cause),
            }
        }
        Ok(())
    }

    /// Writes the outcomes of a turn down and, as long as each turn gets all that it wants, takes
    /// the next one meanwhile. One that gets nothing so may have met only keys that wait for the
    /// very settlement beside it: then so many are taken `apart`.
    async fn go_on(
        &self,
        mut owed: Owed,
        apart: &mut u32,
        ending: &Ending,
    ) -> Result<Next, StoreError> {
        let beside = *apart == 0;
        *apart = apart.saturating_sub(1);
        while beside && owed.next == Next::Beside && !ending.stop.is_cancelled() {
            let (settled, turned) = join(self.settle(&owed, ending), self.turn(ending)).await;
            let Ok(Some(next)) = turned else {
                *apart = Lane::APART;
                return settled.and(turned.map(|_| Next::Again));
            };
            owed = next;
            if let Err(error) = settled {
                // What was offered meanwhile has its own time left; the first error tells.
                let _ = self.settle(&owed, ending).await;
                return Err(error);
            }
        }
        self.settle(&owed, ending).await?;
        Ok(owed.next)
    }

    /// Claims, publishes and judges. Returns what is to be written down, if anything was due.
    async fn turn(&self, ending: &Ending) -> Result<Option<Owed>, StoreError> {
        let Options { batch, bytes, lease, .. } = self.options;
        let until = self.clock.now() + lease;
        let claims = self.source.claim(&Want { limit: batch, bytes, lease }).await?;
        ending.worked.store(true, Ordering::Relaxed);
        if claims.is_empty() {
            return Ok(None);
        }
        let room = claims.len();
        let (mut ends, mut offered) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut events = Vec::with_capacity(room);
        for claim in claims {
            if let Some(outcome) = self.hopeless(&claim) {
                ends.push(claim.end(outcome));
                continue;
            }
            // Whatever becomes of it, it ends under this address and fence.
            let end = claim.end(Outcome::Release { after: Duration::ZERO });
            offered.push((end, claim.attempt));
            events.push(claim.event);
        }

        let answers = self.offer(&events, ending).await;
        let down = answers.iter().any(|answer| matches!(answer, Err(Refusal::Down(_))));
        for ((event, (end, attempt)), answer) in events.iter().zip(offered).zip(answers) {
            let outcome = self.policy.judge(event, attempt, answer, fastrand::f64());
            ends.push(Settlement { outcome, ..end });
        }
        let next = match (down, room == batch) {
            (true, _) => Next::Rest,
            (false, true) => Next::Beside,
            (false, false) => Next::Again,
        };
        Ok(Some(Owed { ends, until, next }))
    }

    /// Says, before an event is offered, that it never can be: it has had all its attempts, brings
    /// relays down, or breaks a limit that a plain INSERT does not check.
    fn hopeless(&self, claim: &Claim) -> Option<Outcome> {
        let Claim { event, attempt, unexplained, .. } = claim;
        self.policy.spent(event, *attempt, *unexplained).or_else(|| {
            let invalid = event.check(&Limits::default()).err()?;
            Some(Outcome::Dead(Cause::new(Code::BadEvent, invalid)))
        })
    }

    /// Offers events. Once the lane stops none is offered, and an offer that is cut is unknown for
    /// all of its events, because the sink has not said which were out.
    async fn offer(&self, events: &[Event], ending: &Ending) -> Vec<Answer> {
        if events.is_empty() {
            return Vec::new();
        }
        if ending.stop.is_cancelled() {
            return vec![Err(Refusal::Held); events.len()];
        }
        let answers = tokio::select! {
            answers = self.sink.publish(events) => answers,
            () = ending.cut.cancelled() => {
                let detail = "the relay had to stop before an answer came; it may have arrived";
                vec![Err(Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))); events.len()]
            }
        };
        assert_eq!(answers.len(), events.len(), "a sink answers for each event");
        answers
    }

    /// Writes the outcomes down, trying for as long as the leases last: to give up sooner is to
    /// publish twice, and to try longer is in vain. Only a stop that has waited long enough does.
    async fn settle(&self, owed: &Owed, ending: &Ending) -> Result<(), StoreError> {
        const AGAIN: Duration = Duration::from_millis(100);
        loop {
            match self.source.settle(&owed.ends).await {
                Err(StoreError::Down(_))
                    if self.clock.now() < owed.until && !ending.cut.is_cancelled() =>
                {
                    self.clock.sleep(AGAIN).await;
                }
                settled => {
                    return settled.map(drop).inspect_err(|_| ending.owe(owed.until));
                }
            }
        }
    }

    /// Leaves a destination alone that is down, and asks it now and then. Meanwhile the source
    /// keeps its lease, so that the rows stay where they are.
    async fn rest(&self, stop: &CancellationToken) {
        loop {
            self.pause(self.policy.rest.mul_f64(0.5 + fastrand::f64()), stop).await;
            if stop.is_cancelled() || self.sink.probe().await.is_ok() {
                return;
            }
        }
    }

    async fn wait(&self, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.source.wait(self.options.idle) => {}
        }
    }

    /// Passes time while the source keeps what it leases.
    async fn pause(&self, duration: Duration, stop: &CancellationToken) {
        let keep = async {
            loop {
                self.source.wait(self.options.idle).await;
                self.clock.sleep(self.options.idle).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.clock.sleep(duration) => {}
            () = keep => {}
        }
    }
}
