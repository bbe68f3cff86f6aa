//! A look at JetStream: what its receipts are worth, what its settings risk, how full it is.
//!
//! How a server writes to its disk is told to its system account only, or to an account that
//! imports the question from there. Where nobody tells, the server's default is assumed.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::StatusCode;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, PersistenceMode, RetentionPolicy, StorageType,
};
use event::{Cause, Code, Durability, Finding, Gauge, Grade, Inspection, Level, Refusal};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::absence::{self, Absence};
use super::levels;
use super::streams::{self, Ways};
use crate::rounds::Rounds;

/// What tells how servers write to their disks.
const ASKED: &str = "$SYS.REQ.SERVER.PING.JSZ";
/// How long the servers of a cluster may take to tell.
const TELL: Duration = Duration::from_millis(500);
/// Within this time an event is offered again with its id, at the most.
const REPEATS: Duration = Duration::from_secs(120);
/// Subjects whose streams are asked for, at the most.
const ASKED_FOR: usize = 16;
/// How full storage may be.
const FULL: f64 = 0.8;

/// Looks at the streams that take the events, and at what they tell of their load if there are
/// rounds for it.
pub(super) async fn look(
    context: &Context,
    host: &str,
    ways: &Ways<'_>,
    rounds: Option<&Rounds>,
) -> Result<Inspection, Refusal> {
    let disk = ask(context).await;
    let mut seeing = Inspection::of(Durability::Replicated);
    storage(context, &disk, &mut seeing).await.map_err(|why| silent(host, &why))?;
    let all: Vec<Info> = context.streams().try_collect().await.map_err(|why| silent(host, &why))?;
    let all: BTreeMap<String, Info> =
        all.into_iter().map(|info| (info.config.name.clone(), info)).collect();
    let away = away(context, ways, &all).await;
    let streams = ways.pick(&all, &away, &mut seeing);
    if let (true, Some((what, stream))) = (streams.is_empty(), away.first_key_value()) {
        let detail = format!("{host}: {what}: {}", streams::gone(stream));
        return Err(Refusal::Down(Cause::new(Code::SinkDown, detail)));
    }
    if streams.is_empty() {
        let detail = "no stream takes the events: make one, with file storage";
        seeing.findings.push(Finding::new(Grade::Bad, "stream", detail));
        seeing.durability = Durability::BestEffort;
    }
    for (name, info) in &streams {
        let (class, findings) = judge(&info.config, disk.synced);
        seeing.durability = seeing.durability.min(class);
        // A stream of others that takes nothing is in nobody's way here.
        let ours = ways.name(&info.config.subjects);
        seeing.findings.extend(findings.into_iter().map(|it| if ours { it } else { milder(it) }));
        seeing.findings.extend(replicas(name, info));
    }
    if let Some(rounds) = rounds {
        let groups = streams.keys().map(|name| (*name).to_owned()).collect();
        levels::levels(context, ways, &all, groups, rounds, &mut seeing).await;
    }
    Ok(seeing)
}

/// Finds the streams that JetStream knows and that do not tell: by their names if one is named,
/// else by the subjects that they take.
async fn away(
    context: &Context,
    ways: &Ways<'_>,
    all: &BTreeMap<String, Info>,
) -> BTreeMap<String, String> {
    let mut away = BTreeMap::new();
    if let Some(stream) = ways.stream {
        if !all.contains_key(stream) && absence::is_known(context, stream).await {
            away.insert(stream.to_owned(), stream.to_owned());
        }
        return away;
    }
    for subject in ways.untaken(all).into_iter().take(ASKED_FOR) {
        if let Absence::Away(stream) = absence::stream_of(context, &subject).await {
            away.insert(subject, stream);
        }
    }
    away
}

fn milder(finding: Finding) -> Finding {
    Finding { grade: finding.grade.min(Grade::Warn), ..finding }
}

/// What servers tell of their disks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Disk {
    /// Whether every server that told writes through to its disk; `None` if nobody told.
    synced: Option<bool>,
    /// How full the fullest of them is.
    used: Option<f64>,
}

async fn ask(context: &Context) -> Disk {
    let client = context.client();
    let inbox = client.new_inbox();
    let Ok(mut answers) = client.subscribe(inbox.clone()).await else { return Disk::default() };
    if client.publish_with_reply(ASKED, inbox, "".into()).await.is_err() {
        return Disk::default();
    }
    let (until, mut disk) = (Instant::now() + TELL, Disk::default());
    while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        if let Ok(told) = serde_json::from_slice::<Value>(&answer.payload) {
            disk.hear(&told["data"]);
        }
    }
    disk
}

impl Disk {
    fn hear(&mut self, told: &Value) {
        let synced = told["config"]["sync_always"].as_bool().unwrap_or_default();
        self.synced = Some(self.synced.unwrap_or(true) && synced);
        let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        if let Some(most) = number(&told["config"]["max_storage"]) {
            let used = told["storage"].as_f64().unwrap_or_default() / most;
            self.used = Some(self.used.map_or(used, |before| before.max(used)));
        }
    }
}

type Told<T> = Result<T, async_nats::Error>;

async fn storage(context: &Context, disk: &Disk, seeing: &mut Inspection) -> Told<()> {
    let account = context.query_account().await?;
    let limit = account.limits.max_storage.filter(|most| *most > 0);
    let of_account = limit.map(|most| account.storage as f64 / most as f64);
    let Some(value) = of_account.into_iter().chain(disk.used).reduce(f64::max) else {
        return Ok(());
    };
    let (topic, group) = (String::new(), String::new());
    seeing.levels.push(Level { gauge: Gauge::Disk, topic, group, value });
    if value > FULL {
        let detail = format!(
            "{:.0} % of the storage that JetStream may have is used; once it is full, nothing is \
             taken in: raise max_file of the server or max_storage of the account, or remove what \
             nobody needs",
            value * 100.0
        );
        seeing.findings.push(Finding::new(Grade::Warn, "storage", detail));
    }
    Ok(())
}

/// Judges the settings of a stream.
fn judge(config: &Config, synced: Option<bool>) -> (Durability, Vec<Finding>) {
    let name = format!("stream {}", config.name);
    let (class, risk) = class(config, synced);
    let warn = |detail: &&'static str| Finding::new(Grade::Warn, name.clone(), *detail);
    let bad = |detail: &&'static str| Finding::new(Grade::Bad, name.clone(), *detail);
    let losses = losses(config);
    let mut findings: Vec<Finding> = risk.iter().chain(&losses).map(warn).collect();
    findings.extend(silences(config).iter().map(bad));
    (class, findings)
}

/// Returns what the receipts of a stream are worth, and what they risk.
fn class(config: &Config, synced: Option<bool>) -> (Durability, Option<&'static str>) {
    let memory = config.storage == StorageType::Memory;
    let lazy = config.persist_mode == Some(PersistenceMode::Async);
    let (class, risk) = match synced {
        _ if memory => (
            Durability::BestEffort,
            "it is kept in memory only: a restart loses it; set its storage to file",
        ),
        _ if lazy => (
            Durability::BestEffort,
            "persist_mode is async: receipts come before anything is written; set it to default",
        ),
        Some(true) if config.num_replicas > 1 => return (Durability::Replicated, None),
        Some(true) => return (Durability::Durable, None),
        _ if config.num_replicas > 1 => (
            Durability::Replicated,
            "its servers write to their disks every 2 minutes unless sync_interval says \
             otherwise: a power cut of several at once loses what they acknowledged; set \
             sync_interval: always",
        ),
        Some(false) => (
            Durability::BestEffort,
            "one replica, and the server writes to its disk only now and then: a power cut loses \
             what it acknowledged; set sync_interval: always, or three replicas",
        ),
        None => (
            Durability::BestEffort,
            "one replica, and this account is not told whether the server writes to its disk at \
             once (sync_interval: always): set that, and let the account import \
             $SYS.REQ.SERVER.PING.JSZ; or make three replicas",
        ),
    };
    (class, Some(risk))
}

/// Returns by which settings a stream loses what it has taken.
fn losses(config: &Config) -> Vec<&'static str> {
    let limits = [config.max_bytes, config.max_messages, config.max_messages_per_subject];
    let limited = limits.iter().any(|limit| *limit > 0);
    let said = [
        (
            config.discard == DiscardPolicy::Old && limited,
            "at its limit it drops the oldest, taken in or not: set discard to new",
        ),
        (
            !config.max_age.is_zero(),
            "max_age drops events that nobody has taken in by then: make it longer than any \
             consumer may be away, or 0",
        ),
        (
            config.duplicate_window < REPEATS,
            "duplicate_window is shorter than 2 minutes: what is offered again later is stored \
             twice",
        ),
        (
            config.retention == RetentionPolicy::Interest,
            "its retention is interest: what comes while no consumer is defined is acknowledged \
             and dropped; set it to limits",
        ),
    ];
    said.into_iter().filter(|(so, _)| *so).map(|(_, detail)| detail).collect()
}

/// Returns by which settings a stream takes nothing, or never says so.
fn silences(config: &Config) -> Vec<&'static str> {
    let said = [
        (
            config.no_ack,
            "no_ack is set: it never acknowledges, so nothing is ever published; unset it",
        ),
        (config.sealed, "it is sealed and takes nothing in: make another"),
    ];
    said.into_iter().filter(|(so, _)| *so).map(|(_, detail)| detail).collect()
}

fn replicas(name: &str, info: &Info) -> Vec<Finding> {
    let peers = info.cluster.iter().flat_map(|cluster| &cluster.replicas);
    let behind = peers.filter(|peer| peer.offline || !peer.current);
    let say = |peer: &str| {
        let detail = format!("its replica on {peer} is offline or behind: bring it back");
        Finding::new(Grade::Warn, format!("stream {name}"), detail)
    };
    behind.map(|peer| say(&peer.name)).collect()
}

fn silent(host: &str, why: &dyn std::fmt::Display) -> Refusal {
    let detail = format!(
        "{host}: it does not tell: {why}; this user needs to publish to $JS.API.INFO, \
         $JS.API.STREAM.> and $JS.API.CONSUMER.LIST.>"
    );
    Refusal::Retry(Cause::new(Code::SinkBroken, detail), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let name = "ORDERS".to_owned();
        Config { name, num_replicas: 1, duplicate_window: REPEATS, ..Config::default() }
    }

    #[test]
    fn a_class_is_what_the_settings_keep() {
        use Durability::{BestEffort, Durable, Replicated};
        let memory = Config { storage: StorageType::Memory, num_replicas: 3, ..config() };
        let lazy = Config { persist_mode: Some(PersistenceMode::Async), ..config() };
        let three = Config { num_replicas: 3, ..config() };
        let cases = [
            (config(), Some(true), Durable, 0),
            (config(), Some(false), BestEffort, 1),
            (config(), None, BestEffort, 1),
            (three.clone(), Some(true), Replicated, 0),
            (three, None, Replicated, 1),
            (memory, Some(true), BestEffort, 1),
            (lazy, Some(true), BestEffort, 1),
        ];
        for (config, synced, class, found) in cases {
            let judged = judge(&config, synced);
            assert_eq!((judged.0, judged.1.len()), (class, found), "{judged:?}");
        }
    }

    #[test]
    fn what_loses_events_is_told() {
        let cases = [
            (Config { max_bytes: 1 << 30, ..config() }, "discard"),
            (Config { max_age: REPEATS, ..config() }, "max_age"),
            (Config { duplicate_window: REPEATS / 2, ..config() }, "duplicate_window"),
            (Config { retention: RetentionPolicy::Interest, ..config() }, "interest"),
            (Config { no_ack: true, ..config() }, "no_ack"),
            (Config { sealed: true, ..config() }, "sealed"),
        ];
        for (config, word) in cases {
            let (_, findings) = judge(&config, Some(true));
            assert!(findings.len() == 1 && findings[0].detail.contains(word), "{findings:?}");
        }
        let sealed = judge(&Config { sealed: true, ..config() }, Some(true)).1.remove(0);
        assert_eq!((sealed.grade, milder(sealed).grade), (Grade::Bad, Grade::Warn));
        let full = Config { max_bytes: 1 << 30, discard: DiscardPolicy::New, ..config() };
        assert_eq!(judge(&full, Some(true)).1, []);
    }

    #[test]
    fn the_laziest_and_the_fullest_of_several_servers_count() {
        let mut disk = Disk::default();
        let tell = |storage: u64, always: bool| {
            let config = serde_json::json!({ "max_storage": 100, "sync_always": always });
            serde_json::json!({ "storage": storage, "config": config })
        };
        disk.hear(&tell(10, true));
        assert_eq!(disk, Disk { synced: Some(true), used: Some(0.1) });
        disk.hear(&tell(50, false));
        disk.hear(&tell(20, true));
        assert_eq!(disk, Disk { synced: Some(false), used: Some(0.5) });
    }
}
