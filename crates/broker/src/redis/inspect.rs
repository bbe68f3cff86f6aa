//! A look at a server: what its receipts are worth, what its settings risk, how full it is.
//!
//! Replication is asynchronous, so no setting makes a receipt the word of two machines.

use std::collections::{BTreeSet, HashMap};

use event::{Durability, Finding, Gauge, Grade, Inspection, Level};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamInfoGroup, StreamInfoGroupsReply};
use redis::{RedisError, RedisResult, cmd, pipe};

use super::dead_stream;
use crate::rounds::Rounds;

/// What is asked of the settings.
const ASKED: [&str; 5] =
    ["appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write"];
/// Streams that are asked for at once, at the most.
const PAGE: usize = 100;
/// How the policies begin by which a server drops keys when it is full, and refuses nothing.
const EVICTS: [&str; 2] = ["allkeys-", "volatile-"];
/// How full memory may be.
const FULL: f64 = 0.8;

/// What a look at the server brought.
#[derive(Debug)]
pub(super) struct Worth {
    pub(super) seeing: Inspection,
    /// How near it is to where it refuses. One that drops keys instead is full by design.
    pub(super) full: Option<f64>,
}

/// Looks at the server.
pub(super) async fn worth(connection: &mut MultiplexedConnection) -> RedisResult<Worth> {
    let text: String = cmd("INFO").query_async(connection).await?;
    let info = read(&text);
    let mut asking = cmd("CONFIG");
    asking.arg("GET");
    let settings = asking.arg(&ASKED[..]).query_async(connection).await;
    let settings: Option<HashMap<String, String>> = settings.ok();
    Ok(judge(&info, settings.as_ref()))
}

/// Adds what streams tell. One that is named and not there is told, too.
pub(super) async fn levels(
    connection: &mut MultiplexedConnection,
    streams: BTreeSet<String>,
    named: &BTreeSet<String>,
    rounds: &Rounds,
    seeing: &mut Inspection,
) {
    let mut round = rounds.begin(streams);
    while let Some(page) = round.next(PAGE) {
        let (mut groups, mut lengths) = (pipe(), pipe());
        groups.ignore_errors();
        lengths.ignore_errors();
        for stream in &page {
            groups.cmd("XINFO").arg("GROUPS").arg(stream);
            lengths.cmd("XLEN").arg(dead_stream(stream));
        }
        let told = groups.query_async(connection).await;
        let told: Vec<RedisResult<StreamInfoGroupsReply>> = told.unwrap_or_default();
        let dead = lengths.query_async(connection).await;
        let dead: Vec<RedisResult<u64>> = dead.unwrap_or_default();
        for ((stream, told), dead) in page.iter().zip(told).zip(dead) {
            if told.as_ref().is_err_and(absent) && named.contains(stream) {
                let detail = "it is not there yet: its first event makes it";
                let what = format!("stream {stream}");
                seeing.findings.push(Finding::new(Grade::Good, what, detail));
            }
            let mut levels = behind(stream, told);
            levels.extend(dead.ok().map(|dead| Level {
                gauge: Gauge::Dead,
                topic: dead_stream(stream),
                group: String::new(),
                value: dead as f64,
            }));
            round.note(stream, levels);
        }
    }
    round.end("streams", seeing);
}

fn absent(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("no such key"))
}

/// Returns how far the groups of a stream are behind; one that is not there has none.
fn behind(stream: &str, told: RedisResult<StreamInfoGroupsReply>) -> Vec<Level> {
    let groups = told.into_iter().flat_map(|told| told.groups);
    // After entries were deleted, Redis no longer knows how many are left to read.
    let level = |group: StreamInfoGroup| {
        let (topic, value) = (stream.to_owned(), (group.lag? + group.pending) as f64);
        Some(Level { gauge: Gauge::Lag, topic, group: group.name, value })
    };
    groups.filter_map(level).collect()
}

/// Reads what `INFO` says.
fn read(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

type Told = HashMap<String, String>;

fn judge(info: &Told, settings: Option<&Told>) -> Worth {
    let told = |name: &str| info.get(name).map(String::as_str).unwrap_or_default();
    let set = |name: &str| {
        settings.and_then(|settings| settings.get(name)).map(String::as_str).unwrap_or_default()
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let (durability, mut findings) = disk(told, set, settings.is_some());
    let mut say = |grade, what: &str, detail: String| {
        findings.push(Finding::new(grade, what, detail));
    };
    if told("role") == "slave" {
        let detail = "this is a replica and takes nothing in: name the primary in the url";
        say(Grade::Bad, "role", detail.to_owned());
    }
    let limit = number(told("maxmemory")).or_else(|| number(set("maxmemory")));
    let policy = if set("maxmemory-policy").is_empty() {
        told("maxmemory_policy")
    } else {
        set("maxmemory-policy")
    };
    if limit.is_some() && policy.starts_with("allkeys") {
        let detail = format!(
            "{policy}: at its limit of memory it drops whole streams, read or not: set it to \
             noeviction"
        );
        say(Grade::Warn, "maxmemory-policy", detail);
    }
    if number(told("connected_slaves")).is_some() && number(set("min-replicas-to-write")).is_none()
    {
        let detail = "replication is not waited for: a failover loses what the replica has not \
                      got; set min-replicas-to-write to 1, which bounds it, and use the inbox";
        say(Grade::Warn, "min-replicas-to-write", detail.to_owned());
    }
    let evicts = limit.is_some() && EVICTS.iter().any(|start| policy.starts_with(start));
    let (mut levels, mut full) = (Vec::new(), None);
    let most = limit.or_else(|| number(told("total_system_memory")));
    if let (Some(used), Some(most)) = (number(told("used_memory")), most) {
        let (topic, group, value) = (String::new(), String::new(), used / most);
        levels.push(Level { gauge: Gauge::Disk, topic, group, value });
        full = Some(value).filter(|_| !evicts);
        if full.is_some_and(|full| full > FULL) {
            let detail = format!(
                "{:.0} % of the memory that it may have is used; once it is full, nothing is taken \
                 in: trim what every group has read, or raise maxmemory",
                value * 100.0
            );
            say(Grade::Warn, "memory", detail);
        }
    }
    Worth { seeing: Inspection { durability, findings, levels }, full }
}

/// Judges how it writes to its disk.
fn disk<'a>(
    told: impl Fn(&str) -> &'a str,
    set: impl Fn(&str) -> &'a str,
    asked: bool,
) -> (Durability, Vec<Finding>) {
    const ALWAYS: &str = "set appendonly yes and appendfsync always";
    let mut findings = Vec::new();
    let mut say = |grade, what: &str, detail: String| {
        findings.push(Finding::new(grade, what, detail));
    };
    let log = told("aof_enabled") == "1" || set("appendonly") == "yes";
    if log && !matches!(told("aof_last_write_status"), "" | "ok") {
        let detail = "its last write to the disk failed: look at its log".to_owned();
        say(Grade::Bad, "appendonly", detail);
    }
    let class = match (log, set("appendfsync")) {
        (false, _) => {
            let detail = format!("off: a restart loses what came since the last dump; {ALWAYS}");
            say(Grade::Warn, "appendonly", detail);
            Durability::BestEffort
        }
        (true, "always") => Durability::Durable,
        (true, "everysec") => {
            let detail = "everysec: a power cut loses a second or more of what was acknowledged; \
                          set it to always";
            say(Grade::Warn, "appendfsync", detail.to_owned());
            Durability::BestEffort
        }
        (true, "no") => {
            let detail = "no: a power cut loses what the system had not written yet; set it to \
                          always";
            say(Grade::Warn, "appendfsync", detail.to_owned());
            Durability::BestEffort
        }
        (true, _) => {
            let why = if asked { "it does not tell" } else { "this user may not ask" };
            let detail = format!("{why} (CONFIG GET): nobody knows what a power cut loses");
            say(Grade::Warn, "appendfsync", detail);
            Durability::BestEffort
        }
    };
    (class, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_at(info: &str, settings: &[(&str, &str)]) -> Inspection {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        judge(&read(info), Some(&settings.collect())).seeing
    }

    fn words(seen: &Inspection) -> Vec<&str> {
        seen.findings.iter().map(|finding| finding.what.as_str()).collect()
    }

    #[test]
    fn only_a_log_that_is_written_through_is_durable() {
        let log = "# Persistence\r\naof_enabled:1\r\naof_last_write_status:ok\r\n";
        let always = look_at(log, &[("appendonly", "yes"), ("appendfsync", "always")]);
        assert_eq!((always.durability, always.findings.len()), (Durability::Durable, 0));
        for fsync in ["everysec", "no", ""] {
            let seen = look_at(log, &[("appendonly", "yes"), ("appendfsync", fsync)]);
            assert_eq!(seen.durability, Durability::BestEffort, "{fsync}");
            assert_eq!(words(&seen), ["appendfsync"]);
        }
        let off = look_at("aof_enabled:0", &[("appendonly", "no"), ("appendfsync", "always")]);
        assert_eq!((off.durability, words(&off)), (Durability::BestEffort, vec!["appendonly"]));
        let closed = judge(&read(log), None).seeing;
        assert_eq!(closed.durability, Durability::BestEffort);
        assert!(closed.findings[0].detail.contains("may not ask"), "{closed:?}");
    }

    #[test]
    fn what_loses_events_is_told_and_memory_is_the_watermark() {
        let info = "aof_enabled:1\nused_memory:90\nmaxmemory:100\nmaxmemory_policy:allkeys-lru\n\
                    role:slave\nconnected_slaves:1\ntotal_system_memory:1000";
        let settings = [("appendfsync", "always"), ("min-replicas-to-write", "0")];
        let seen = look_at(info, &settings);
        assert_eq!(words(&seen), ["role", "maxmemory-policy", "min-replicas-to-write"]);
        assert_eq!(seen.levels[0].value, 0.9);
        let unbounded =
            look_at("aof_enabled:1\nused_memory:90\ntotal_system_memory:1000", &settings);
        assert_eq!((unbounded.levels[0].value, unbounded.findings.len()), (0.09, 0));
    }

    #[test]
    fn a_server_that_drops_keys_at_its_limit_is_full_by_design() {
        let look = |policy: &str, limit: u32| {
            let info = format!(
                "aof_enabled:1\nused_memory:90\nmaxmemory:{limit}\nmaxmemory_policy:{policy}\n\
                 total_system_memory:100"
            );
            let settings = [("appendfsync".to_owned(), "always".to_owned())].into();
            let Worth { seeing, full } = judge(&read(&info), Some(&settings));
            assert_eq!(seeing.levels[0].value, 0.9, "it is told in any case");
            (full, words(&seeing).contains(&"memory"))
        };
        assert_eq!(look("noeviction", 100), (Some(0.9), true));
        assert_eq!(look("allkeys-lru", 100), (None, false));
        assert_eq!(look("volatile-ttl", 100), (None, false));
        assert_eq!(look("allkeys-lru", 0), (Some(0.9), true), "without a limit it drops nothing");
    }
}
