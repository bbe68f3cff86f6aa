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

use crate::limit::{Gate, Signal};

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
