//! How far the groups of streams are behind, and how many events they have given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Info, Stream};
use event::{Gauge, Inspection, Level};
use futures_util::{StreamExt, TryStreamExt};
use tokio::time::timeout;

use super::dead_subject;
use super::streams::{Ways, graves, is_own, takes};
use crate::rounds::Rounds;

/// How long a stream may take to tell.
const TELL: Duration = Duration::from_secs(2);

/// Adds the levels: of groups, those of some streams; of the dead, those of any.
pub(super) async fn levels(
    context: &Context,
    ways: &Ways<'_>,
    all: &BTreeMap<String, Info>,
    groups: BTreeSet<String>,
    rounds: &Rounds,
    seeing: &mut Inspection,
) {
    let keeps = |(name, info): &(&String, &Info)| {
        !is_own(name) && !graves(&info.config.subjects).is_empty()
    };
    let keepers = all.iter().filter(keeps).map(|(name, _)| name.clone());
    let mut round = rounds.begin(keepers.chain(groups.iter().cloned()).collect());
    while let Some(page) = round.next(1) {
        for name in page {
            let Ok(stream) = context.get_stream_no_info(&name).await else { continue };
            let mut levels = Vec::new();
            if groups.contains(&name) {
                // What was told before the time was over counts.
                let _ = timeout(TELL, behind(&name, &stream, &mut levels)).await;
            }
            if let Some(info) = all.get(&name) {
                let _ = timeout(TELL, dead(&stream, info, ways, &mut levels)).await;
            }
            round.note(&name, levels);
        }
    }
    round.end("streams", seeing);
}

async fn behind(topic: &str, stream: &Stream<()>, levels: &mut Vec<Level>) {
    let mut consumers = stream.consumers();
    while let Ok(Some(consumer)) = consumers.try_next().await {
        let mut say = |gauge, value: f64| {
            let (topic, group) = (topic.to_owned(), consumer.name.clone());
            levels.push(Level { gauge, topic, group, value });
        };
        say(Gauge::Lag, consumer.num_pending as f64 + consumer.num_ack_pending as f64);
        say(Gauge::Retry, consumer.num_redelivered as f64);
    }
}

/// Counts what groups gave up. A subject that is known is told though it has none.
async fn dead(stream: &Stream<()>, info: &Info, ways: &Ways<'_>, levels: &mut Vec<Level>) {
    let filters = &info.config.subjects;
    let known = ways.subjects();
    let known = known.iter().map(|subject| dead_subject(subject));
    let known = known.filter(|subject| filters.iter().any(|filter| takes(filter, subject)));
    let mut counts: BTreeMap<String, usize> = known.map(|subject| (subject, 0)).collect();
    let asked: BTreeSet<String> = match ways.leads.open() {
        true => graves(filters),
        false => counts.keys().cloned().collect(),
    };
    for filter in asked {
        let Ok(counted) = stream.info_with_subjects(&filter).await else { continue };
        for (subject, count) in counted.collect::<Vec<_>>().await.into_iter().flatten() {
            if counts.contains_key(&subject) || of(&subject).is_some_and(|it| ways.have(it)) {
                counts.insert(subject, count);
            }
        }
    }
    for (topic, count) in counts {
        let (gauge, group, value) = (Gauge::Dead, String::new(), count as f64);
        levels.push(Level { gauge, topic, group, value });
    }
}

/// Returns the subject whose dead are kept here.
fn of(dead: &str) -> Option<&str> {
    let subject = dead.rsplit_once('.')?.0;
    (dead_subject(subject) == dead).then_some(subject)
}
