//! Offering a wave: events with the same routing key go on one channel, and on no other.
//!
//! RabbitMQ lets a whole channel wait (65 s with 4.x) at its first event for a quorum queue that
//! has no majority, and confirms nothing on it meanwhile. So events that go elsewhere must not be
//! on it.
//!
//! A channel that the broker closes says that one event on it was at fault, and not which. Those
//! without an answer are then offered once more, each on a channel of its own. They may be in a
//! queue already, so nothing that becomes of the second offer says that they are not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use event::{Answer, Cause, Code, Event, Refusal};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Error, PublisherConfirm};
use tokio::time::Instant;

use super::RabbitMq;
use super::refusal::{self, Where};
use super::wave::{self, Left};
use super::wire::{self, Filled};
use crate::keyed::Offered;
use crate::waves::Out;
use crate::width::Signal;

/// How many second offers are out at once, each on a channel of its own.
const AT_ONCE: usize = 16;

impl RabbitMq {
    /// Offers events of different keys.
    pub(super) async fn offer(&self, wave: Vec<Out<'_>>) {
        let mut alike: Vec<Vec<Out<'_>>> = Vec::new();
        let mut of_key: HashMap<String, usize> = HashMap::new();
        for out in wave {
            let next = alike.len();
            let at = *of_key.entry(self.topic.of(out.event)).or_insert(next);
            if at == next {
                alike.push(Vec::new());
            }
            alike[at].push(out);
        }
        join_all(alike.into_iter().map(|wave| self.offer_alike(wave))).await;
    }

    /// Offers events with the same routing key.
    async fn offer_alike(&self, wave: Vec<Out<'_>>) {
        let until = Instant::now() + self.until.patience;
        let events: Vec<&Event> = wave.iter().map(|out| out.event).collect();
        let mut wave: Vec<Option<Out<'_>>> = wave.into_iter().map(Some).collect();
        let (mut left, mut taken) = (Vec::new(), false);
        let tell = |place: usize, told: Result<Offered, Error>| {
            let out = wave[place].take().expect("each event is told once");
            match told {
                Ok(offered) => {
                    taken |= offered.0.is_ok();
                    out.tell(offered);
                }
                Err(end) => left.push((out, end)),
            }
        };
        self.together(&events, until, tell).await;
        let is_blamed = left.iter().any(|(_, end)| refusal::blames_one(end, taken));
        if events.len() > 1 && is_blamed {
            return self.again(left, until).await;
        }
        for (out, end) in left {
            out.tell(ended(&end, self.at()));
        }
    }

    /// Offers events once more that a channel left open. What goes wrong then for one goes wrong
    /// for all; and none begins so late that it had no time.
    async fn again(&self, left: Vec<(Out<'_>, Error)>, until: Instant) {
        let (wrong, latest) = (AtomicBool::new(false), until - self.until.patience / 2);
        let alone = stream::iter(left).for_each_concurrent(AT_ONCE, async |(out, end)| {
            let mut offered = None;
            if !wrong.load(Ordering::SeqCst) && Instant::now() < latest {
                let told = |_, told: Result<Offered, Error>| offered = Some(told);
                self.together(&[out.event], until, told).await;
            }
            let at = self.at();
            let (answer, signal) = match offered {
                Some(told) => told.unwrap_or_else(|end| ended(&end, at)),
                None => (Err(refusal::open(&end, at)), Signal::Silent),
            };
            wrong.fetch_or(matches!(answer, Err(Refusal::Down(_))), Ordering::SeqCst);
            out.tell((answer.map_err(refusal::again), signal));
        });
        alone.await;
    }

    /// Offers events on one channel, and tells of each at its place, as soon as it is known, what
    /// became of it or what ended the channel before that.
    async fn together(
        &self,
        events: &[&Event],
        until: Instant,
        mut tell: impl FnMut(usize, Result<Offered, Error>),
    ) {
        let fill = |event: &&Event| wire::fill(event, &self.source, &self.topic);
        let filled: Vec<_> = events.iter().map(fill).collect();
        let refuse = |refusal| Ok((Err(refusal), Signal::Silent));
        let (line, channel) = match self.enter(until).await {
            Ok(entered) => entered,
            Err(refusal) => {
                for (place, filled) in filled.into_iter().enumerate() {
                    let unwritten = filled.map_or_else(Refusal::Reject, |_| refusal.clone());
                    tell(place, refuse(unwritten));
                }
                return;
            }
        };
        let (mut places, mut wave) = (Vec::new(), Vec::new());
        for (place, (event, filled)) in events.iter().zip(filled).enumerate() {
            match filled.and_then(|filled| fitting(filled, line.frame())) {
                Ok(filled) => {
                    let payload = event.payload.as_bytes();
                    places.push(place);
                    wave.push((event.id.to_string(), self.ask(&channel, filled, payload)));
                }
                Err(cause) => tell(place, refuse(Refusal::Reject(cause))),
            }
        }
        let began = Instant::now();
        let silence = || refusal::late(&self.target.host, line.blocked().as_deref());
        let told = |at: usize, told: wave::Told| {
            tell(places[at], told.map(|answer| timed(answer, began)));
        };
        match wave::publish(wave, until, self.at(), silence, told).await {
            Left::Free => line.keep(channel),
            Left::Used => {}
            Left::Unwritten => line.leave(channel),
        }
    }

    async fn ask(
        &self,
        channel: &Channel,
        filled: Filled,
        payload: &[u8],
    ) -> lapin::Result<PublisherConfirm> {
        let mandatory = BasicPublishOptions { mandatory: true, immediate: false };
        let Filled { routing_key, properties, .. } = filled;
        let exchange = self.exchange.name.as_str().into();
        channel.basic_publish(exchange, routing_key, mandatory, payload, properties).await
    }
}

/// Refuses properties that do not fit into one frame: the broker would end the connection, and with
/// it what others have out.
fn fitting(filled: Filled, frame: usize) -> Result<Filled, Cause> {
    const FIXED: usize = 2048;
    let room = frame.saturating_sub(FIXED);
    let size = filled.head;
    if size <= room {
        return Ok(filled);
    }
    let detail = format_args!("the attributes have {size} bytes; a frame takes {room}");
    Err(Cause::new(Code::TooLarge, detail))
}

/// Judges an event whose channel or connection ended.
fn ended(end: &Error, at: Where<'_>) -> Offered {
    timed(Err(refusal::publish(end, at)), Instant::now())
}

/// Says what an answer tells about load that comes now.
fn timed(answer: Answer, began: Instant) -> Offered {
    let signal = match &answer {
        Ok(_) => Signal::Good(began.elapsed()),
        Err(Refusal::Unknown(cause)) => match cause.code {
            Code::SinkTimeout | Code::NotKept => Signal::Overloaded,
            _ => Signal::Failed,
        },
        Err(_) => Signal::Silent,
    };
    (answer, signal)
}

#[cfg(test)]
mod tests {
    use lapin::Confirmation;

    use super::*;
    use crate::manner::Naming;

    #[test]
    fn silence_and_a_queue_that_is_full_are_load() {
        let load = |answer| timed(answer, Instant::now()).1;
        let nack = refusal::confirmed(&Confirmation::Nack(None));
        assert!(matches!(load(nack), Signal::Overloaded));
        assert!(matches!(load(Err(refusal::late("h", None))), Signal::Overloaded));
        assert!(matches!(load(Err(refusal::late("h", Some("disk")))), Signal::Failed));
    }

    #[test]
    fn properties_that_fill_a_frame_are_too_large() {
        let event = Event::new("t", "T", "{}").header("long", "x".repeat(8000));
        let filled = wire::fill(&event, "orders", &Naming::default()).unwrap();
        let filled = fitting(filled, 131_072).unwrap();
        assert_eq!(fitting(filled, 8192).unwrap_err().code, Code::TooLarge);
    }
}
