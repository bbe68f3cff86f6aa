//! Several brokers of RocketMQ, through a proxy and without: what the death of one means for the
//! others, and what a slave means for a receipt.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::Subscription;
use broker::rocketmq::Shape;
use event::{Answer, Code, Durability, Event, EventId, Feed, Finding, Grade, Refusal, Sink};
use futures_util::future::join_all;
use it::quay::Quay;
use it::quay::rocketmq_fleet::{FIVE, FOUR, Fleet, master_and_slave, masters};
use tokio::time::sleep;

use super::rocketmq::{PATIENCE, all, cause_of, manner};

/// How long to wait between two tries.
const LOOK: Duration = Duration::from_millis(100);

const KEYS: usize = 12;

/// One way for events: a sink, a topic of its own, and who takes in.
struct Way {
    sink: Arc<dyn Sink>,
    shape: Shape,
    topic: String,
    feed: Arc<dyn Feed>,
    put: Vec<Event>,
    come: Vec<Event>,
    /// How often something was offered, and how often something of it was refused.
    tries: (usize, usize),
}

impl Way {
    async fn open(fleet: &Fleet, proxy: bool, shape: Shape) -> Way {
        let options = match proxy {
            true => fleet.whole().options(manner(), shape),
            false => fleet.quay.options(manner(), shape),
        };
        let sink = broker::rocketmq::sink(options).expect("the options are right");
        let kind = if shape == Shape::Fifo { "FIFO" } else { "NORMAL" };
        let (topic, group) = (format!("t-{}", EventId::new()), format!("g-{}", EventId::new()));
        fleet.whole().make_topic(&topic, kind).await.expect("a topic is made");
        fleet.whole().make_group(&group, shape == Shape::Fifo).await.expect("a group is made");
        let wants = Subscription::new(group, &[&topic]);
        let feed = fleet.whole().feed(wants).await.expect("it is right");
        Way { sink, shape, topic, feed, put: Vec::new(), come: Vec::new(), tries: (0, 0) }
    }

    /// Makes events of all keys.
    fn events(&self, count: usize) -> Vec<Event> {
        let key = |n: usize| format!("key-{}", n % KEYS);
        (0..count).map(|n| Event::new(&*self.topic, "T", format!("{n}")).key(key(n))).collect()
    }

    /// Offers events as a relay does, until all are taken. Nothing is dead, and the lane never
    /// rests: a broker is there.
    async fn offer(&mut self, events: Vec<Event>) {
        let until = Instant::now() + PATIENCE;
        self.put.extend(events.iter().cloned());
        let mut left = events;
        while !left.is_empty() {
            let answers = self.sink.publish(&left).await;
            let lives =
                |answer: &Answer| !matches!(answer, Err(Refusal::Down(_) | Refusal::Reject(_)));
            assert!(answers.iter().all(lives), "{:?}: {answers:?}", self.shape);
            let refused = answers.iter().filter(|answer| answer.is_err()).count();
            self.tries = (self.tries.0 + 1, self.tries.1 + usize::from(refused > 0));
            assert!(Instant::now() < until, "{refused} are left: {answers:?}");
            let again = left.into_iter().zip(answers).filter(|(_, answer)| answer.is_err());
            left = again.map(|(event, _)| event).collect();
            if !left.is_empty() {
                sleep(LOOK).await;
            }
        }
    }

    /// Takes in until all has come that was put.
    async fn take(&mut self) {
        let missing = |way: &Way| -> BTreeSet<EventId> {
            let come: BTreeSet<EventId> = way.come.iter().map(|event| event.id).collect();
            way.put.iter().map(|event| event.id).filter(|id| !come.contains(id)).collect()
        };
        let mut until = Instant::now() + PATIENCE;
        while !missing(self).is_empty() {
            assert!(Instant::now() < until, "{:?}: {} are lost", self.shape, missing(self).len());
            // Polls of a broker that is away fail; the others go on.
            let Ok(Some(delivery)) = self.feed.next(Duration::from_secs(1)).await else { continue };
            until = Instant::now() + PATIENCE;
            let event = delivery.event.expect("only events were published");
            // A broker that is away knows nothing of it, and brings it once more.
            let _ = self.feed.ack(delivery.handle).await;
            if self.come.iter().all(|known| known.id != event.id) {
                self.come.push(event);
            }
        }
    }

    /// Each key came in the order in which it was put.
    fn is_in_order(&self) {
        let keys = |events: &[Event]| {
            let mut keys: HashMap<String, Vec<EventId>> = HashMap::new();
            for event in events {
                keys.entry(event.key.clone().expect("all have keys")).or_default().push(event.id);
            }
            keys
        };
        assert_eq!(keys(&self.come), keys(&self.put));
    }

    /// Returns how many events of the topic each of two brokers has.
    async fn shares(&self, fleet: &Fleet) -> [i64; 2] {
        let queues = fleet.whole().queues(&self.topic).await.expect("both tell");
        [queues[0].iter().sum(), queues[1].iter().sum()]
    }
}

#[tokio::test]
async fn a_broker_that_dies_holds_up_only_its_own_keys_and_is_used_again() {
    let fleet = masters(&["broker.flushDiskType=SYNC_FLUSH"], &[]).await;
    let kinds = [Shape::Fifo, Shape::Normal].map(|shape| [(true, shape), (false, shape)]);
    let opened = kinds.into_iter().flatten().map(|(proxy, shape)| Way::open(&fleet, proxy, shape));
    let mut ways = join_all(opened).await;

    both_have_events_and_keys_stay_in_their_queues(&fleet, &mut ways).await;
    worth_is(&ways, Durability::BestEffort, "broker-b: ASYNC_FLUSH").await;

    fleet.kill().expect("it dies");
    join_all(ways.iter_mut().map(async |way| {
        way.tries = (0, 0);
        way.offer(way.events(5 * KEYS)).await;
        way.take().await;
    }))
    .await;
    let [_, fifo, _, normal] = &ways[..] else { panic!("four ways") };
    assert!(fifo.tries.1 > 0, "no key had its queue there");
    assert!(normal.tries.0 <= 2, "the next try goes to another broker: {:?}", normal.tries);
    ways.iter().filter(|way| way.shape == Shape::Fifo).for_each(Way::is_in_order);
    fleet.is_known(false).await.expect("the name server lets go of it");
    worth_is(&ways, Durability::Durable, "broker-a: SYNC_FLUSH").await;

    fleet.revive().await.expect("it comes back");
    join_all(ways.iter_mut().map(async |way| {
        let (until, before) = (Instant::now() + PATIENCE, way.shares(&fleet).await[1]);
        while way.shares(&fleet).await[1] <= before {
            assert!(Instant::now() < until, "{:?}: it is not used again", way.shape);
            way.offer(way.events(KEYS)).await;
            sleep(LOOK).await;
        }
        way.take().await;
        way.feed.close().await;
    }))
    .await;
}

async fn both_have_events_and_keys_stay_in_their_queues(fleet: &Fleet, ways: &mut [Way]) {
    const TURNS: usize = 10;
    // The topic of the first way has events of both that keep order.
    let direct = Arc::clone(&ways[1].sink);
    join_all(ways.iter_mut().enumerate().map(async |(at, way)| {
        for turn in 0..TURNS {
            let other = (at == 0 && turn % 2 == 1).then(|| Arc::clone(&direct));
            let own = other.map(|other| std::mem::replace(&mut way.sink, other));
            way.offer(way.events(KEYS)).await;
            way.sink = own.unwrap_or_else(|| Arc::clone(&way.sink));
        }
        // A broker counts what is in a queue some time after its receipt, but before it hands it
        // out.
        way.take().await;
    }))
    .await;
    for way in ways {
        assert_eq!(way.tries, (TURNS, 0), "{:?}", way.shape);
        let shares = way.shares(fleet).await;
        assert!(shares.iter().all(|share| *share > 0), "{:?}: {shares:?}", way.shape);
        assert_eq!(shares.iter().sum::<i64>(), (TURNS * KEYS) as i64);
        if way.shape == Shape::Fifo {
            let queues = fleet.whole().queues(&way.topic).await.expect("both tell").concat();
            assert!(queues.iter().all(|count| count % TURNS as i64 == 0), "{queues:?}");
            way.is_in_order();
        }
    }
}

/// Both kinds of sinks say what receipts are worth: what those of the weakest broker are.
async fn worth_is(ways: &[Way], class: Durability, detail: &str) {
    for way in &ways[..2] {
        let seen = way.sink.worth().await.expect("it tells");
        let told = |finding: &Finding| finding.what == "flush" && finding.detail.contains(detail);
        assert!(seen.findings.iter().any(told), "{seen:?}");
        assert_eq!(seen.durability, class, "{seen:?}");
    }
}

/// 5.x says of a slave that is away only that it was too slow.
#[tokio::test]
async fn a_receipt_waits_for_the_slave_and_without_it_there_is_none() {
    let settings = [
        "broker.flushDiskType=SYNC_FLUSH",
        "broker.brokerRole=SYNC_MASTER",
        "broker.inSyncReplicas=2",
        "broker.slaveTimeout=1500",
    ];
    let fleet = master_and_slave(FIVE, &settings).await;
    let through = fleet.whole().options(manner(), Shape::Fifo);
    let options = [through, fleet.quay.options(manner(), Shape::Fifo)];
    let sinks = options.map(|it| broker::rocketmq::sink(it).expect("the options are right"));
    a_slave_goes_and_comes_back(&fleet, &sinks, "FLUSH_SLAVE_TIMEOUT").await;

    fleet.set("inSyncReplicas", "1").await.expect("it is set");
    fleet.kill().expect("it dies");
    let topic = fleet.quay.topic("alone").await.expect("a topic is made");
    for sink in sinks {
        let answers = sink.publish(&[Event::new(&*topic, "T", "{}").key("k")]).await;
        assert!(answers[0].is_ok(), "nobody is waited for: {answers:?}");
        let seen = sink.worth().await.expect("it tells");
        assert_eq!(seen.durability, Durability::Durable, "{seen:?}");
    }
}

/// 4.x has no `inSyncReplicas`: a `SYNC_MASTER` waits by itself.
#[tokio::test]
async fn in_version_4_a_synchronous_master_waits_for_its_slave_by_itself() {
    let fleet = master_and_slave(FOUR, &["broker.brokerRole=SYNC_MASTER"]).await;
    let options = fleet.quay.options(manner(), Shape::Fifo);
    let sinks = [broker::rocketmq::sink(options).expect("the options are right")];
    a_slave_goes_and_comes_back(&fleet, &sinks, "SLAVE_NOT_AVAILABLE").await;
}

async fn a_slave_goes_and_comes_back(fleet: &Fleet, sinks: &[Arc<dyn Sink>], said: &str) {
    let group = format!("group-{}", EventId::new());
    let topic = fleet.quay.topic(&group).await.expect("a topic is made");
    let feed = fleet.quay.feed(Subscription::new(group, &[&topic])).await.expect("it is right");
    let event = || Event::new(&*topic, "T", "{}").key("k");
    for sink in sinks {
        copied(&**sink, event()).await;
        replication_is(&**sink, Grade::Good).await;
    }
    fleet.kill().expect("it dies");
    let mut lonely = Vec::new();
    for sink in sinks {
        let (event, until) = (event(), Instant::now() + PATIENCE);
        loop {
            let answers = sink.publish(std::slice::from_ref(&event)).await;
            assert_eq!(cause_of(&answers[0]), Some(("unknown", Code::NotKept)), "{answers:?}");
            let Err(Refusal::Unknown(cause)) = &answers[0] else { panic!("{answers:?}") };
            if cause.detail.contains(said) {
                break;
            }
            assert!(Instant::now() < until, "{cause}");
        }
        lonely.push(event.id);
    }
    fleet.is_known(false).await.expect("the name server lets go of it");
    for sink in sinks {
        replication_is(&**sink, Grade::Warn).await;
    }
    fleet.revive().await.expect("it comes back");
    for sink in sinks {
        copied(&**sink, event()).await;
        replication_is(&**sink, Grade::Good).await;
    }
    // What had no receipt is there all the same.
    let come = all(&*feed, 3 * sinks.len()).await;
    assert!(lonely.iter().all(|id| come.iter().any(|event| event.id == *id)));
    feed.close().await;
}

/// Publishes until there is a receipt: a slave that was just started is still behind.
async fn copied(sink: &dyn Sink, event: Event) {
    let until = Instant::now() + PATIENCE;
    loop {
        let answers = sink.publish(std::slice::from_ref(&event)).await;
        match &answers[0] {
            Ok(_) => return,
            Err(Refusal::Unknown(cause)) if cause.code == Code::NotKept => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
        assert!(Instant::now() < until, "{answers:?}");
    }
}

async fn replication_is(sink: &dyn Sink, grade: Grade) {
    let seen = sink.worth().await.expect("it tells");
    assert_eq!(seen.durability, Durability::Replicated, "{seen:?}");
    let told = seen.findings.iter().find(|finding| finding.what == "replication");
    assert_eq!(told.expect("it is told").grade, grade, "{seen:?}");
}
