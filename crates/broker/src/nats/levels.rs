//! How far the groups of streams are behind, and how many events they have given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Info, Stream};
use event::{Finding, Gauge, Grade, Inspection, Level};
use futures_util::TryStreamExt;
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
    let mut silent = Vec::new();
    let mut round = rounds.begin(keepers.chain(groups.iter().cloned()).collect());
    while let Some(page) = round.next(1) {
        for name in page {
            let (mut levels, mut whole) = (Vec::new(), false);
            if let Ok(stream) = context.get_stream_no_info(&name).await {
                whole = true;
                if groups.contains(&name) {
                    let told = timeout(TELL, behind(&name, &stream, &mut levels)).await;
                    whole &= told.unwrap_or_default().is_some();
                }
                if let Some(info) = all.get(&name) {
                    let told = timeout(TELL, dead(&stream, info, ways, &mut levels)).await;
                    whole &= told.unwrap_or_default().is_some();
                }
            }
            match whole {
                true => round.note(&name, levels),
                false => {
                    round.note_some(&name, levels);
                    silent.push(name);
                }
            }
        }
    }
    seeing.findings.extend(untold(&silent));
    round.end("streams", seeing);
}

fn untold(silent: &[String]) -> Option<Finding> {
    let first = silent.first()?;
    let detail = format!(
        "{} of them, {first} for one, did not tell everything, so what groups lack and \
         what is dead there is what they told before, if anything",
        silent.len()
    );
    Some(Finding::new(Grade::Warn, "streams", detail))
}

/// Adds what each group lacks; `None` if they are not all.
async fn behind(topic: &str, stream: &Stream<()>, levels: &mut Vec<Level>) -> Option<()> {
    let mut consumers = stream.consumers();
    while let Some(consumer) = consumers.try_next().await.ok()? {
        let mut say = |gauge, value: f64| {
            let (topic, group) = (topic.to_owned(), consumer.name.clone());
            levels.push(Level { gauge, topic, group, value });
        };
        say(Gauge::Lag, consumer.num_pending as f64 + consumer.num_ack_pending as f64);
        say(Gauge::Retry, consumer.num_redelivered as f64);
    }
    Some(())
}

/// Adds what groups gave up; `None` if that is not all. A subject that is known is told though it
/// has none.
async fn dead(
    stream: &Stream<()>,
    info: &Info,
    ways: &Ways<'_>,
    levels: &mut Vec<Level>,
) -> Option<()> {
    let mut say = |topic: String, count: usize| {
        let (gauge, group, value) = (Gauge::Dead, String::new(), count as f64);
        levels.push(Level { gauge, topic, group, value });
    };
    let filters = &info.config.subjects;
    let known = ways.subjects();
    let known = known.iter().map(|subject| dead_subject(subject));
    let known = known.filter(|subject| filters.iter().any(|filter| takes(filter, subject)));
    let mut empty: BTreeSet<String> = known.collect();
    let asked = if ways.leads.open() { graves(filters) } else { empty.clone() };
    for filter in asked {
        let counted = stream.info_with_subjects(&filter).await.ok()?;
        let counted: Vec<(String, usize)> = counted.try_collect().await.ok()?;
        for (subject, count) in counted {
            if empty.remove(&subject) || of(&subject).is_some_and(|it| ways.have(it)) {
                say(subject, count);
            }
        }
    }
    empty.into_iter().for_each(|subject| say(subject, 0));
    Some(())
}

/// Returns the subject whose dead are kept here.
fn of(dead: &str) -> Option<&str> {
    let subject = dead.rsplit_once('.')?.0;
    (dead_subject(subject) == dead).then_some(subject)
}
