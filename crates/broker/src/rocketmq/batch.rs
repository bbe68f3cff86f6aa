//! Normal events, several in one request: a broker stores all of a request or nothing of it.
//!
//! A topic of this kind keeps no order, so requests go side by side and a refusal holds nobody. A
//! request that is refused for what is in it goes again one by one, so that one bad event is not
//! the end of its neighbours; nothing of it was stored.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use event::{Answer, Cause, Event, Receipt, Refusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use prost::Message;
use tokio::time::{Instant, sleep_until};

use super::refusal;
use super::sink::{Letters, RocketMq};
use super::wire::v2;

/// Events of one request at the most: more gained little and would fail together.
const MOST: usize = 32;

/// Bytes of one request at the most; a broker takes 4 MiB, with its own additions.
const BYTES: usize = 3 << 20;

type Place = (usize, v2::Message);

/// Publishes normal events.
pub(super) async fn publish(sink: &RocketMq, events: &[Event]) -> Vec<Answer> {
    let mut answers = vec![Err(Refusal::Held); events.len()];
    let mut letters = Vec::with_capacity(events.len());
    for (place, event) in events.iter().enumerate() {
        match sink.common.letters.write(event) {
            Ok(letter) => letters.push((place, letter)),
            Err(cause) => answers[place] = Err(Refusal::Reject(cause)),
        }
    }
    let down = Mutex::new(None);
    let until = Instant::now() + sink.common.until.patience;
    let mut running: FuturesUnordered<_> =
        requests(letters).into_iter().map(|request| one(sink, request, until, &down)).collect();
    while let Some(done) = running.next().await {
        for (place, answer) in done {
            answers[place] = answer;
        }
    }
    answers
}

/// Puts letters together that may go together: of one topic, and not too many.
fn requests(letters: Vec<Place>) -> Vec<Vec<Place>> {
    let mut full = Vec::new();
    let mut open: HashMap<String, (usize, Vec<Place>)> = HashMap::new();
    for (place, letter) in letters {
        let size = letter.encoded_len();
        let topic = letter.topic.as_ref().map(|topic| topic.name.clone()).unwrap_or_default();
        let (bytes, request) = open.entry(topic).or_default();
        if !request.is_empty() && (request.len() == MOST || *bytes + size > BYTES) {
            full.push(std::mem::take(request));
            *bytes = 0;
        }
        *bytes += size;
        request.push((place, letter));
    }
    full.extend(open.into_values().map(|(_, request)| request));
    full
}

async fn one(
    sink: &RocketMq,
    request: Vec<Place>,
    until: Instant,
    down: &Mutex<Option<Cause>>,
) -> Vec<(usize, Answer)> {
    let (places, letters): (Vec<usize>, Vec<v2::Message>) = request.into_iter().unzip();
    let whole = offer(sink, (&letters).into(), until, down).await;
    let divided = places.len() > 1 && whole.as_ref().is_err_and(refusal::divisible);
    if !divided {
        let broker_id = |letter: &v2::Message| {
            letter.system_properties.as_ref().map(|system| system.message_id.clone())
        };
        let each = |(place, letter)| {
            let answer = whole.clone().map(|_| Receipt { broker_id: broker_id(&letter) });
            (place, answer)
        };
        return places.into_iter().zip(letters).map(each).collect();
    }
    let mut answers = Vec::with_capacity(places.len());
    for (place, letter) in places.into_iter().zip(letters) {
        answers.push((place, offer(sink, vec![letter].into(), until, down).await));
    }
    answers
}

async fn offer(
    sink: &RocketMq,
    letters: Letters<'_>,
    until: Instant,
    down: &Mutex<Option<Cause>>,
) -> Answer {
    let known = || down.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let pass = tokio::select! {
        biased;
        () = sink.common.until.stop.cancelled() => return Err(Refusal::Held),
        () = sleep_until(until) => return Err(Refusal::Held),
        pass = sink.common.gate.enter() => pass,
    };
    if let Some(cause) = known() {
        return Err(Refusal::Down(cause));
    }
    let (answer, signal) = sink.post(letters).await;
    if let Err(Refusal::Down(cause)) = &answer {
        let mut down = down.lock().unwrap_or_else(PoisonError::into_inner);
        down.get_or_insert_with(|| cause.clone());
    }
    pass.leave(signal);
    answer
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::wire::resource;
    use super::*;

    fn letter(topic: &str, bytes: usize) -> v2::Message {
        let body = Bytes::from(vec![b'x'; bytes]);
        v2::Message { topic: resource(topic), body, ..Default::default() }
    }

    #[test]
    fn requests_hold_one_topic_and_neither_too_many_nor_too_much() {
        let mut letters: Vec<v2::Message> = (0..70).map(|_| letter("a", 10)).collect();
        letters.extend((0..3).map(|_| letter("b", 2 << 20)));
        letters.push(letter("c", 10));
        let count = letters.len();
        let made = requests(letters.into_iter().enumerate().collect());
        let mut places: Vec<usize> = made.iter().flatten().map(|(place, _)| *place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..count).collect::<Vec<_>>());
        assert_eq!(made.len(), 3 + 3 + 1);
        for request in made {
            let topic = request[0].1.topic.clone();
            assert!(request.iter().all(|(_, letter)| letter.topic == topic));
            assert!(request.is_sorted_by_key(|(place, _)| *place) && request.len() <= MOST);
        }
    }
}
