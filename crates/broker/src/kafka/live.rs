//! One producer of the client library, from its connection to its first fault.
//!
//! The library asks again by itself for what it sent and got no answer to, in order and without a
//! second copy. That ends with the first fault: a lost connection, a refusal or a deadline ends the
//! producer with all that is in it, so that nothing of it arrives later behind newer events. It is
//! never used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use event::{Cause, Code, Refusal};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer, PurgeConfig, ThreadedProducer};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, client::Client};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::access::Cluster;
use super::refusal::refusal;
use super::watch::{State, Watch};
use super::why;

/// How long a cluster of which no broker could be reached gets to be reached after all: a name may
/// have several addresses, which are tried one after another.
const GRACE: Duration = Duration::from_millis(500);
/// How long a topic that is not there may take to be made, and how long that it is not is believed.
const MAKING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// A producer that has reached its cluster.
pub(super) struct Live {
    producer: Option<ThreadedProducer<Watch>>,
    hosts: String,
    /// Topics that are there, and those that were not, when.
    topics: Mutex<HashMap<String, Option<Instant>>>,
    /// Whether each event goes in a batch of its own.
    pub(super) alone: bool,
    /// Held while an event is handed over, and while all is given up: an event that came between
    /// the two would arrive without those before it.
    giving: Mutex<()>,
}

impl Live {
    /// Makes a producer and waits until it has reached a broker. What fails here was never offered
    /// anything.
    pub(super) async fn connect(
        config: &ClientConfig,
        cluster: &Cluster,
        alone: bool,
        until: Instant,
    ) -> Result<Arc<Live>, Refusal> {
        let made = config.create_with_context(Watch::default());
        let producer = made.map_err(|error| Refusal::Down(setting(&error)))?;
        let (topics, hosts) = (Mutex::default(), cluster.hosts.clone());
        let (producer, giving) = (Some(producer), Mutex::default());
        let live = Arc::new(Live { producer, hosts, topics, alone, giving });
        let asked = Arc::clone(&live);
        let left = until.saturating_duration_since(Instant::now());
        let reached = aside(move || asked.client().fetch_cluster_id(left).is_some());
        let lost = async {
            live.watch().when(|state| state.refused.is_some() || state.down).await;
            if live.watch().state().refused.is_none() {
                sleep(GRACE).await;
            }
        };
        let reached = tokio::select! {
            reached = reached => reached.unwrap_or(false),
            () = lost => false,
        };
        if !reached {
            return Err(why::told(cluster, Refusal::Down(live.why_down())).await);
        }
        // One address of a name may lead nowhere, as long as another does not.
        *live.watch().state() = State::default();
        Ok(live)
    }

    pub(super) fn producer(&self) -> &ThreadedProducer<Watch> {
        self.producer.as_ref().expect("a producer is taken out only when it is dropped")
    }

    pub(super) fn client(&self) -> &Client<Watch> {
        self.producer().client()
    }

    pub(super) fn watch(&self) -> &Watch {
        self.client().context()
    }

    /// Tells whether it may still be given events.
    pub(super) fn is_fit(&self) -> bool {
        let state = self.watch().state();
        !state.cut && !state.failed && !state.down && state.refused.is_none()
    }

    /// Returns the producer for one event, unless it may be given none any more.
    pub(super) fn give(&self) -> Option<(&ThreadedProducer<Watch>, MutexGuard<'_, ()>)> {
        let giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_fit().then(|| (self.producer(), giving))
    }

    /// Gives up all that is in it. What is out is answered soon after.
    pub(super) fn purge(&self) {
        let _giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        self.watch().state().failed = true;
        self.producer().purge(PurgeConfig::default().queue().inflight().non_blocking());
    }

    /// Waits until a connection was lost or something was refused.
    pub(super) async fn fault(&self) {
        self.watch().when(|state| state.cut || state.failed || state.refused.is_some()).await;
    }

    /// Returns whether an open connection was lost, and the library's last word on connections.
    pub(super) fn cut(&self) -> Option<String> {
        let state = self.watch().state();
        state.cut.then(|| state.last.clone())
    }

    /// Returns the library's last word on connections.
    pub(super) fn last(&self) -> String {
        self.watch().state().last.clone()
    }

    /// Checks that a topic is there. One that a broker makes by itself gets the time for it.
    pub(super) async fn topic(self: &Arc<Live>, name: &str, until: Instant) -> Result<(), Refusal> {
        let missing = RDKafkaErrorCode::UnknownTopicOrPartition;
        match self.topics().get(name) {
            Some(None) => return Ok(()),
            Some(Some(when)) if when.elapsed() < MAKING => return Err(refusal(missing, name)),
            _ => {}
        }
        let making = until.min(Instant::now() + MAKING);
        loop {
            let told = self.look(name, until).await?;
            let again =
                matches!(told, Some(RDKafkaErrorCode::LeaderNotAvailable)) || told == Some(missing);
            match told {
                None => {
                    self.topics().insert(name.to_owned(), None);
                    return Ok(());
                }
                Some(_) if again && Instant::now() + LOOK < making => sleep(LOOK).await,
                Some(error) => {
                    if error == missing {
                        self.topics().insert(name.to_owned(), Some(Instant::now()));
                    }
                    return Err(refusal(error, name));
                }
            }
        }
    }

    /// Asks for a topic, whatever is known of it.
    pub(super) async fn ask(self: &Arc<Live>, topic: &str, until: Instant) -> Result<(), Refusal> {
        self.look(topic, until).await.map(drop)
    }

    /// Asks for a topic; returns what is wrong with it.
    async fn look(
        self: &Arc<Live>,
        name: &str,
        until: Instant,
    ) -> Result<Option<RDKafkaErrorCode>, Refusal> {
        let (asked, topic) = (Arc::clone(self), name.to_owned());
        let left = until.saturating_duration_since(Instant::now());
        let told = aside(move || {
            let metadata = asked.client().fetch_metadata(Some(&topic), Timeout::After(left))?;
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            Ok::<_, KafkaError>(found.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from))
        });
        let told = tokio::select! {
            told = told => told.unwrap_or(Err(KafkaError::Canceled)),
            () = self.fault() => Err(KafkaError::Canceled),
            () = sleep_until(until) => Err(KafkaError::Canceled),
        };
        told.map_err(|_| match self.was_given_up() {
            true => Refusal::Held,
            false => Refusal::Down(self.why_down()),
        })
    }

    /// Tells whether it ended with something that was in it, while its cluster was there: another
    /// producer can be made.
    fn was_given_up(&self) -> bool {
        let state = self.watch().state();
        state.failed && !state.cut && !state.down && state.refused.is_none()
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, Option<Instant>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn why_down(&self) -> Cause {
        let (state, hosts) = (self.watch().state(), &self.hosts);
        if let Some((error, reason)) = &state.refused {
            let Refusal::Down(cause) = refusal(*error, &format!("{hosts}: {reason}")) else {
                return Cause::new(Code::AuthRefused, format_args!("{hosts}: {reason}"));
            };
            return cause;
        }
        match state.last.as_str() {
            "" => Cause::new(Code::SinkDown, format_args!("{hosts}: no broker answers")),
            last => Cause::new(Code::SinkDown, last),
        }
    }
}

impl Drop for Live {
    /// The library waits for its threads, for which no caller has the time.
    fn drop(&mut self) {
        if let Some(producer) = self.producer.take() {
            thread::spawn(move || drop(producer));
        }
    }
}

/// Does what blocks on a thread of its own.
pub(super) fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        // Whoever asked may have stopped waiting.
        let _ = tell.send(work());
    });
    told
}

/// Says which setting the library does not take; never its value, which may be a secret.
pub(super) fn setting(error: &KafkaError) -> Cause {
    match error {
        KafkaError::ClientConfig(_, why, key, _) => {
            Cause::new(Code::ConfigInvalid, format_args!("{key}: {why}"))
        }
        other => Cause::new(Code::ConfigInvalid, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes one that has no cluster, and so hears of none.
    fn live() -> Arc<Live> {
        let producer = Some(ClientConfig::new().create_with_context(Watch::default()).unwrap());
        let (topics, giving) = (Mutex::default(), Mutex::default());
        Arc::new(Live { producer, hosts: String::new(), topics, alone: false, giving })
    }

    #[test]
    fn while_an_event_is_handed_over_nothing_is_given_up_and_after_that_nothing_is_handed_over() {
        let live = live();
        let given = live.give().expect("it is fit");
        assert!(live.giving.try_lock().is_err(), "whoever gives up waits");
        drop(given);
        live.purge();
        assert!(live.give().is_none());
    }

    #[tokio::test]
    async fn a_producer_that_was_given_up_during_a_look_does_not_mean_that_its_cluster_is_down() {
        type Fault = fn(&mut State);
        let faults: [(Fault, bool); 4] = [
            (|_| {}, true),
            (|state| state.cut = true, false),
            (|state| state.down = true, false),
            (
                |state| state.refused = Some((RDKafkaErrorCode::Authentication, String::new())),
                false,
            ),
        ];
        for (fault, held) in faults {
            let live = live();
            live.purge();
            fault(&mut live.watch().state());
            let told = live.topic("orders", Instant::now() + GRACE).await;
            match held {
                true => assert_eq!(told, Err(Refusal::Held)),
                false => assert!(matches!(told, Err(Refusal::Down(_))), "{told:?}"),
            }
        }
    }
}
