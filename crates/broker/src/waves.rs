//! Publishing in waves: of each key one event, all of them in one request.
//!
//! Like `keyed`, it decides what is offered and when, never what an answer means for the event. It
//! is for destinations that take many events at once and answer for each. One that is long without
//! an answer keeps its own place and its own key, and nobody else's.

use std::collections::VecDeque;
use std::future::Future;
use std::iter;
use std::time::Duration;
use std::vec::IntoIter;

use event::{Answer, Event, Refusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};

use crate::gate::{Gate, Pass, Turn};
use crate::keyed::{Offered, Until, lines};

/// How long nothing is answered until the next wave begins beside those that are out.
const LULL: Duration = Duration::from_millis(20);

/// How large waves are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// How many share what the gate lets through. One that is alone is followed when half of it is
    /// answered; several follow one another, each as soon as there is room for all of it.
    pub(crate) at_once: usize,
    /// The most bytes of payload in one; an event always fits.
    pub(crate) bytes: usize,
}

/// An event that is out. Whoever offers it tells its answer once, as soon as it is there.
pub(crate) struct Out<'a> {
    pub(crate) event: &'a Event,
    at: usize,
    /// The places of the later events of its key.
    line: IntoIter<usize>,
    wave: usize,
    pass: Pass<'a>,
    back: UnboundedSender<Back>,
}

struct Back {
    at: usize,
    line: IntoIter<usize>,
    wave: usize,
    answer: Answer,
}

impl Out<'_> {
    /// Tells the answer, and gives the place back.
    pub(crate) fn tell(self, (answer, signal): Offered) {
        let Out { at, line, wave, pass, back, .. } = self;
        pass.leave(signal);
        // Whoever would hear it has gone only if nobody waits for answers any more.
        let _ = back.send(Back { at, line, wave, answer });
    }
}

/// The wave that began last.
#[derive(Default)]
struct Last {
    number: usize,
    out: usize,
    /// How many of it may be out when the next one begins.
    few: usize,
}

/// Offers events in waves, each as large as it may be. The next one begins when enough of those
/// that are out is answered, or when nothing was for a while.
///
/// After the first refusal of a key, its later events are answered `Held`. Once the destination is
/// down, everything not yet offered is answered `Down`. What could not be offered within the
/// patience, or before the stop, is answered `Held`. What is out is waited for.
pub(crate) async fn publish<'a, F>(
    events: &'a [Event],
    gate: &'a Gate,
    until: &Until,
    size: Size,
    offer: impl Fn(Vec<Out<'a>>) -> F,
) -> Vec<Answer>
where
    F: Future<Output = ()>,
{
    let deadline = Instant::now() + until.patience;
    let mut waiting: VecDeque<_> = lines(events).into_iter().map(Vec::into_iter).collect();
    let mut answers: Vec<Option<Answer>> = vec![None; events.len()];
    let (back, mut told) = unbounded_channel();
    let (mut out, mut heard, mut turn) = (FuturesUnordered::new(), None, None);
    let (mut last, mut unanswered, mut missing) = (Last::default(), 0, Refusal::Held);
    let mut quiet = deadline;
    loop {
        for Back { at, line, wave, answer } in
            heard.take().into_iter().chain(iter::from_fn(|| told.try_recv().ok()))
        {
            unanswered -= 1;
            last.out -= usize::from(wave == last.number);
            quiet = Instant::now() + LULL;
            match &answer {
                Ok(_) if line.len() > 0 => waiting.push_back(line),
                Err(Refusal::Down(cause)) => missing = Refusal::Down(cause.clone()),
                _ => {}
            }
            answers[at] = Some(answer);
        }
        let now = Instant::now();
        if until.stop.is_cancelled() || now >= deadline || missing != Refusal::Held {
            waiting.clear();
        }
        if waiting.is_empty() {
            turn = None;
            if out.is_empty() {
                break;
            }
        }
        let more = !waiting.is_empty();
        let begins = more && (last.out <= last.few || now >= quiet);
        let most = gate.width().div_ceil(size.at_once).min(waiting.len());
        let least = if size.at_once > 1 { most } else { 1 };
        tokio::select! {
            biased;
            Some(()) = out.next() => {}
            back = told.recv() => heard = back,
            () = until.stop.cancelled(), if more => {}
            () = sleep_until(deadline.min(quiet)), if more && !begins => {}
            () = sleep_until(deadline), if begins => {}
            mut passes = enter(gate, &mut turn, least, most), if begins => {
                let fits = fitting(events, waiting.range(..passes.len()), size.bytes);
                // What one request has no room for can go out beside it.
                let alone = size.at_once == 1 && passes.len() == fits;
                passes.truncate(fits);
                let few = if alone { fits / 2 } else { fits };
                last = Last { number: last.number + 1, out: fits, few };
                unanswered += fits;
                quiet = Instant::now() + LULL;
                let lines = waiting.drain(..fits);
                let wave = lines.zip(passes).filter_map(|(mut line, pass)| {
                    let at = line.next()?;
                    let (wave, back) = (last.number, back.clone());
                    Some(Out { event: &events[at], at, line, wave, pass, back })
                });
                out.push(offer(wave.collect()));
            }
        }
    }
    assert_eq!(unanswered, 0, "a wave is answered event by event");
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(missing.clone()))).collect()
}

/// Returns how many of the first have no more than so many bytes together, at least one.
fn fitting<'a>(
    events: &[Event],
    first: impl Iterator<Item = &'a IntoIter<usize>>,
    mut bytes: usize,
) -> usize {
    let fits = |line: &&IntoIter<usize>| {
        let size = line.as_slice().first().map_or(0, |at| events[*at].payload.as_bytes().len());
        let fits = size <= bytes;
        bytes = bytes.saturating_sub(size);
        fits
    };
    first.take_while(fits).count().max(1)
}

/// Waits for the batch's turn, which it keeps, then for enough places, or for one after a while,
/// and takes as many as are free.
async fn enter<'g>(
    gate: &'g Gate,
    turn: &mut Option<Turn<'g>>,
    least: usize,
    most: usize,
) -> Vec<Pass<'g>> {
    if turn.is_none() {
        *turn = Some(gate.turn().await);
    }
    match timeout(LULL, gate.enter_together(least, most)).await {
        Ok(passes) => passes,
        Err(_) => gate.enter_together(1, most).await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use event::{Cause, Code, Receipt};
    use tokio::time::sleep;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::width::Signal;

    const LONG: Duration = Duration::from_secs(60);
    const ALONE: Size = Size { at_once: 1, bytes: 1000 };
    const TWO: Size = Size { at_once: 2, bytes: 1000 };

    fn until() -> Until {
        Until { patience: LONG, stop: CancellationToken::new() }
    }

    fn events(keys: &[&str]) -> Vec<Event> {
        keys.iter().map(|key| Event::new("t", "T", "{}").key(*key)).collect()
    }

    fn cause() -> Cause {
        Cause::new(Code::SinkBroken, "as the test says")
    }

    fn receipt() -> Answer {
        Ok(Receipt { broker_id: None })
    }

    /// Publishes with four at once; returns the answers, and the places of each wave.
    async fn run(
        events: &[Event],
        until: &Until,
        bytes: usize,
        say: impl Fn(usize) -> Answer,
    ) -> (Vec<Answer>, Vec<Vec<usize>>) {
        let (gate, waves) = (Gate::new(4), Mutex::new(Vec::new()));
        let offer = |wave: Vec<Out<'_>>| {
            waves.lock().unwrap().push(wave.iter().map(|out| out.at).collect());
            for out in wave {
                let answer = say(out.at);
                out.tell((answer, Signal::Silent));
            }
            std::future::ready(())
        };
        let answers = publish(events, &gate, until, Size { at_once: 1, bytes }, offer).await;
        (answers, waves.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_wave_has_one_event_of_a_key_and_no_more_than_the_gate_lets_through() {
        let events = events(&["a", "a", "b", "c", "d", "e", "a"]);
        let (answers, waves) = run(&events, &until(), 1000, |_| receipt()).await;
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
        let (answers, waves) = run(&events, &until(), 1000, refuse).await;
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
        let (answers, waves) = run(&events, &until(), 1000, down).await;
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
        let (answers, waves) = run(&events, &until, 1000, stop).await;
        assert_eq!(waves, [vec![0, 2]]);
        assert_eq!(answers, [receipt(), Err(Refusal::Held), receipt()]);
    }

    #[tokio::test]
    async fn a_wave_has_no_more_bytes_than_it_may_and_one_event_always_fits() {
        let event = |bytes: usize| Event::new("t", "T", "x".repeat(bytes));
        let events: Vec<Event> = [4, 6, 1, 11, 1].map(event).into();
        let (answers, waves) = run(&events, &until(), 10, |_| receipt()).await;
        assert_eq!(waves, [vec![0, 1], vec![2], vec![3], vec![4]]);
        assert_eq!(answers, vec![receipt(); 5]);
    }

    /// Publishes with `most` at once where keys that begin with "s" are silent for long; returns
    /// the answers, and when each event was offered.
    async fn run_slow(keys: &[&str], most: usize) -> (Vec<Answer>, Vec<Option<Duration>>) {
        let (events, gate, began) = (events(keys), Gate::new(most), Instant::now());
        let offered = Mutex::new(vec![None; keys.len()]);
        let offer = async |wave: Vec<Out<'_>>| {
            let is_slow = |out: &Out<'_>| keys[out.at].starts_with('s');
            wave.iter().for_each(|out| offered.lock().unwrap()[out.at] = Some(began.elapsed()));
            let (slow, quick): (Vec<_>, Vec<_>) = wave.into_iter().partition(is_slow);
            quick.into_iter().for_each(|out| out.tell((receipt(), Signal::Silent)));
            if !slow.is_empty() {
                sleep(LONG * 2).await;
            }
            slow.into_iter().for_each(|out| out.tell((receipt(), Signal::Silent)));
        };
        let answers = publish(&events, &gate, &until(), ALONE, offer).await;
        (answers, offered.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn one_without_an_answer_holds_its_own_key_and_place_only() {
        let (answers, offered) = run_slow(&["s", "a", "s", "b", "a", "b", "a", "b"], 3).await;
        assert_eq!(offered[2], None);
        assert_eq!(answers[2], Err(Refusal::Held));
        for at in [0, 1, 3, 4, 5, 6, 7] {
            assert_eq!(answers[at], receipt());
            assert_eq!(offered[at], Some(Duration::ZERO), "{at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_most_are_without_an_answer_the_next_wave_begins_after_a_while() {
        let (answers, offered) = run_slow(&["s1", "s2", "s3", "a", "a", "a"], 4).await;
        assert_eq!(answers, vec![receipt(); 6]);
        assert_eq!(offered[4], Some(LULL));
        assert!(offered[5] <= Some(LULL * 2), "{offered:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_given_back_with_its_own_answer() {
        let (events, gate) = (events(&["s", "a", "b"]), Gate::new(3));
        let offer = async |mut wave: Vec<Out<'_>>| {
            let slow = wave.remove(0);
            wave.into_iter().for_each(|out| out.tell((receipt(), Signal::Silent)));
            let free: Vec<_> = iter::from_fn(|| gate.try_enter()).collect();
            assert_eq!(free.len(), 2);
            drop(free);
            slow.tell((receipt(), Signal::Silent));
        };
        assert_eq!(publish(&events, &gate, &until(), ALONE, offer).await, vec![receipt(); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_waves_each_begins_when_there_is_room_for_all_of_it() {
        let (events, gate) = (events(&["a", "b", "c", "d", "e", "f", "g"]), Gate::new(4));
        let (waves, outs) = (Mutex::new(Vec::new()), Mutex::new(VecDeque::new()));
        let answered = CancellationToken::new();
        let offer = |wave: Vec<_>| {
            waves.lock().unwrap().push(wave.len());
            outs.lock().unwrap().extend(wave);
            answered.cancelled()
        };
        let answering = async {
            let steps: [(_, &[usize]); 4] =
                [(0, &[2, 2]), (1, &[2, 2]), (1, &[2, 2, 2]), (5, &[2, 2, 2, 1])];
            for (answered, begun) in steps {
                for _ in 0..answered {
                    let out: Option<Out<'_>> = outs.lock().unwrap().pop_front();
                    out.unwrap().tell((receipt(), Signal::Silent));
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                }
                assert_eq!(*waves.lock().unwrap(), begun);
            }
            answered.cancel();
        };
        let until = until();
        let publishing = publish(&events, &gate, &until, TWO, offer);
        let (answers, ()) = tokio::join!(publishing, answering);
        assert_eq!(answers, vec![receipt(); 7]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_leaves_room_that_is_too_small_for_its_wave_alone_for_a_while() {
        let (batches, gate) = ([events(&["a", "b", "c"]), events(&["d", "e"])], Gate::new(4));
        let (began, waves) = (Instant::now(), Mutex::new(Vec::new()));
        let offer = async |wave: Vec<Out<'_>>| {
            waves.lock().unwrap().push((wave.len(), began.elapsed()));
            sleep(LONG / 2).await;
            wave.into_iter().for_each(|out| out.tell((receipt(), Signal::Silent)));
        };
        let until = until();
        let publish = |events| publish(events, &gate, &until, TWO, offer);
        tokio::join!(publish(&batches[0]), publish(&batches[1]));
        let (none, later) = (Duration::ZERO, LONG / 2);
        assert_eq!(*waves.lock().unwrap(), [(2, none), (1, none), (1, LULL), (1, later)]);
    }
}
