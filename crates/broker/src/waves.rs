//! Publishing in waves: of each key one event, all of them in one request.
//!
//! Like `keyed`, it decides what is offered and when, never what an answer means for the event. It
//! is for destinations that take many events at once and answer for each.

use std::collections::VecDeque;
use std::future::Future;

use event::{Answer, Event, Refusal};
use tokio::time::{Instant, sleep_until};

use crate::gate::{Gate, Pass};
use crate::keyed::{Offered, Until, lines};

/// Offers events in waves, each as wide as the gate allows, the next one after the answers.
///
/// After the first refusal of a key, its later events are answered `Held`. Once the destination is
/// down, everything not yet offered is answered `Down`. What could not be offered within the
/// patience, or before the stop, is answered `Held`. What is out is waited for.
pub(crate) async fn publish<'a, F>(
    events: &'a [Event],
    gate: &Gate,
    until: &Until,
    offer: impl Fn(Vec<&'a Event>) -> F,
) -> Vec<Answer>
where
    F: Future<Output = Vec<Offered>>,
{
    let Until { patience, stop } = until;
    let until = Instant::now() + *patience;
    let mut answers: Vec<Option<Answer>> = vec![None; events.len()];
    let mut waiting: VecDeque<VecDeque<usize>> =
        lines(events).into_iter().map(VecDeque::from).collect();
    let mut missing = Refusal::Held;
    while !waiting.is_empty() && missing == Refusal::Held {
        let passes = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = sleep_until(until) => break,
            passes = enter(gate, waiting.len()) => passes,
        };
        let mut wave: Vec<VecDeque<usize>> = waiting.drain(..passes.len()).collect();
        let places: Vec<usize> = wave.iter_mut().filter_map(VecDeque::pop_front).collect();
        let offered = offer(places.iter().map(|place| &events[*place]).collect()).await;
        assert_eq!(offered.len(), places.len(), "a wave is answered event by event");
        for (((answer, signal), place), (line, pass)) in
            offered.into_iter().zip(places).zip(wave.into_iter().zip(passes))
        {
            pass.leave(signal);
            match &answer {
                Ok(_) if !line.is_empty() => waiting.push_back(line),
                Err(Refusal::Down(cause)) => missing = Refusal::Down(cause.clone()),
                _ => {}
            }
            answers[place] = Some(answer);
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(missing.clone()))).collect()
}

/// Waits for a place, and takes as many as are free.
async fn enter(gate: &Gate, most: usize) -> Vec<Pass<'_>> {
    let mut passes = vec![gate.enter().await];
    while passes.len() < most
        && let Some(pass) = gate.try_enter()
    {
        passes.push(pass);
    }
    passes
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use event::{Cause, Code, Receipt};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::width::Signal;

    fn until() -> Until {
        Until { patience: Duration::from_secs(60), stop: CancellationToken::new() }
    }

    fn events(keys: &[&str]) -> Vec<Event> {
        keys.iter().map(|key| Event::new("t", "T", "{}").key(*key)).collect()
    }

    fn cause() -> Cause {
        Cause::new(Code::SinkBroken, "as the test says")
    }

    /// Publishes with four at once; returns the answers, and the places of each wave.
    async fn run(
        events: &[Event],
        until: &Until,
        say: impl Fn(usize) -> Answer,
    ) -> (Vec<Answer>, Vec<Vec<usize>>) {
        let waves = Mutex::new(Vec::new());
        let offer = |wave: Vec<&Event>| {
            let place = |event: &&Event| events.iter().position(|it| it.id == event.id).unwrap();
            let places: Vec<usize> = wave.iter().map(place).collect();
            let said = places.iter().map(|place| (say(*place), Signal::Silent)).collect();
            waves.lock().unwrap().push(places);
            std::future::ready(said)
        };
        let answers = publish(events, &Gate::new(4), until, offer).await;
        (answers, waves.into_inner().unwrap())
    }

    fn receipt() -> Answer {
        Ok(Receipt { broker_id: None })
    }

    #[tokio::test]
    async fn a_wave_has_one_event_of_a_key_and_no_more_than_the_gate_lets_through() {
        let events = events(&["a", "a", "b", "c", "d", "e", "a"]);
        let (answers, waves) = run(&events, &until(), |_| receipt()).await;
        assert_eq!(waves, [vec![0, 2, 3, 4], vec![5, 1], vec![6]]);
        assert_eq!(answers, vec![receipt(); 7]);
    }

    #[tokio::test]
    async fn a_refusal_holds_its_own_key_only() {
        let events = events(&["a", "b", "a", "b"]);
        let refuse = |place| match place {
            0 => Err(Refusal::Unknown(cause())),
            _ => receipt(),
        };
        let (answers, waves) = run(&events, &until(), refuse).await;
        assert_eq!(waves, [vec![0, 1], vec![3]]);
        assert_eq!(answers[2], Err(Refusal::Held));
        assert!(answers[1].is_ok() && answers[3].is_ok());
    }

    #[tokio::test]
    async fn once_the_destination_is_down_nothing_more_is_offered() {
        let events = events(&["a", "b", "c", "d", "e", "a"]);
        let down = |place| match place {
            1 => Err(Refusal::Down(cause())),
            _ => receipt(),
        };
        let (answers, waves) = run(&events, &until(), down).await;
        assert_eq!(waves, [vec![0, 1, 2, 3]]);
        assert!(answers[0].is_ok() && answers[3].is_ok());
        assert_eq!(answers[4..], vec![Err(Refusal::Down(cause())); 2]);
    }

    #[tokio::test]
    async fn after_a_stop_what_is_out_is_waited_for_and_nothing_new_is_offered() {
        let (events, until) = (events(&["a", "a", "b"]), until());
        let stop = |_| {
            until.stop.cancel();
            receipt()
        };
        let (answers, waves) = run(&events, &until, stop).await;
        assert_eq!(waves, [vec![0, 2]]);
        assert_eq!(answers, [receipt(), Err(Refusal::Held), receipt()]);
    }
}
