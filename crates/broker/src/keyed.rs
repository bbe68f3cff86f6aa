//! Publishing in order per key, keys side by side: what the sinks have in common.
//!
//! It decides what is offered and when, never what an answer means for the event.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use event::{Answer, Event, Refusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::gate::{Gate, Pass, Turn};
use crate::width::Signal;

/// An answer, and what it tells about the destination's load.
pub type Offered = (Answer, Signal);

/// Until when events are offered.
#[derive(Clone, Debug)]
pub struct Until {
    /// How long the batch may go on offering.
    pub patience: Duration,
    /// The relay stops: nothing new is offered.
    pub stop: CancellationToken,
}

/// An offer that was answered.
struct Back<'g> {
    pass: Pass<'g>,
    /// The places of the later events of its key.
    line: std::vec::IntoIter<usize>,
    at: usize,
    offered: Offered,
}

/// Offers events: those of one key one after another, the keys side by side as the gate allows.
///
/// After the first refusal of a key, its later events are answered `Held`. Once the destination is
/// down, everything not yet offered is answered `Down`. What could not be offered within the
/// patience, or before the stop, is answered `Held`, so a slow destination can outlast neither the
/// claim's lease nor the relay's drain. What is out is waited for.
pub async fn publish<'a, F>(
    events: &'a [Event],
    gate: &Gate,
    until: &Until,
    offer: impl Fn(&'a Event) -> F,
) -> Vec<Answer>
where
    F: Future<Output = Offered>,
{
    let deadline = Instant::now() + until.patience;
    let mut over = pin!(over(&until.stop, deadline));
    let mut waiting: VecDeque<_> = lines(events).into_iter().map(Vec::into_iter).collect();
    let mut answers = vec![Err(Refusal::Held); events.len()];
    let (mut out, mut turn) = (FuturesUnordered::new(), None);
    let (mut is_over, mut down) = (false, None);
    loop {
        is_over |= until.stop.is_cancelled() || Instant::now() >= deadline;
        if is_over {
            waiting.clear();
        }
        if waiting.is_empty() {
            turn = None;
        }
        // To wait for a place is dear, and to begin anew with every answer: it comes last.
        let mut place = turn.as_ref().and_then(|_| gate.try_enter());
        if place.is_none() {
            tokio::select! {
                biased;
                Some(Back { pass, line, at, offered: (answer, signal) }) = out.next() => {
                    // Only now, where nobody here waits who would be woken by it.
                    pass.leave(signal);
                    let taken = answer.is_ok();
                    if let Err(Refusal::Down(cause)) = &answer {
                        down.get_or_insert_with(|| cause.clone());
                    }
                    answers[at] = answer;
                    if let Some(cause) = &down {
                        for at in line.chain(waiting.drain(..).flatten()) {
                            answers[at] = Err(Refusal::Down(cause.clone()));
                        }
                    } else if taken && line.len() > 0 {
                        waiting.push_back(line);
                    }
                }
                () = &mut over, if !waiting.is_empty() => is_over = true,
                pass = enter(gate, &mut turn), if !waiting.is_empty() => place = Some(pass),
                else => return answers,
            }
        }
        let Some(pass) = place else { continue };
        let Some(mut line) = waiting.pop_front() else { continue };
        let Some(at) = line.next() else { continue };
        let offered = offer(&events[at]);
        out.push(async move { Back { pass, line, at, offered: offered.await } });
    }
}

/// Waits until nothing new may be offered.
async fn over(stop: &CancellationToken, deadline: Instant) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = sleep_until(deadline) => {}
    }
}

/// Waits for a place behind the gate, and before that for the batch's turn, which it keeps: one
/// batch after another gets through, so that the first is done while the last still goes on.
async fn enter<'g>(gate: &'g Gate, turn: &mut Option<Turn<'g>>) -> Pass<'g> {
    if turn.is_none() {
        *turn = Some(gate.turn().await);
    }
    gate.enter().await
}

/// Returns the places of each key's events, in order. An event without a key is a line of its own.
pub(crate) fn lines(events: &[Event]) -> Vec<Vec<usize>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use event::{Cause, Code, Receipt};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn until(patience: Duration) -> Until {
        Until { patience, stop: CancellationToken::new() }
    }

    fn events(keys: &[&str]) -> Vec<Event> {
        keys.iter().map(|key| Event::new("t", "T", "{}").key(*key)).collect()
    }

    fn cause(code: Code) -> Cause {
        Cause::new(code, "as the test says")
    }

    /// Publishes with one offer at a time; returns the answers, and the places that were offered.
    async fn run(
        events: &[Event],
        until: &Until,
        say: impl Fn(usize) -> Answer,
    ) -> (Vec<Answer>, Vec<usize>) {
        let offered = Mutex::new(Vec::new());
        let offer = |event: &Event| {
            let place = events.iter().position(|other| other.id == event.id).unwrap();
            offered.lock().unwrap().push(place);
            let answer = say(place);
            async move {
                tokio::task::yield_now().await;
                (answer, Signal::Silent)
            }
        };
        let answers = publish(events, &Gate::new(1), until, offer).await;
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
        let (answers, mut offered) = run(&events, &until(LONG), refuse).await;
        offered.sort_unstable();
        assert_eq!(offered, [0, 1, 2, 3]);
        assert_eq!(answers[4], Err(Refusal::Held));
        assert!(answers[0].is_ok() && answers[1].is_ok() && answers[3].is_ok());
    }

    #[tokio::test]
    async fn events_without_a_key_hold_nobody() {
        let events: Vec<Event> = (0..3).map(|_| Event::new("t", "T", "{}")).collect();
        let busy = |_| Err(Refusal::Retry(cause(Code::SinkBroken), None));
        let (answers, offered) = run(&events, &until(LONG), busy).await;
        assert_eq!(offered.len(), 3);
        assert!(answers.iter().all(|answer| matches!(answer, Err(Refusal::Retry(..)))));
    }

    #[tokio::test]
    async fn a_destination_that_is_down_is_asked_once() {
        let events = events(&["a", "b", "a", "c", "d"]);
        let down = |_| Err(Refusal::Down(cause(Code::SinkDown)));
        let (answers, offered) = run(&events, &until(LONG), down).await;
        assert_eq!(offered, [0]);
        assert_eq!(answers, vec![Err(Refusal::Down(cause(Code::SinkDown))); 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_patience_does_not_cover_is_put_back() {
        let events = events(&["a", "b", "c", "a"]);
        let offer = async |_: &Event| {
            tokio::time::sleep(LONG * 5).await;
            (receipt(), Signal::Silent)
        };
        let answers = publish(&events, &Gate::new(1), &until(LONG), offer).await;
        assert_eq!(answers[0], receipt());
        assert_eq!(answers[1..], vec![Err(Refusal::Held); 3]);
    }

    #[tokio::test]
    async fn after_a_stop_what_is_out_is_waited_for_and_nothing_new_is_offered() {
        let events = events(&["a", "b", "c", "a"]);
        let until = until(LONG);
        let stop = |place| {
            assert_eq!(place, 0);
            until.stop.cancel();
            receipt()
        };
        let (answers, offered) = run(&events, &until, stop).await;
        assert_eq!(offered, [0]);
        assert_eq!(answers[0], receipt());
        assert_eq!(answers[1..], vec![Err(Refusal::Held); 3]);
    }

    #[tokio::test]
    async fn the_batch_that_came_first_has_all_of_it_out_before_the_next_begins() {
        let (gate, until, answered) = (Gate::new(3), until(LONG), CancellationToken::new());
        let batches = [events(&["a", "b", "c"]), events(&["d"])];
        let offered = Mutex::new(String::new());
        let offer = |event: &Event| {
            offered.lock().unwrap().push_str(event.key.as_deref().unwrap());
            async {
                answered.cancelled().await;
                (receipt(), Signal::Silent)
            }
        };
        let others = [gate.enter().await, gate.enter().await, gate.enter().await];
        let others_leave = async {
            for pass in others {
                drop(pass);
                // Whoever is woken by it has the time to take the place, and to wait again.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(*offered.lock().unwrap(), "abc");
            answered.cancel();
        };
        let publish = |events| publish(events, &gate, &until, offer);
        let (first, second, ()) =
            tokio::join!(publish(&batches[0]), publish(&batches[1]), others_leave);
        assert_eq!((first, second), (vec![receipt(); 3], vec![receipt()]));
    }

    #[tokio::test]
    async fn nothing_is_answered_with_nothing() {
        let (answers, offered) = run(&[], &until(LONG), |_| receipt()).await;
        assert!(answers.is_empty() && offered.is_empty());
    }
}
