//! Answering together those who ask at the same time.
//!
//! Whoever gets the turn answers for those who wait for it by then, in the order in which they
//! asked. So the more ask, the fewer statements each of them costs. Those who were answered
//! together are likely to ask together again, so the first of them waits a little for the others;
//! one who asks alone waits for no company.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use event::{Cause, Code, StoreError};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

/// How many rows are claimed or settled together at the most, unless one alone asks for more.
pub(super) const ROWS: usize = 1_000;

/// How long whoever has the turn waits for company at the most.
const PATIENCE: Duration = Duration::from_millis(10);

/// The shortest wait: a timer knows no shorter one.
const TICK: Duration = Duration::from_millis(1);

type Answer<A> = Result<A, StoreError>;

/// A turn that somebody has.
pub(super) type Turned<'a> = SemaphorePermit<'a>;

/// A question, and whom to tell.
struct Asked<Q, A> {
    question: Q,
    since: Instant,
    tell: oneshot::Sender<Answer<A>>,
}

/// The questions that wait.
pub(super) struct Together<Q, A> {
    waiting: Mutex<VecDeque<Asked<Q, A>>>,
    /// Rings when somebody asks.
    bell: Notify,
    last: Mutex<Company>,
}

/// Who was answered together the last time, when, and how long that took.
#[derive(Clone, Copy, Debug, Default)]
struct Company {
    count: usize,
    at: Option<Instant>,
    took: Duration,
}

impl Company {
    /// Returns until when it is worth waiting for: about half of what an answer takes.
    fn until(&self) -> Instant {
        Instant::now() + (self.took / 2).clamp(TICK, PATIENCE)
    }
}

/// What becomes of a question.
pub(super) enum Turn<'a, Q, A> {
    /// Another has answered it.
    Told(Answer<A>),
    /// It is to be answered now, with the others that wait.
    Lead(Lead<'a, Q, A>),
}

/// The turn of one who asks.
pub(super) struct Lead<'a, Q, A> {
    together: &'a Together<Q, A>,
    told: oneshot::Receiver<Answer<A>>,
    taken: Vec<Asked<Q, A>>,
    began: Instant,
    /// When this one asked.
    pub(super) since: Instant,
    /// The turn itself.
    pub(super) turn: Turned<'a>,
}

impl<Q, A> Default for Together<Q, A> {
    fn default() -> Self {
        Together { waiting: Mutex::default(), bell: Notify::new(), last: Mutex::default() }
    }
}

impl<Q, A> Together<Q, A> {
    /// Asks, and waits for the turn or for an answer, whichever comes first.
    pub(super) async fn ask<'a>(&'a self, question: Q, turn: &'a Semaphore) -> Turn<'a, Q, A> {
        let since = Instant::now();
        let (tell, mut told) = oneshot::channel();
        self.waiting().push_back(Asked { question, since, tell });
        self.bell.notify_one();
        let turn = tokio::select! {
            biased;
            answer = &mut told => return Turn::Told(answer.unwrap_or_else(|_| Err(unanswered()))),
            turn = take_turn(turn) => turn,
        };
        // The last one may have answered before it gave the turn back.
        match told.try_recv() {
            Ok(answer) => Turn::Told(answer),
            Err(_) => {
                let (together, taken, began) = (self, Vec::new(), Instant::now());
                Turn::Lead(Lead { together, told, taken, began, since, turn })
            }
        }
    }

    /// Returns who was answered together the last time: they are likely to ask together again.
    fn company(&self) -> Company {
        *self.last.lock().expect("nothing panics while the company is open")
    }

    /// Waits until so many ask, or that moment has come.
    async fn gather(&self, count: usize, until: Instant) {
        while self.waiting().len() < count {
            let rung = tokio::time::timeout_at(until.into(), self.bell.notified());
            if rung.await.is_err() {
                return;
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Asked<Q, A>>> {
        self.waiting.lock().expect("nothing panics while the questions are open")
    }
}

impl<Q, A> Lead<'_, Q, A> {
    /// Waits for the answer of another who has taken the question, and lets others have the turn.
    /// Where several may have it at once, each must answer all that it takes.
    pub(super) async fn told(self) -> Answer<A> {
        drop(self.turn);
        self.told.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Waits a little for those who were answered together the last time, to be answered with those
    /// who asked before that and were not.
    pub(super) async fn gather(&self) {
        let company = self.together.company();
        let before = |asked: &&Asked<Q, A>| company.at.is_some_and(|at| asked.since < at);
        let left = self.together.waiting().iter().filter(before).count();
        self.together.gather(company.count + left, company.until()).await;
    }

    /// Takes the first question that waits, and more of them as long as they are `welcome`. There
    /// may be none, where several may have the turn at once.
    pub(super) fn questions(&mut self, mut welcome: impl FnMut(&Q) -> bool) -> Vec<&mut Q> {
        self.began = Instant::now();
        let mut waiting = self.together.waiting();
        while let Some(next) = waiting.front() {
            if !welcome(&next.question) && !self.taken.is_empty() {
                break;
            }
            self.taken.extend(waiting.pop_front());
        }
        self.taken.iter_mut().map(|asked| &mut asked.question).collect()
    }

    /// Learns that so many of those whose questions were taken are about to ask together again.
    pub(super) fn expect(&self, count: usize) {
        let took = self.began.elapsed();
        *self.together.last.lock().expect("nothing panics while the company is open") =
            Company { count, at: Some(Instant::now()), took };
    }

    /// Tells the answers to the first of the questions that were taken; the others wait again.
    /// Returns this one's own, if it was among them.
    pub(super) fn tell(&mut self, answers: Answer<Vec<A>>) -> Option<Answer<A>> {
        // Whoever has stopped waiting does not want to know.
        match answers {
            Ok(answers) => {
                for (asked, answer) in self.taken.drain(..answers.len()).zip(answers) {
                    let _ = asked.tell.send(Ok(answer));
                }
            }
            Err(error) => {
                for asked in self.taken.drain(..) {
                    let _ = asked.tell.send(Err(error.clone()));
                }
            }
        }
        let mut waiting = self.together.waiting();
        self.taken.drain(..).rev().for_each(|asked| waiting.push_front(asked));
        drop(waiting);
        self.told.try_recv().ok()
    }
}

/// Waits for a turn.
pub(super) async fn take_turn(turn: &Semaphore) -> Turned<'_> {
    turn.acquire().await.expect("turns are taken until the end")
}

fn unanswered() -> StoreError {
    let detail = "another's work on the outbox ended before it could answer";
    StoreError::Broken(Cause::new(Code::StoreBroken, detail))
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_immediate;

    use super::*;

    #[tokio::test]
    async fn whoever_has_the_turn_answers_for_those_who_wait() {
        let (together, turn) = (Together::<u32, u32>::default(), Semaphore::new(1));
        let Turn::Lead(mut first) = together.ask(1, &turn).await else { panic!("nobody else") };
        let (second, third) = (together.ask(2, &turn), together.ask(3, &turn));
        tokio::pin!(second, third);
        assert!(poll_immediate(&mut second).await.is_none());
        assert!(poll_immediate(&mut third).await.is_none());
        let asked = first.questions(|question| *question < 3).into_iter().map(|it| *it);
        assert_eq!(asked.collect::<Vec<u32>>(), [1, 2], "the third is not welcome");
        assert_eq!(first.tell(Ok(vec![10, 20])), Some(Ok(10)));
        assert!(matches!(second.await, Turn::Told(Ok(20))));
        drop(first);
        let Turn::Lead(mut third) = third.await else { panic!("it was not answered") };
        assert_eq!(third.questions(|_| true).len(), 1);
    }

    #[tokio::test]
    async fn of_two_who_have_a_turn_one_answers_what_it_took_and_the_other_is_told() {
        let (together, turn) = (Together::<u32, u32>::default(), Semaphore::new(2));
        let Turn::Lead(mut first) = together.ask(1, &turn).await else { panic!("nobody else") };
        let Turn::Lead(mut second) = together.ask(2, &turn).await else { panic!("two may") };
        assert_eq!(first.questions(|_| true).len(), 2);
        assert_eq!(second.questions(|_| true).len(), 0, "its own was taken");
        assert_eq!(first.tell(Ok(vec![10, 20])), Some(Ok(10)));
        assert_eq!(second.told().await, Ok(20));
        assert_eq!(turn.available_permits(), 1);
    }

    #[tokio::test]
    async fn those_who_were_answered_together_are_waited_for_and_nobody_else_is() {
        let (together, turn) = (Together::<u32, u32>::default(), Semaphore::new(1));
        let Turn::Lead(mut first) = together.ask(1, &turn).await else { panic!("nobody else") };
        assert!(poll_immediate(first.gather()).await.is_some(), "one who asks alone");
        let second = together.ask(2, &turn);
        tokio::pin!(second);
        assert!(poll_immediate(&mut second).await.is_none());
        assert_eq!(first.questions(|_| true).len(), 2);
        first.began = first.began.checked_sub(Duration::from_secs(1)).unwrap();
        first.expect(2);
        assert_eq!(first.tell(Ok(vec![10, 20])), Some(Ok(10)));
        assert!(matches!(second.await, Turn::Told(Ok(20))));
        drop(first);

        let Turn::Lead(mut first) = together.ask(3, &turn).await else { panic!("nobody else") };
        {
            let gather = first.gather();
            tokio::pin!(gather);
            assert!(poll_immediate(&mut gather).await.is_none(), "the other one is about to ask");
            let other = together.ask(4, &turn);
            tokio::pin!(other);
            assert!(poll_immediate(&mut other).await.is_none());
            assert!(poll_immediate(&mut gather).await.is_some());
        }
        assert_eq!(first.questions(|_| true).len(), 2);
        first.expect(2);
        assert_eq!(first.tell(Ok(vec![30, 40])), Some(Ok(30)));
        drop(first);

        let Turn::Lead(first) = together.ask(5, &turn).await else { panic!("nobody else") };
        // It does not come, and nobody waits for long.
        first.gather().await;
    }

    #[tokio::test]
    async fn a_question_that_was_not_answered_waits_on_in_its_place() {
        let (together, turn) = (Together::<u32, u32>::default(), Semaphore::new(1));
        let Turn::Lead(mut first) = together.ask(1, &turn).await else { panic!("nobody else") };
        let second = together.ask(2, &turn);
        tokio::pin!(second);
        assert!(poll_immediate(&mut second).await.is_none());
        assert_eq!(first.questions(|_| true).len(), 2);
        assert_eq!(first.tell(Ok(vec![10])), Some(Ok(10)));
        drop(first);
        let Turn::Lead(mut second) = second.await else { panic!("it was not answered") };
        assert_eq!(second.questions(|_| true), [&2]);
        let down = StoreError::Down(Cause::new(Code::StoreDown, "away"));
        assert_eq!(second.tell(Err(down.clone())), Some(Err(down)), "an error is everybody's");
    }
}
