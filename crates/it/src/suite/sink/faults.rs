//! What a sink says when its broker is gone, asleep, killed or cut off.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Answer, Event, EventId, Refusal, Sink};
use tokio::time::sleep;

use crate::quay::Quay;
use crate::suite::passage::{
    Bringer, PATIENCE, Passage, Reader, TIMEOUT, all_taken, brief, cause, ids, in_order,
};

/// How long after its time an answer may come, on a busy machine.
const SLACK: Duration = Duration::from_secs(4);
/// How many events a reader may be behind.
const AHEAD: usize = 400;
/// How long whoever was refused rests.
const REST: Duration = Duration::from_millis(100);

/// A broker that is not there is down: soon said, with a cause, and nothing arrives later.
pub async fn a_broker_that_is_not_there_is_down(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (mut line, sink) = quay.detour(brief()).await.expect("a line is opened");
    line.close().await;
    let (events, began) = (passage.events(3, 3), Instant::now());
    let answers = sink.publish(&events).await;
    assert!(began.elapsed() < 2 * TIMEOUT + SLACK, "{:?}", began.elapsed());
    passage.clean_all(&answers);
    let down = |answer: &Answer| matches!(answer, Err(Refusal::Down(_)));
    assert!(answers.len() == events.len() && answers.iter().all(down), "{answers:?}");
    let probed = sink.probe().await;
    let Err(Refusal::Down(cause)) = &probed else { panic!("{probed:?}") };
    passage.clean(cause);
    assert!(sink.inspect().await.is_err() || !quay.traits().keeps, "it cannot know");
    let (reader, marker) = (passage.reader().await, passage.marker());
    all_taken(&passage.sink().await.publish(std::slice::from_ref(&marker)).await);
    reader.until([marker.id]).await;
    assert_eq!(reader.counts().len(), 1, "something else arrived");
}

/// What was asked and not answered is unknown; brought again it is there, at least once.
pub async fn an_answer_that_is_cut_off_is_unknown(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (reader, event) = (passage.reader().await, passage.marker());
    let (line, sink) = quay.detour(brief()).await.expect("a line is opened");
    warm(&passage, &sink, &reader).await;
    line.hold_answers(true);
    let cutting = async {
        reader.until([event.id]).await;
        line.cut();
        line.hold_answers(false);
    };
    let (answers, ()) = tokio::join!(sink.publish(std::slice::from_ref(&event)), cutting);
    assert!(matches!(answers[..], [Err(Refusal::Unknown(_))]), "{answers:?}");
    passage.clean_all(&answers);
    let follower = passage.marker();
    let brought = Bringer::start(sink, vec![event.clone(), follower.clone()]);
    assert_eq!(brought.done().await, [], "what is unknown is never rejected");
    reader.until([event.id, follower.id]).await;
    in_order(&[event, follower], &reader.events());
}

/// An answer that does not come is waited for no longer than the timeout, and is unknown.
pub async fn an_answer_that_does_not_come_is_unknown(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (reader, events) = (passage.reader().await, passage.events(1, 3));
    let (line, sink) = quay.detour(brief()).await.expect("a line is opened");
    warm(&passage, &sink, &reader).await;
    line.hold_answers(true);
    let began = Instant::now();
    let answers = sink.publish(&events).await;
    assert!(began.elapsed() < 2 * TIMEOUT + SLACK, "{:?}", began.elapsed());
    passage.clean_all(&answers);
    assert!(matches!(&answers[0], Err(Refusal::Unknown(_))), "{answers:?}");
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    line.hold_answers(false);
    assert_eq!(Bringer::start(sink, events.clone()).done().await, []);
    reader.until(ids(&events)).await;
    in_order(&events, &reader.events());
}

/// A broker that sleeps is not waited for, gives no receipt, and is used again once it wakes.
pub async fn a_broker_that_sleeps_is_not_waited_for(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let sink = quay.sink(brief()).await.expect("the options are right");
    let reader = passage.reader().await;
    warm(&passage, &sink, &reader).await;
    quay.pause(true).await.expect("the broker can be stopped");
    let (events, began) = (passage.events(4, 5), Instant::now());
    let answers = sink.publish(&events).await;
    let took = began.elapsed();
    let probed = sink.probe().await;
    quay.pause(false).await.expect("the broker goes on");
    assert!(took < 2 * TIMEOUT + SLACK, "{took:?}");
    if let Err(refusal) = &probed {
        passage.clean(cause(refusal).expect("a probe has a cause"));
    }
    passage.clean_all(&answers);
    for answer in &answers {
        let honest = matches!(answer, Err(Refusal::Unknown(_) | Refusal::Down(_) | Refusal::Held));
        assert!(honest, "{answer:?}");
    }
    assert_eq!(Bringer::start(sink, events.clone()).done().await, []);
    reader.until(ids(&events)).await;
    in_order(&events, &reader.events());
}

/// Killed while events come: what has a receipt is there, what was not taken for certain is not,
/// nothing is rejected, and the same sink goes on by itself.
pub async fn a_broker_that_is_killed_loses_no_receipt(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let sink = quay.sink(brief()).await.expect("the options are right");
    let reader = Reader::start(passage.brief_feed().await);
    warm(&passage, &sink, &reader).await;
    let (mut log, killed, back) = (Log::default(), Cell::new(false), Cell::new(false));
    let killing = async {
        reader.until_some(60).await;
        killed.set(true);
        quay.restart().await.expect("the broker comes back");
        back.set(true);
    };
    let publishing = async {
        while !back.get() {
            // Whoever reads on a busy machine is not left behind by more than it can make up for;
            // the kill itself comes while events do.
            let under_way = killed.get() && log.refused() == 0;
            match under_way || log.taken() < reader.counts().len() + AHEAD {
                true => _ = log.batch(&passage, &sink).await,
                false => sleep(REST).await,
            }
        }
    };
    tokio::join!(publishing, killing);
    let until = Instant::now() + PATIENCE;
    while !log.batch(&passage, &sink).await {
        assert!(Instant::now() < until, "it does not go on: {:?}", log.0.last());
    }
    log.check(&passage, &reader).await;
}

/// Publishes until there is a connection, and an event has gone all the way.
async fn warm(passage: &Passage<'_>, sink: &Arc<dyn Sink>, reader: &Reader) {
    let events = passage.of_keys("warm", 4, 1);
    assert_eq!(Bringer::start(sink.clone(), events.clone()).done().await, []);
    reader.until(ids(&events)).await;
}

/// Each event that was offered once, with its answer.
#[derive(Default)]
struct Log(Vec<(Event, Answer)>);

impl Log {
    /// Publishes a batch of keys of its own; tells whether all of it was taken.
    async fn batch(&mut self, passage: &Passage<'_>, sink: &Arc<dyn Sink>) -> bool {
        let events = passage.of_keys(&format!("batch-{}", self.0.len()), 8, 5);
        let answers = sink.publish(&events).await;
        passage.clean_all(&answers);
        let taken = answers.iter().all(Result::is_ok);
        assert_eq!(answers.len(), events.len());
        self.0.extend(events.into_iter().zip(answers));
        if !taken {
            sleep(REST).await;
        }
        taken
    }

    fn taken(&self) -> usize {
        self.0.len() - self.refused()
    }

    fn refused(&self) -> usize {
        self.0.iter().filter(|(_, answer)| answer.is_err()).count()
    }

    async fn check(self, passage: &Passage<'_>, reader: &Reader) {
        let taken = self.0.iter().filter(|(_, answer)| answer.is_ok());
        reader.until(taken.map(|(event, _)| event.id)).await;
        let come: HashSet<EventId> = reader.counts().into_keys().collect();
        for (event, answer) in &self.0 {
            let certain =
                matches!(answer, Err(Refusal::Down(_) | Refusal::Retry(..) | Refusal::Held));
            let there = come.contains(&event.id);
            assert!(!(certain && there), "{answer:?}, and it is there");
            assert!(!matches!(answer, Err(Refusal::Reject(_))), "{answer:?}: it would be dead");
        }
        assert!(self.refused() > 0 || !passage.quay.traits().keeps, "nobody noticed the kill");
        let events: Vec<Event> = self.0.into_iter().map(|(event, _)| event).collect();
        in_order(&events, &reader.events());
    }
}
