//! One group's view of a topic, read from the brokers of RocketMQ themselves by the old protocol,
//! as consumers of RocketMQ 4 do.
//!
//! Enough for the suite of sinks and for a journey: it is alone in its group, and gives nothing to
//! others. A broker keeps one number for each queue, so only what lies before the first that is not
//! ended counts as ended.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::manner::Subscription;
use broker::rocketmq::remoting::{Desk, Silence, numbers, opened};
use event::{Cause, Code, Delivery, Event, Feed, Handle, Nack, Refusal};
use tokio::sync::Mutex;
use tokio::time::sleep;

const PULL: i32 = 11;
const COMMIT: i32 = 15;
const GIVE_BACK: i32 = 36;
const CONSUME_STATS: i32 = 208;

/// There is nothing at this place, or not any more.
const NOTHING: [i64; 3] = [19, 20, 21];

/// The request says itself what it wants, for nobody has registered.
const WANTS: &str = "4";

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A consumer.
pub(super) struct Pull {
    brokers: Vec<Desk>,
    wants: Subscription,
    state: Mutex<State>,
}

/// A queue that a broker has of a topic.
type Line = (usize, String, i64);

#[derive(Default)]
struct State {
    /// Where each queue is read next.
    places: BTreeMap<Line, i64>,
    /// What was read of each and is not ended.
    open: BTreeMap<Line, BTreeSet<i64>>,
    shelf: VecDeque<Entry>,
    hand: HashMap<Handle, Entry>,
    handles: u64,
}

/// What stands at one place of a queue.
struct Entry {
    /// Which of the brokers has it.
    broker: usize,
    topic: String,
    queue: i64,
    place: i64,
    /// Where it lies on the broker's disk.
    physical: i64,
    event: Result<Event, Cause>,
}

impl Pull {
    pub(super) fn new<'a>(brokers: impl Iterator<Item = &'a Desk>, wants: Subscription) -> Pull {
        let patient = |broker: &Desk| Desk { patience: wants.timeout, ..broker.clone() };
        Pull { brokers: brokers.map(patient).collect(), wants, state: Mutex::default() }
    }

    /// Brings what is new at all brokers. One that is away keeps no other from being read.
    async fn look(&self, state: &mut State) -> Result<(), Silence> {
        let mut away = None;
        for broker in 0..self.brokers.len() {
            away = self.look_at(broker, state).await.err().or(away);
        }
        match away {
            Some(silence) if state.shelf.is_empty() => Err(silence),
            _ => Ok(()),
        }
    }

    /// Brings what is new in the queues of all topics.
    async fn look_at(&self, broker: usize, state: &mut State) -> Result<(), Silence> {
        for topic in &self.wants.topics {
            let asked = [("consumerGroup", &*self.wants.group), ("topic", topic)];
            let told = self.brokers[broker].ask(CONSUME_STATS, &asked, b"").await?;
            let told = String::from_utf8_lossy(&told);
            let of = |name| numbers(&told, name).into_iter();
            let ends = of("brokerOffset").zip(of("consumerOffset"));
            for (queue, (end, ended)) in of("queueId").zip(ends) {
                let of = (broker, topic.clone(), queue);
                let mut place = *state.places.entry(of.clone()).or_insert(ended.max(0));
                while place < end {
                    let come = self.pull(broker, topic, queue, place).await?;
                    let Some(last) = come.last() else { break };
                    place = last.place + 1;
                    state.places.insert(of.clone(), place);
                    let open = state.open.entry(of.clone()).or_default();
                    open.extend(come.iter().map(|entry| entry.place));
                    state.shelf.extend(come);
                }
            }
        }
        Ok(())
    }

    async fn pull(
        &self,
        broker: usize,
        topic: &str,
        queue: i64,
        place: i64,
    ) -> Result<Vec<Entry>, Silence> {
        let (queue, place) = (queue.to_string(), place.to_string());
        let fields = [
            ("consumerGroup", &*self.wants.group),
            ("topic", topic),
            ("queueId", &queue),
            ("queueOffset", &place),
            ("maxMsgNums", "32"),
            ("sysFlag", WANTS),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
            ("expressionType", "TAG"),
        ];
        match self.brokers[broker].ask(PULL, &fields, b"").await {
            Ok(body) => Ok(Bytes(&body).entries(broker)),
            Err(Silence::Refused { code, .. }) if NOTHING.contains(&code) => Ok(Vec::new()),
            Err(silence) => Err(silence),
        }
    }

    /// Says that everything before this place of its queue is ended.
    async fn commit(&self, entry: &Entry, place: i64) -> Result<(), Silence> {
        let (queue, place) = (entry.queue.to_string(), place.to_string());
        let fields = [
            ("consumerGroup", &*self.wants.group),
            ("topic", &entry.topic),
            ("queueId", &queue),
            ("commitOffset", &place),
        ];
        self.brokers[entry.broker].ask(COMMIT, &fields, b"").await.map(drop)
    }

    /// Puts it where the broker keeps what a group has given up.
    async fn bury(&self, entry: &Entry) -> Result<(), Silence> {
        let physical = entry.physical.to_string();
        let fields = [
            ("offset", &*physical),
            ("group", &*self.wants.group),
            ("delayLevel", "-1"),
            ("originTopic", &entry.topic),
            ("unitMode", "false"),
        ];
        self.brokers[entry.broker].ask(GIVE_BACK, &fields, b"").await.map(drop)
    }
}

impl State {
    fn hand_out(&mut self, most: usize) -> Option<Delivery> {
        if self.hand.len() >= most {
            return None;
        }
        let entry = self.shelf.pop_front()?;
        self.handles += 1;
        let handle = Handle(self.handles);
        let origin = format!("{} {} {}", entry.topic, entry.queue, entry.place);
        let delivery = Delivery { event: entry.event.clone(), origin, attempt: 1, handle };
        self.hand.insert(handle, entry);
        Some(delivery)
    }

    fn laid_down(&mut self, handle: Handle) -> Result<Entry, Refusal> {
        let gone = || Refusal::Reject(Cause::new(Code::SinkRefused, "it is not in hand"));
        self.hand.remove(&handle).ok_or_else(gone)
    }

    /// Ends one; returns the first place of its queue that is not ended.
    fn end(&mut self, entry: &Entry) -> i64 {
        let of = (entry.broker, entry.topic.clone(), entry.queue);
        let open = self.open.entry(of.clone()).or_default();
        open.remove(&entry.place);
        open.first().or(self.places.get(&of)).copied().unwrap_or(entry.place + 1)
    }
}

#[async_trait]
impl Feed for Pull {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        let until = Instant::now() + at_most;
        loop {
            let mut state = self.state.lock().await;
            if state.shelf.is_empty() {
                self.look(&mut state).await.map_err(down)?;
            }
            let next = state.hand_out(self.wants.most);
            drop(state);
            if next.is_some() || Instant::now() >= until {
                return Ok(next);
            }
            sleep(LOOK).await;
        }
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        // Held until the broker knows, or an earlier place could come behind a later one.
        let mut state = self.state.lock().await;
        let entry = state.laid_down(handle)?;
        let place = state.end(&entry);
        self.commit(&entry, place).await.map_err(down)
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        let mut state = self.state.lock().await;
        let entry = state.laid_down(handle)?;
        if let Nack::Again(_) = nack {
            state.shelf.push_front(entry);
            return Ok(());
        }
        self.bury(&entry).await.map_err(down)?;
        let place = state.end(&entry);
        self.commit(&entry, place).await.map_err(down)
    }

    async fn extend(&self, _handle: Handle, _by: Duration) -> Result<(), Refusal> {
        Ok(())
    }
}

fn down(silence: Silence) -> Refusal {
    Refusal::Down(Cause::new(Code::SinkDown, silence))
}

/// What a broker hands out: entries one behind another, as they lie on its disk.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn entries(mut self, broker: usize) -> Vec<Entry> {
        std::iter::from_fn(|| (!self.0.is_empty()).then(|| self.entry(broker))).collect()
    }

    fn entry(&mut self, broker: usize) -> Entry {
        const BEFORE_THE_QUEUE: usize = 4 + 4 + 4;
        const FLAGS: usize = 4;
        const BEFORE_THE_BODY: usize = 4 + 8 + 8 + 8 + 8 + 4 + 8;
        self.take(BEFORE_THE_QUEUE);
        let queue = self.number(4);
        self.take(FLAGS);
        let (place, physical) = (self.number(8), self.number(8));
        self.take(BEFORE_THE_BODY);
        let [body, topic, properties] = [4, 1, 2].map(|length| {
            let length = self.number(length);
            self.take(usize::try_from(length).expect("a length"))
        });
        let topic = String::from_utf8_lossy(topic).into_owned();
        let event = opened(&topic, &String::from_utf8_lossy(properties), body);
        Entry { broker, topic, queue, place, physical, event }
    }

    fn number(&mut self, bytes: usize) -> i64 {
        self.take(bytes).iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }
}
