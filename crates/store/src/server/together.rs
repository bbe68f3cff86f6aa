//! Answering together those who ask at the same time.
//!
//! Whoever gets the turn answers for those who wait for it by then, in the order in which they
//! asked. So the more ask, the fewer statements each of them costs; one who asks alone waits for no
//! company.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use event::{Cause, Code, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// How many rows are claimed or settled together at the most, unless one alone asks for more.
pub(super) const ROWS: usize = 1_000;

type Answer<A> = Result<A, StoreError>;

/// A turn that somebody has.
pub(super) type Turned<'a> = SemaphorePermit<'a>;

/// A question, and whom to tell.
struct Asked<Q, A> {
    question: Q,
    tell: oneshot::Sender<Answer<A>>,
}

/// The questions that wait.
pub(super) struct Together<Q, A>(Mutex<VecDeque<Asked<Q, A>>>);

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
    asked: Vec<Asked<Q, A>>,
    /// When this one asked.
    pub(super) since: Instant,
    /// The turn itself.
    pub(super) turn: Turned<'a>,
}

impl<Q, A> Default for Together<Q, A> {
    fn default() -> Self {
        Together(Mutex::default())
    }
}

impl<Q, A> Together<Q, A> {
    /// Asks, and waits for the turn or for an answer, whichever comes first.
    pub(super) async fn ask<'a>(&'a self, question: Q, turn: &'a Semaphore) -> Turn<'a, Q, A> {
        let since = Instant::now();
        let (tell, mut told) = oneshot::channel();
        self.waiting().push_back(Asked { question, tell });
        let turn = tokio::select! {
            biased;
            answer = &mut told => return Turn::Told(answer.unwrap_or_else(|_| Err(unanswered()))),
            turn = take_turn(turn) => turn,
        };
        // The last one may have answered before it gave the turn back.
        match told.try_recv() {
            Ok(answer) => Turn::Told(answer),
            Err(_) => Turn::Lead(Lead { together: self, told, asked: Vec::new(), since, turn }),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Asked<Q, A>>> {
        self.0.lock().expect("nothing panics while the questions are open")
    }
}

impl<Q, A> Lead<'_, Q, A> {
    /// Waits for the answer of another who has taken the question, and lets others have the turn.
    /// Where several may have it at once, each must answer all that it takes.
    pub(super) async fn told(self) -> Answer<A> {
        drop(self.turn);
        self.told.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Takes the first question that waits, and more of them as long as they are `welcome`. There
    /// may be none, where several may have the turn at once.
    pub(super) fn questions(&mut self, mut welcome: impl FnMut(&Q) -> bool) -> Vec<&mut Q> {
        let mut waiting = self.together.waiting();
        while let Some(next) = waiting.front() {
            if !welcome(&next.question) && !self.asked.is_empty() {
                break;
            }
            self.asked.extend(waiting.pop_front());
        }
        self.asked.iter_mut().map(|asked| &mut asked.question).collect()
    }

    /// Tells the answers to the first of the questions that were taken; the others wait again.
    /// Returns this one's own, if it was among them.
    pub(super) fn tell(&mut self, answers: Answer<Vec<A>>) -> Option<Answer<A>> {
        let mut asked = std::mem::take(&mut self.asked);
        match answers {
            Ok(answers) => {
                for (asked, answer) in asked.drain(..answers.len()).zip(answers) {
                    // Whoever has stopped waiting does not want to know.
                    let _ = asked.tell.send(Ok(answer));
                }
            }
            Err(error) => {
                for asked in asked.drain(..) {
                    let _ = asked.tell.send(Err(error.clone()));
                }
            }
        }
        let mut waiting = self.together.waiting();
        asked.into_iter().rev().for_each(|asked| waiting.push_front(asked));
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
