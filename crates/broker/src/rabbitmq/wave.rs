//! Events that are out together on one channel, and what the broker tells of each.
//!
//! The client library hands a returned message to whichever confirmation comes next on its channel.
//! So a confirmation says that somebody came back, and the message says who it was. One that has no
//! message means what it says once all that was said before it is known; one that has another's may
//! itself be of an event that came back, so it waits until nothing is missing.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use event::{Answer, Refusal};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lapin::message::BasicReturnMessage;
use lapin::{Confirmation, Error};
use tokio::time::{Instant, timeout_at};

use super::refusal::{self, Where};

/// What the broker told of one event, or what ended its channel or its connection before that.
pub(super) type Told = Result<Answer, Error>;

type Said = lapin::Result<Confirmation>;

/// How a wave leaves its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing is out on it.
    Free,
    /// Something may be out on it.
    Used,
    /// Something that goes out on it is not written yet.
    Unwritten,
}

/// Publishes on a channel that nobody else uses, in this order, and tells of each what the broker
/// tells, as soon as that is certain. `wave` has the id of each event, and what asks for it to be
/// written as soon as it is polled. `silence` is what it means that nothing was told.
pub(super) async fn publish<'w, P, C>(
    wave: Vec<(String, P)>,
    until: Instant,
    at: Where<'_>,
    silence: impl Fn() -> Refusal,
    mut tell: impl FnMut(usize, Told),
) -> Left
where
    P: Future<Output = lapin::Result<C>>,
    C: Future<Output = Said> + Send + 'w,
{
    let (ids, asked): (Vec<_>, Vec<_>) = wave.into_iter().unzip();
    let mut wave = Wave::new(ids);
    for (place, asking) in asked.into_iter().enumerate() {
        wave.ask(place, asking);
    }
    loop {
        let late = timeout_at(until, poll_fn(|cx| wave.look(cx, at))).await.is_err();
        let ends = late || wave.knows_all();
        for (place, told) in wave.certain(ends, &silence) {
            tell(place, told);
        }
        if ends {
            for (place, told) in wave.silent(&silence) {
                tell(place, told);
            }
            return wave.left();
        }
    }
}

struct Wave<'w, P> {
    ids: Vec<String>,
    /// Those that are not written yet.
    asking: VecDeque<(usize, Pin<Box<P>>)>,
    /// Those that are written.
    out: FuturesUnordered<BoxFuture<'w, (usize, Said)>>,
    /// What was said and is not certain yet.
    said: Vec<(usize, Said)>,
    /// Of whom nothing was said.
    silent: Vec<bool>,
    /// Who came back.
    back: HashMap<String, Refusal>,
    /// Whether the channel or the connection ended.
    ended: bool,
}

impl<'w, P, C> Wave<'w, P>
where
    P: Future<Output = lapin::Result<C>>,
    C: Future<Output = Said> + Send + 'w,
{
    fn new(ids: Vec<String>) -> Wave<'w, P> {
        let (asking, out) = (VecDeque::with_capacity(ids.len()), FuturesUnordered::new());
        let (said, silent) = (Vec::with_capacity(ids.len()), vec![true; ids.len()]);
        Wave { ids, asking, out, said, silent, back: HashMap::new(), ended: false }
    }

    fn ask(&mut self, place: usize, asking: P) {
        let mut asking = Box::pin(asking);
        match asking.as_mut().now_or_never() {
            Some(written) => self.wait_for(place, written),
            None => self.asking.push_back((place, asking)),
        }
    }

    fn wait_for(&mut self, place: usize, written: lapin::Result<C>) {
        match written {
            Ok(confirming) => self.out.push(confirming.map(move |said| (place, said)).boxed()),
            Err(error) => self.hear(place, Err(error), None),
        }
    }

    /// Takes in all that was said until now. Ready when that is something, or nothing is missing.
    fn look(&mut self, cx: &mut Context<'_>, at: Where<'_>) -> Poll<()> {
        let before = self.said.len();
        // They are written in this order.
        while let Some((place, asking)) = self.asking.front_mut() {
            let (place, Poll::Ready(written)) = (*place, asking.as_mut().poll(cx)) else { break };
            self.asking.pop_front();
            self.wait_for(place, written);
        }
        let bell = Bell::new(cx.waker());
        let waker = Waker::from(Arc::clone(&bell));
        // What polls may stop before it has asked all. Then it rings.
        while bell.rang() {
            let mut heard = Context::from_waker(&waker);
            while let Poll::Ready(Some((place, said))) = self.out.poll_next_unpin(&mut heard) {
                let back = said.as_ref().ok().and_then(back).and_then(|back| {
                    let id = back.delivery.properties.message_id().as_ref()?;
                    Some((id.as_str().to_owned(), refusal::unroutable(back, at)))
                });
                self.hear(place, said, back);
            }
        }
        match self.knows_all() || self.said.len() > before {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn hear(&mut self, place: usize, said: Said, back: Option<(String, Refusal)>) {
        self.ended |= said.is_err();
        self.silent[place] = false;
        self.said.push((place, said));
        self.back.extend(back);
    }

    fn knows_all(&self) -> bool {
        self.asking.is_empty() && self.out.is_empty()
    }

    fn is_complete(&self) -> bool {
        self.knows_all() && !self.ended
    }

    /// Tells what is certain. At the end everything that was said is told.
    fn certain(&mut self, ends: bool, silence: impl Fn() -> Refusal) -> Vec<(usize, Told)> {
        let complete = self.is_complete();
        let mut certain = Vec::with_capacity(self.said.len());
        for (place, said) in std::mem::take(&mut self.said) {
            let told = match (self.back.get(&self.ids[place]), said) {
                (Some(refusal), _) => Ok(Err(refusal.clone())),
                // It may be one more that came back, while the one that has its message is missing.
                (None, Ok(Confirmation::Ack(Some(_)))) if ends && !complete => Ok(Err(silence())),
                (None, said @ Ok(Confirmation::Ack(Some(_)))) if !ends => {
                    self.said.push((place, said));
                    continue;
                }
                (None, Ok(confirmation)) => Ok(refusal::confirmed(&confirmation)),
                (None, Err(error)) => Err(error),
            };
            certain.push((place, told));
        }
        certain
    }

    /// Tells of those of whom nothing was said.
    fn silent(&self, silence: impl Fn() -> Refusal) -> Vec<(usize, Told)> {
        let silent = (0..self.ids.len()).filter(|place| self.silent[*place]);
        let back = |place: usize| self.back.get(&self.ids[place]).cloned();
        silent.map(|place| (place, Ok(Err(back(place).unwrap_or_else(&silence))))).collect()
    }

    fn left(&self) -> Left {
        match (self.asking.is_empty(), self.is_complete()) {
            (false, _) => Left::Unwritten,
            (true, false) => Left::Used,
            (true, true) => Left::Free,
        }
    }
}

fn back(confirmation: &Confirmation) -> Option<&BasicReturnMessage> {
    match confirmation {
        Confirmation::Ack(back) | Confirmation::Nack(back) => back.as_ref(),
        Confirmation::NotRequested => None,
    }
}

/// Passes calls on, and knows whether there was one since it was last asked. It begins with one.
struct Bell {
    rang: AtomicBool,
    waker: Waker,
}

impl Bell {
    fn new(waker: &Waker) -> Arc<Bell> {
        Arc::new(Bell { rang: AtomicBool::new(true), waker: waker.clone() })
    }

    fn rang(&self) -> bool {
        self.rang.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::SeqCst);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use event::Code;
    use lapin::message::Delivery;
    use lapin::{BasicProperties, ErrorKind};
    use tokio::time::sleep;

    use super::*;

    const AT: Where<'_> = Where { host: "h:5672", exchange: "orders" };
    const LONG: Duration = Duration::from_secs(5);

    fn back(id: &str) -> Option<BasicReturnMessage> {
        let mut delivery = Delivery::mock(0, "orders".into(), "t".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(id.into());
        Some(BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() })
    }

    fn ack(back: Option<BasicReturnMessage>) -> Option<Said> {
        Some(Ok(Confirmation::Ack(back)))
    }

    fn end() -> Option<Said> {
        Some(Err(ErrorKind::MissingHeartbeatError.into()))
    }

    fn saying(said: Option<Said>) -> BoxFuture<'static, Said> {
        match said {
            Some(said) => ready(said).boxed(),
            None => pending().boxed(),
        }
    }

    fn silence() -> Refusal {
        refusal::late("h:5672", None)
    }

    fn word(told: &Told) -> &'static str {
        match told {
            Ok(Ok(_)) => "taken",
            Ok(Err(Refusal::Retry(cause, None))) if cause.code == Code::TopicMissing => "back",
            Ok(Err(Refusal::Unknown(cause))) if cause.code == Code::NotKept => "nack",
            Ok(Err(Refusal::Unknown(cause))) if cause.code == Code::SinkTimeout => "silence",
            Ok(Err(other)) => panic!("{other:?}"),
            Err(_) => "end",
        }
    }

    /// Publishes the events a, b, c …; returns what was told of each, and how long that took.
    async fn publish_all(
        out: impl IntoIterator<Item = BoxFuture<'static, Said>>,
    ) -> (Vec<(&'static str, Duration)>, Left) {
        let (began, mut words) = (Instant::now(), Vec::new());
        let written = out.into_iter().map(|out| ready(lapin::Result::Ok(out)));
        let wave: Vec<_> = ('a'..).map(String::from).zip(written).collect();
        words.resize(wave.len(), None);
        let tell = |place: usize, told: Told| {
            let word = (word(&told), began.elapsed());
            assert_eq!(words[place].replace(word), None, "it is told once");
        };
        let left = publish(wave, began + LONG, AT, silence, tell).await;
        (words.into_iter().flatten().collect(), left)
    }

    async fn told(said: Vec<Option<Said>>) -> Vec<&'static str> {
        let told = publish_all(said.into_iter().map(saying)).await.0;
        told.into_iter().map(|(word, _)| word).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_carries_it_the_message_says_who_came_back() {
        assert_eq!(told(vec![ack(back("b")), ack(None)]).await, ["taken", "back"]);
        let crossed = vec![ack(back("c")), ack(None), ack(back("a"))];
        assert_eq!(told(crossed).await, ["back", "taken", "back"]);
        let nack = Some(Ok(Confirmation::Nack(back("b"))));
        assert_eq!(told(vec![nack, ack(None)]).await, ["nack", "back"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_carries_anothers_message_is_sure_of_nothing_while_one_is_missing() {
        assert_eq!(told(vec![ack(back("b")), None]).await, ["silence", "back"]);
        let missing = vec![ack(back("c")), None, ack(None)];
        assert_eq!(told(missing).await, ["silence", "silence", "back"]);
        let ended = vec![ack(back("c")), end(), ack(None)];
        assert_eq!(told(ended).await, ["silence", "end", "back"]);
    }

    /// Between the two stand some that are called again while they are asked, and one is enough for
    /// the library that polls them to stop for a while.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_certain_before_all_that_was_said_is_known() {
        let hasty = || {
            let mut asked = false;
            let hasty = poll_fn(move |cx| {
                if std::mem::replace(&mut asked, true) {
                    return Poll::Ready(Ok(Confirmation::Ack(None)));
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            });
            hasty.boxed()
        };
        let out = [saying(ack(None)), hasty(), hasty(), hasty(), saying(ack(back("a")))];
        let told: Vec<_> = publish_all(out).await.0.into_iter().map(|(word, _)| word).collect();
        assert_eq!(told, ["back", "taken", "taken", "taken", "taken"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_certain_is_told_when_it_comes() {
        const SOON: Duration = Duration::from_millis(5);
        let soon = sleep(SOON).map(|()| Ok(Confirmation::Ack(None))).boxed();
        let out = [saying(ack(None)), saying(None), soon, saying(end())];
        let (told, left) = publish_all(out).await;
        let zero = Duration::ZERO;
        assert_eq!(told, [("taken", zero), ("silence", LONG), ("taken", SOON), ("end", zero)]);
        assert_eq!(left, Left::Used);
    }

    #[tokio::test(start_paused = true)]
    async fn a_channel_is_free_when_everything_was_confirmed() {
        let left = async |said: Option<Said>| publish_all([said, ack(None)].map(saying)).await.1;
        assert_eq!(left(ack(back("a"))).await, Left::Free);
        assert_eq!(left(Some(Ok(Confirmation::Nack(None)))).await, Left::Free);
        assert_eq!(left(end()).await, Left::Used);
        assert_eq!(left(None).await, Left::Used);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_not_written_is_known() {
        let written = |is: bool| -> BoxFuture<'static, lapin::Result<_>> {
            if is { ready(Ok(saying(ack(None)))).boxed() } else { pending().boxed() }
        };
        let wave = vec![("a".to_owned(), written(true)), ("b".to_owned(), written(false))];
        let mut words = Vec::new();
        let tell = |place: usize, told: Told| words.push((place, word(&told)));
        let left = publish(wave, Instant::now() + LONG, AT, silence, tell).await;
        assert_eq!(words, [(0, "taken"), (1, "silence")]);
        assert_eq!(left, Left::Unwritten);
    }
}
