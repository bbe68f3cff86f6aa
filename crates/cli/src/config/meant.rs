//! A config as it is meant: every value there, of the right type, secrets read.

use std::net::SocketAddr;
use std::time::Duration;

use event::{Backoff, Durability, Order, Pattern};
use store::Strategy;

use super::budget;
use super::place::{At, Problems};
use super::sealed::{Sealed, Url};
use super::section::Head;
use super::sinks::Kind;
use super::written::{self, Written};

/// A config that can be acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// How many connections are made to one server at the most.
    pub(crate) connections: usize,
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) routes: Vec<Route>,
    pub(crate) policy: event::Policy,
    pub(crate) chores: Chores,
    pub(crate) admin: Admin,
    pub(crate) log: Log,
}

/// An outbox to relay from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outbox {
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) table: String,
    pub(crate) batch: usize,
    pub(crate) bytes: usize,
    pub(crate) lease: Duration,
    pub(crate) idle: Duration,
    pub(crate) turns: usize,
    pub(crate) drain: Duration,
    pub(crate) history: bool,
    pub(crate) strategy: Strategy,
    pub(crate) shards: u16,
    pub(crate) connections: u16,
    pub(crate) listen: bool,
    pub(crate) order: Order,
    pub(crate) keep_sent: Duration,
    pub(crate) keep_inbox: Duration,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sink {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Which topics go to which sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) topic: Pattern,
    pub(crate) sink: String,
    pub(crate) outbox: Option<String>,
    /// What a receipt of the sink must be worth at the least.
    pub(crate) durability: Option<Durability>,
    /// How many events a consumer group may be behind.
    pub(crate) lag_limit: Option<usize>,
}

/// Upkeep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chores {
    pub(crate) every: Duration,
    pub(crate) step: usize,
    pub(crate) lease: Duration,
}

/// The console and what else is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admin {
    pub(crate) off: bool,
    pub(crate) listen: SocketAddr,
    pub(crate) token: Option<Sealed>,
    pub(crate) hosts: Vec<String>,
    pub(crate) sample: Duration,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) json: bool,
    pub(crate) filter: String,
}

impl Config {
    /// Gives the written config its meaning. `None` only if a problem was added.
    pub(crate) fn of(written: &Written, problems: &mut Problems) -> Option<Config> {
        let outboxes: Vec<_> = written.outboxes.iter().map(|w| outbox(w, problems)).collect();
        let sinks: Vec<_> = written.sinks.iter().map(|w| sink(w, problems)).collect();
        let routes: Vec<_> = written.routes.iter().map(|w| route(w, problems)).collect();
        let mut outboxes: Option<Vec<Outbox>> = outboxes.into_iter().collect();
        let mut server = Need::new("[server]", &written.server.head, problems);
        let connections = server.of("connections", &written.server.connections);
        if let (Some(outboxes), Some(budget), Some(first)) =
            (&mut outboxes, &written.server.connections, written.outboxes.first())
        {
            budget::divide(outboxes, budget, &first.head.place, problems);
        }
        let policy = policy(written, problems);
        let (chores, admin) = (chores(written, problems), admin(written, problems));
        let mut log = Need::new("[log]", &written.log.head, problems);
        let format = log.of("format", &written.log.format);
        let filter = log.read("filter", &written.log.filter, |text| filter(text));
        Some(Config {
            connections: connections?,
            outboxes: outboxes?,
            sinks: sinks.into_iter().collect::<Option<_>>()?,
            routes: routes.into_iter().collect::<Option<_>>()?,
            policy: policy?,
            chores: chores?,
            admin: admin?,
            log: Log { json: format? == "json", filter: filter? },
        })
    }
}

/// Takes values that must be there out of one section.
struct Need<'a> {
    title: String,
    head: &'a Head,
    problems: &'a mut Problems,
}

impl<'a> Need<'a> {
    fn new(title: impl Into<String>, head: &'a Head, problems: &'a mut Problems) -> Need<'a> {
        Need { title: title.into(), head, problems }
    }

    fn of<T: Clone>(&mut self, key: &'static str, value: &Option<At<T>>) -> Option<T> {
        if value.is_none() && !self.head.wrong.contains(&key) {
            self.problems.add(&self.head.place, format!("{} needs `{key}`", self.title));
        }
        value.as_ref().map(|at| at.value.clone())
    }

    fn read<T: Clone, M>(
        &mut self,
        key: &'static str,
        value: &Option<At<T>>,
        read: impl FnOnce(&T) -> Result<M, String>,
    ) -> Option<M> {
        self.of(key, value)?;
        let at = value.as_ref()?;
        match read(&at.value) {
            Ok(meant) => Some(meant),
            Err(wrong) => {
                self.problems.add(&at.place, format!("`{key}` in {}: {wrong}", self.title));
                None
            }
        }
    }
}

fn outbox(written: &written::Outbox, problems: &mut Problems) -> Option<Outbox> {
    let title = format!("[outbox.{}]", written.section);
    let mut need = Need::new(title, &written.head, problems);
    let url = need.read("url", &written.url, |text| {
        let url = Url::read(text)?;
        store::home(url.reveal()).map_err(|error| error.cause().detail.clone())?;
        Ok(url)
    });
    let table = need.of("table", &written.table);
    let (batch, bytes) = (need.of("batch", &written.batch), need.of("bytes", &written.bytes));
    let (lease, idle) = (need.of("lease", &written.lease), need.of("idle", &written.idle));
    let (turns, drain) = (need.of("turns", &written.turns), need.of("drain", &written.drain));
    let (history, order) = (need.of("history", &written.history), need.of("order", &written.order));
    let strategy = need.read("strategy", &written.strategy, |name| {
        let strategy = Strategy::named(name).expect("the section takes only names of strategies");
        let refused = |url: &Url| store::check_strategy(url.reveal(), strategy).err();
        match url.as_ref().and_then(refused) {
            Some(error) => Err(error.cause().detail.clone()),
            None => Ok(strategy),
        }
    });
    let shards = need.read("shards", &written.shards, |count| match u16::try_from(*count) {
        Ok(shards @ ..=1024) if shards.is_power_of_two() => Ok(shards),
        _ => Err(format!("{count} is not one of 1, 2, 4, … up to 1024")),
    });
    let connections = need.read("connections", &written.connections, |count| {
        let most = u16::try_from(*count).ok().filter(|count| (2..=1000).contains(count));
        most.ok_or_else(|| format!("{count} is not between 2 and 1000"))
    });
    let listen = need.read("listen", &written.listen, |listen| {
        let refused = |url: &Url| store::check_listen(url.reveal()).err();
        match url.as_ref().filter(|_| *listen).and_then(refused) {
            Some(error) => Err(error.cause().detail.clone()),
            None => Ok(*listen),
        }
    });
    let keep_sent = need.of("keep_sent", &written.keep_sent);
    let keep_inbox = need.of("keep_inbox", &written.keep_inbox);
    Some(Outbox {
        name: written.name.clone(),
        url: url?,
        table: table?,
        batch: batch?,
        bytes: bytes?,
        lease: lease?,
        idle: idle?,
        turns: turns?,
        drain: drain?,
        history: history?,
        strategy: strategy?,
        shards: shards?,
        connections: connections?,
        listen: listen?,
        order: if order? == "pass" { Order::Pass } else { Order::Hold },
        keep_sent: keep_sent?,
        keep_inbox: keep_inbox?,
    })
}

fn sink(written: &written::Sink, problems: &mut Problems) -> Option<Sink> {
    let title = format!("[sink.{}]", written.name);
    Need::new(title, &written.head, problems).of("kind", &written.kind)?;
    Some(Sink { name: written.name.clone(), kind: written.meant.clone()? })
}

fn route(written: &written::Route, problems: &mut Problems) -> Option<Route> {
    let mut need = Need::new("[[route]]", &written.head, problems);
    let topic = need.read("topic", &written.topic, |text| pattern(text));
    let sink = need.of("sink", &written.sink);
    let outbox = written.outbox.as_ref().map(|at| at.value.clone());
    let class = |at: &At<&str>| at.value.parse().expect("the section takes only classes");
    let durability = written.durability.as_ref().map(class);
    let lag_limit = written.lag_limit.as_ref().and_then(|_| {
        need.read("lag_limit", &written.lag_limit, |limit| match limit {
            0 => {
                Err("it must be at least 1; without the key, no consumer is waited for".to_owned())
            }
            limit => Ok(*limit),
        })
    });
    Some(Route { topic: topic?, sink: sink?, outbox, durability, lag_limit })
}

fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse().map_err(|wrong: event::PatternError| wrong.to_string())
}

fn policy(written: &Written, problems: &mut Problems) -> Option<event::Policy> {
    let mut need = Need::new("[policy]", &written.policy.head, problems);
    let attempts = need.of("attempts", &written.policy.attempts).map(patience);
    let base = need.of("backoff", &written.policy.backoff);
    let cap = need.of("backoff_cap", &written.policy.backoff_cap);
    let rest = need.of("rest", &written.policy.rest);
    let (attempts, backoff) = (attempts?, Backoff { base: base?, cap: cap? });
    let mut limits = Vec::new();
    for limit in &written.limits {
        let mut need = Need::new("[[limit]]", &limit.head, problems);
        let topic =
            limit.topic.is_some().then(|| need.read("topic", &limit.topic, |text| pattern(text)));
        let kind =
            limit.kind.is_some().then(|| need.read("type", &limit.kind, |text| pattern(text)));
        let or = |given: &Option<At<Duration>>, usual| given.as_ref().map_or(usual, |at| at.value);
        limits.push(event::Limit {
            topic: topic.flatten(),
            kind: kind.flatten(),
            attempts: limit.attempts.as_ref().map_or(attempts, |at| patience(at.value)),
            backoff: Backoff {
                base: or(&limit.backoff, backoff.base),
                cap: or(&limit.backoff_cap, backoff.cap),
            },
        });
    }
    Some(event::Policy { limits, attempts, backoff, rest: rest? })
}

fn filter(text: &str) -> Result<String, String> {
    telemetry::check_filter(text)?;
    Ok(text.to_owned())
}

fn patience(attempts: usize) -> u32 {
    u32::try_from(attempts).unwrap_or(u32::MAX)
}

fn chores(written: &Written, problems: &mut Problems) -> Option<Chores> {
    let mut need = Need::new("[chores]", &written.chores.head, problems);
    let every = need.of("every", &written.chores.every);
    let step = need.of("step", &written.chores.step);
    let lease = need.of("lease", &written.chores.lease);
    Some(Chores { every: every?, step: step?, lease: lease? })
}

fn admin(written: &Written, problems: &mut Problems) -> Option<Admin> {
    let admin = &written.admin;
    let mut need = Need::new("[admin]", &admin.head, problems);
    let off = need.of("off", &admin.off);
    let listen = need.read("listen", &admin.listen, |text| {
        let wrong = |_| format!("{text:?} is no address; write for example \"127.0.0.1:8025\"");
        text.parse::<SocketAddr>().map_err(wrong)
    });
    let token = need.read("token", &admin.token, Sealed::read_token);
    let hosts = need.of("hosts", &admin.hosts);
    let sample = need.of("sample", &admin.sample);
    Some(Admin {
        off: off?,
        listen: listen?,
        token: token.map(|token| (!token.value.reveal().is_empty()).then_some(token))?,
        hosts: hosts?,
        sample: sample?,
    })
}
