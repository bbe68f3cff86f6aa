//! Publishing in order per key, keys side by side: what the sinks have in common.
//!
//! It decides what is offered and when, never what an answer means for the event.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use event::{Answer, Cause, Code, Event, Refusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use crate::gate::Gate;
use crate::width::Signal;

/// Offers events: those of one key one after another, the keys side by side as the gate allows.
///
/// After the first refusal of a key, its later events are answered `Held`. Once the destination is
/// down, everything not yet offered is answered `Down`. What could not be offered within `patience`
/// is answered `Held`, so a slow destination cannot outlast the claim's lease.
pub async fn publish<'a, F>(
    events: &'a [Event],
    gate: &Gate,
    patience: Duration,
    offer: impl Fn(&'a Event) -> F,
) -> Vec<Answer>
where
    F: Future<Output = Answer>,
{
    let batch = Batch { events, gate, until: Instant::now() + patience, down: Mutex::new(None) };
    let mut running: FuturesUnordered<_> =
        lines(events).into_iter().map(|line| batch.run(line, &offer)).collect();
    let mut answers = vec![Err(Refusal::Held); events.len()];
    while let Some(done) = running.next().await {
        for (place, answer) in done {
            answers[place] = answer;
        }
    }
    answers
}

/// Returns the places of each key's events, in order. An event without a key is a line of its own.
fn lines(events: &[Event]) -> Vec<Vec<usize>> {
    let mut lines: Vec<Vec<usize>> = Vec::new();
    let mut of_key: HashMap<&str, usize> = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        let next = lines.len();
        let line = event.key.as_deref().map_or(next, |key| *of_key.entry(key).or_insert(next));
        if line == next {
            lines.push(Vec::new());
        }
        lines[line].push(place);
    }
    lines
}

struct Batch<'a, 'g> {
    events: &'a [Event],
    gate: &'g Gate,
    until: Instant,
    down: Mutex<Option<Cause>>,
}

impl<'a> Batch<'a, '_> {
    async fn run<F>(
        &self,
        line: Vec<usize>,
        offer: &impl Fn(&'a Event) -> F,
    ) -> Vec<(usize, Answer)>
    where
        F: Future<Output = Answer>,
    {
        let mut answers = Vec::with_capacity(line.len());
        let mut refused = false;
        for place in line {
            let answer = match self.down() {
                Some(cause) => Err(Refusal::Down(cause)),
                None if refused => Err(Refusal::Held),
                None => self.one(&self.events[place], offer).await,
            };
            refused |= answer.is_err();
            answers.push((place, answer));
        }
        answers
    }

    async fn one<F>(&self, event: &'a Event, offer: &impl Fn(&'a Event) -> F) -> Answer
    where
        F: Future<Output = Answer>,
    {
        let Ok(pass) = timeout_at(self.until, self.gate.enter()).await else {
            return Err(Refusal::Held);
        };
        if let Some(cause) = self.down() {
            return Err(Refusal::Down(cause));
        }
        let began = Instant::now();
        if began >= self.until {
            return Err(Refusal::Held);
        }
        let answer = offer(event).await;
        if let Err(Refusal::Down(cause)) = &answer {
            let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
            down.get_or_insert_with(|| cause.clone());
        }
        pass.leave(signal(&answer, began.elapsed()));
        answer
    }

    fn down(&self) -> Option<Cause> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn signal(answer: &Answer, latency: Duration) -> Signal {
    match answer {
        Ok(_) => Signal::Good(latency),
        Err(Refusal::Retry(cause, _) | Refusal::Unknown(cause))
            if matches!(cause.code, Code::SinkBusy | Code::SinkTimeout) =>
        {
            Signal::Overloaded
        }
        Err(_) => Signal::Silent,
    }
}

#[cfg(test)]
mod tests {
    use event::Receipt;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn events(keys: &[&str]) -> Vec<Event> {
        keys.iter().map(|key| Event::new("t", "T", "{}").key(*key)).collect()
    }

    fn cause(code: Code) -> Cause {
        Cause::new(code, "as the test says")
    }

    /// Publishes with one offer at a time; returns the answers, and the places that were offered.
    async fn run(
        events: &[Event],
        patience: Duration,
        say: impl Fn(usize) -> Answer,
    ) -> (Vec<Answer>, Vec<usize>) {
        let offered = Mutex::new(Vec::new());
        let offer = |event: &Event| {
            let place = events.iter().position(|other| other.id == event.id).unwrap();
            offered.lock().unwrap().push(place);
            let answer = say(place);
            async move {
                tokio::task::yield_now().await;
                answer
            }
        };
        let answers = publish(events, &Gate::new(1), patience, offer).await;
        (answers, offered.into_inner().unwrap())
    }

    fn receipt() -> Answer {
        Ok(Receipt { broker_id: None })
    }

    #[tokio::test]
    async fn a_refusal_holds_its_own_key_only() {
        let events = events(&["a", "b", "a", "b", "a"]);
        let refuse = |place| match place {
            2 => Err(Refusal::Reject(cause(Code::SinkRefused))),
            _ => receipt(),
        };
        let (answers, mut offered) = run(&events, LONG, refuse).await;
        offered.sort_unstable();
        assert_eq!(offered, [0, 1, 2, 3]);
        assert_eq!(answers[4], Err(Refusal::Held));
        assert!(answers[0].is_ok() && answers[1].is_ok() && answers[3].is_ok());
    }

    #[tokio::test]
    async fn events_without_a_key_hold_nobody() {
        let events: Vec<Event> = (0..3).map(|_| Event::new("t", "T", "{}")).collect();
        let busy = |_| Err(Refusal::Retry(cause(Code::SinkBroken), None));
        let (answers, offered) = run(&events, LONG, busy).await;
        assert_eq!(offered.len(), 3);
        assert!(answers.iter().all(|answer| matches!(answer, Err(Refusal::Retry(..)))));
    }

    #[tokio::test]
    async fn a_destination_that_is_down_is_asked_once() {
        let events = events(&["a", "b", "a", "c", "d"]);
        let (answers, offered) =
            run(&events, LONG, |_| Err(Refusal::Down(cause(Code::SinkDown)))).await;
        assert_eq!(offered, [0]);
        assert_eq!(answers, vec![Err(Refusal::Down(cause(Code::SinkDown))); 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_patience_does_not_cover_is_put_back() {
        let events = events(&["a", "b", "c", "a"]);
        let offer = async |_: &Event| {
            tokio::time::sleep(LONG * 5).await;
            receipt()
        };
        let answers = publish(&events, &Gate::new(1), LONG, offer).await;
        assert_eq!(answers[0], receipt());
        assert_eq!(answers[1..], vec![Err(Refusal::Held); 3]);
    }

    #[tokio::test]
    async fn nothing_is_answered_with_nothing() {
        let (answers, offered) = run(&[], LONG, |_| receipt()).await;
        assert!(answers.is_empty() && offered.is_empty());
    }

    #[test]
    fn only_overload_and_silence_speak_of_overload() {
        let busy = |code| signal(&Err(Refusal::Retry(cause(code), None)), LONG);
        assert_eq!(busy(Code::SinkBusy), Signal::Overloaded);
        assert_eq!(busy(Code::SinkBroken), Signal::Silent);
        let unknown = |code| signal(&Err(Refusal::Unknown(cause(code))), LONG);
        assert_eq!(unknown(Code::SinkTimeout), Signal::Overloaded);
        assert_eq!(unknown(Code::SinkBroken), Signal::Silent);
        assert_eq!(signal(&receipt(), LONG), Signal::Good(LONG));
        assert_eq!(signal(&Err(Refusal::Held), LONG), Signal::Silent);
    }
}
