//! A consumer on a server: side by side, beside another, dying, and with a database that dies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use broker::manner::{Manner, Subscription};
use event::{
    Answer, Consumed, Delivery, Event, EventId, Feed, Handle, Nack, Refusal, Sink, Witness,
};
use it::instance::Instance;
use it::quay::Quay;
use it::quay::http::{HttpQuay, binary};
use it::world::need;
use postbox::{Consumer, Outbox};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, MySqlPool, PgPool};
use store::Setup;
use tokio::sync::{Barrier, Notify};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

/// How long a consumer waits for a connection to a database that may be away.
const CONNECT: Duration = Duration::from_secs(1);

/// A quay, and a topic of it.
struct Shore {
    quay: HttpQuay,
    topic: String,
}

impl Shore {
    async fn new() -> Shore {
        let quay = binary().await;
        let topic = quay.topic("stock").await.unwrap();
        Shore { quay, topic }
    }

    async fn feed(&self) -> Arc<dyn Feed> {
        let mut subscription = Subscription::new("stock", &[&self.topic]);
        subscription.lease = Duration::from_secs(5);
        self.quay.feed(subscription).await.unwrap()
    }

    async fn sink(&self) -> Arc<dyn Sink> {
        self.quay.sink(Manner::new("orders")).await.unwrap()
    }

    fn events(&self, keys: usize, each: usize) -> Vec<Event> {
        let one = |n: usize| Event::new(&*self.topic, "T", "{}").key(format!("key-{}", n % keys));
        (0..keys * each).map(one).collect()
    }
}

/// Brings events as a relay does, until each is taken. None may be given up.
async fn bring(sink: Arc<dyn Sink>, mut left: Vec<Event>) {
    while !left.is_empty() {
        let answers = sink.publish(&left).await;
        let dead = |answer: &&Answer| matches!(answer, Err(Refusal::Reject(_)));
        assert_eq!(answers.iter().find(dead), None);
        let all = left.into_iter().zip(answers);
        left = all.filter(|(_, answer)| answer.is_err()).map(|(event, _)| event).collect();
        sleep(Duration::from_millis(50)).await;
    }
}

/// A table of effects in a database with an inbox.
async fn place(url: &str) -> Setup {
    let setup = Setup { table: format!("t{:016x}", fastrand::u64(..)), ..Setup::new(url) };
    store::open(&setup).await.unwrap().migrate().await.unwrap();
    setup
}

macro_rules! consumers {
    ($($name:ident $pool:ident $server:literal $mark:literal $spoil:literal,)+) => {
        $(mod $name {
            use super::*;

            struct Stock {
                pool: $pool,
                table: String,
            }

            impl Stock {
                async fn new(url: &str) -> Stock {
                    let table = place(url).await.table;
                    let pool = $pool::connect(url).await.unwrap();
                    let made = format!("CREATE TABLE {table}_effects (event_id VARCHAR(36))");
                    sqlx::query(AssertSqlSafe(made)).execute(&pool).await.unwrap();
                    Stock { pool, table }
                }

                /// Consumes until the stop; `pause` is waited for in each transaction.
                async fn consume<F>(
                    &self,
                    feed: Arc<dyn Feed>,
                    pause: impl Fn() -> F + Send + Sync + 'static,
                    stop: impl Future<Output = ()> + Send,
                ) where
                    F: Future<Output = ()> + Send + 'static,
                {
                    let outbox = Outbox::named(&self.table).unwrap();
                    let effect = format!("INSERT INTO {}_effects VALUES ({})", self.table, $mark);
                    let consumer = Consumer::new(feed, self.pool.clone(), "stock");
                    let run = consumer.beside(outbox).lease(Duration::from_secs(5)).run(
                        |tx, event| {
                            let (effect, pause) = (effect.clone(), pause());
                            Box::pin(async move {
                                let effect = sqlx::query(AssertSqlSafe(effect));
                                effect.bind(event.id.to_string()).execute(tx).await?;
                                pause.await;
                                Ok(())
                            })
                        },
                        stop,
                    );
                    run.await.unwrap();
                }

                async fn effects(&self) -> Vec<String> {
                    let all = format!("SELECT event_id FROM {}_effects", self.table);
                    sqlx::query_scalar(AssertSqlSafe(all)).fetch_all(&self.pool).await.unwrap()
                }

                /// Checks that each event had one effect.
                async fn verify(&self, events: &[Event]) {
                    let mut effects = self.effects().await;
                    effects.sort();
                    let mut ids: Vec<_> = events.iter().map(|it| it.id.to_string()).collect();
                    ids.sort();
                    assert_eq!(effects, ids);
                }
            }

            #[tokio::test]
            async fn keys_are_worked_on_side_by_side() {
                let stock = Stock::new(need($server).detail("url")).await;
                let (shore, barrier) = (Shore::new().await, Arc::new(Barrier::new(3)));
                let events = shore.events(3, 1);
                let met = barrier.clone();
                let pause = move || {
                    let met = met.clone();
                    async move {
                        met.wait().await;
                    }
                };
                let bringing = bring(shore.sink().await, events.clone());
                let run = stock.consume(shore.feed().await, pause, bringing);
                timeout(PATIENCE, run).await.expect("three meet in their transactions");
                stock.verify(&events).await;
            }

            #[tokio::test]
            async fn an_event_that_comes_to_two_at_once_has_one_effect() {
                let stock = Stock::new(need($server).detail("url")).await;
                let shore = Shore::new().await;
                let events = shore.events(4, 10);
                let feeds = (shore.feed().await, shore.feed().await);
                let done = Notify::new();
                let bringing = async {
                    // Two relays bring everything, and either copy may come to either consumer.
                    let (one, other) = (shore.sink().await, shore.sink().await);
                    tokio::join!(bring(one, events.clone()), bring(other, events.clone()));
                    done.notify_one();
                };
                let rest = || std::future::ready(());
                tokio::join!(
                    stock.consume(feeds.0, rest, bringing),
                    stock.consume(feeds.1, rest, done.notified()),
                );
                stock.verify(&events).await;
            }

            #[tokio::test]
            async fn a_consumer_that_dies_in_its_work_leaves_nothing_and_another_does_it() {
                let stock = Stock::new(need($server).detail("url")).await;
                let (shore, begun) = (Shore::new().await, Arc::new(Notify::new()));
                let events = shore.events(2, 3);
                let bringing = tokio::spawn(bring(shore.sink().await, events.clone()));
                let told = begun.clone();
                let for_ever = move || {
                    told.notify_one();
                    std::future::pending()
                };
                tokio::select! {
                    () = stock.consume(shore.feed().await, for_ever, std::future::pending()) => {}
                    () = begun.notified() => {}
                }
                assert_eq!(stock.effects().await, [""; 0]);
                let brought = async { bringing.await.unwrap() };
                let rest = || std::future::ready(());
                let run = stock.consume(shore.feed().await, rest, brought);
                timeout(PATIENCE, run).await.expect("another does the work");
                stock.verify(&events).await;
            }

            #[tokio::test]
            async fn a_work_that_ignores_what_undid_its_transaction_is_done_again() {
                let stock = Stock::new(need($server).detail("url")).await;
                let (shore, works) = (Shore::new().await, Arc::new(AtomicUsize::new(0)));
                let events = shore.events(1, 1);
                let bringing = bring(shore.sink().await, events.clone());
                let effect = format!("INSERT INTO {}_effects VALUES ({})", stock.table, $mark);
                let count = works.clone();
                let consumer = Consumer::new(shore.feed().await, stock.pool.clone(), "stock");
                let run = consumer.beside(Outbox::named(&stock.table).unwrap()).run(
                    move |tx, event| {
                        let (effect, before) =
                            (effect.clone(), count.fetch_add(1, Ordering::SeqCst));
                        Box::pin(async move {
                            let effect = sqlx::query(AssertSqlSafe(effect));
                            effect.bind(event.id.to_string()).execute(&mut *tx).await?;
                            if before == 0 {
                                let _ = sqlx::raw_sql($spoil).execute(tx).await;
                            }
                            Ok(())
                        })
                    },
                    bringing,
                );
                timeout(PATIENCE, run).await.expect("it is done again").unwrap();
                stock.verify(&events).await;
                assert_eq!(works.load(Ordering::SeqCst), 2);
            }
        })+
    };
}

consumers! {
    postgres PgPool "postgres" "$1" "SELECT 1 / 0",
    mysql MySqlPool "mysql" "?" "ROLLBACK",
    mariadb MySqlPool "mariadb" "?" "ROLLBACK",
    mariadb_10_5 MySqlPool "mariadb-10.5" "?" "ROLLBACK",
}

/// A feed through which one sees what was given back, and how often work was in vain.
struct Window {
    feed: Arc<dyn Feed>,
    nacks: Mutex<Vec<Nack>>,
    in_vain: AtomicUsize,
}

#[async_trait]
impl Feed for Window {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        self.feed.next(at_most).await
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        self.feed.ack(handle).await
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        self.nacks.lock().unwrap().push(nack.clone());
        self.feed.nack(handle, nack).await
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        self.feed.extend(handle, by).await
    }

    async fn close(&self) {
        self.feed.close().await;
    }
}

impl Witness for Window {
    fn consumed(&self, _group: &str, what: &Consumed) {
        if matches!(what, Consumed::Again(_)) {
            self.in_vain.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn a_database_that_is_killed_costs_no_event_no_hand_out_and_no_attempt() {
    let mut server = Instance::start("postgres").unwrap();
    let url = server.url.clone();
    let pool = until_it_answers(&url, &mut server).await;
    let table = place(&url).await.table;
    let made = format!("CREATE TABLE {table}_effects (event_id VARCHAR(36))");
    sqlx::query(AssertSqlSafe(made)).execute(&pool).await.unwrap();
    let (shore, effect) = (Shore::new().await, format!("INSERT INTO {table}_effects VALUES ($1)"));
    let events = shore.events(5, 40);
    let (half, rest) = events.split_at(100);
    let sink = shore.sink().await;
    let bringing = async {
        bring(sink.clone(), half.to_vec()).await;
        server.kill().unwrap();
        let reviving = async {
            // Long enough for some to find nobody there.
            sleep(2 * CONNECT).await;
            server.revive().unwrap();
        };
        tokio::join!(bring(sink.clone(), rest.to_vec()), reviving);
    };
    // One failure of its own would be the end of an event.
    let once = postbox::Backoff { base: Duration::from_millis(1), cap: Duration::from_millis(1) };
    let (feed, nacks, in_vain) = (shore.feed().await, Mutex::default(), AtomicUsize::new(0));
    let window = Arc::new(Window { feed, nacks, in_vain });
    let consumer = Consumer::new(window.clone(), pool.clone(), "stock").patience(1, once);
    let consumer = consumer.lease(Duration::from_secs(5)).witness(window.clone());
    let run = consumer.beside(Outbox::named(&table).unwrap()).run(
        |tx, event| {
            let effect = effect.clone();
            Box::pin(async move {
                let effect = sqlx::query(AssertSqlSafe(effect));
                effect.bind(event.id.to_string()).execute(tx).await?;
                Ok(())
            })
        },
        bringing,
    );
    timeout(2 * PATIENCE, run).await.expect("it goes on").unwrap();
    assert!(window.in_vain.load(Ordering::SeqCst) > 0, "the outage was not noticed");
    // A broker counts how often it hands out. What is left at the stop goes back at once.
    let mut nacks = window.nacks.lock().unwrap().clone();
    nacks.retain(|nack| *nack != Nack::Again(Duration::ZERO));
    assert_eq!(nacks, []);
    let all = format!("SELECT event_id FROM {table}_effects");
    let effects: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(all)).fetch_all(&pool).await.unwrap();
    let mut effects: Vec<EventId> = effects.iter().map(|id| id.parse().unwrap()).collect();
    effects.sort_unstable();
    let mut ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    ids.sort_unstable();
    assert_eq!(effects, ids);
}

async fn until_it_answers(url: &str, server: &mut Instance) -> PgPool {
    loop {
        server.lives().unwrap();
        match PgPoolOptions::new().acquire_timeout(CONNECT).connect(url).await {
            Ok(pool) => return pool,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}
