//! A config as it is written: every value optional, each with its place; types are checked,
//! meaning is not. Only a sink is read with its meaning, by its kind.

use std::time::Duration;

use store::Strategy;

use super::place::{At, Place, Problems};
use super::sealed::SecretOrigin;
use super::section::{Head, Section};
use super::series;
use super::sinks::{CLASSES, KINDS, Kind};
use super::tree::{Node, Table, Value};

type Opt<T> = Option<At<T>>;

/// A whole config as it is written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) server: Server,
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) routes: Vec<Route>,
    pub(crate) policy: Policy,
    pub(crate) limits: Vec<Limit>,
    pub(crate) chores: Chores,
    pub(crate) admin: Admin,
    pub(crate) log: Log,
}

/// `[server]`.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) head: Head,
    pub(crate) connections: Opt<usize>,
}

/// `[outbox.NAME]`, or one of the outboxes that it stands for.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) name: String,
    /// What the section is called.
    pub(crate) section: String,
    pub(crate) head: Head,
    pub(crate) url: Opt<String>,
    pub(crate) table: Opt<String>,
    pub(crate) batch: Opt<usize>,
    pub(crate) bytes: Opt<usize>,
    pub(crate) lease: Opt<Duration>,
    pub(crate) idle: Opt<Duration>,
    pub(crate) turns: Opt<usize>,
    pub(crate) drain: Opt<Duration>,
    pub(crate) history: Opt<bool>,
    pub(crate) strategy: Opt<&'static str>,
    pub(crate) shards: Opt<usize>,
    pub(crate) connections: Opt<usize>,
    pub(crate) listen: Opt<bool>,
    pub(crate) order: Opt<&'static str>,
    pub(crate) keep_sent: Opt<Duration>,
    pub(crate) keep_inbox: Opt<Duration>,
}

/// `[sink.NAME]`.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) name: String,
    pub(crate) head: Head,
    pub(crate) kind: Opt<&'static str>,
    /// How long an event may take, for kinds that ask for it.
    pub(crate) timeout: Opt<Duration>,
    /// What it means, unless a problem was told.
    pub(crate) meant: Option<Kind>,
}

/// `[[route]]`.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) head: Head,
    pub(crate) topic: Opt<String>,
    pub(crate) sink: Opt<String>,
    pub(crate) outbox: Opt<String>,
    pub(crate) durability: Opt<&'static str>,
    pub(crate) lag_limit: Opt<usize>,
}

/// `[policy]`.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) head: Head,
    pub(crate) attempts: Opt<usize>,
    pub(crate) backoff: Opt<Duration>,
    pub(crate) backoff_cap: Opt<Duration>,
    pub(crate) rest: Opt<Duration>,
}

/// `[[limit]]`.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) head: Head,
    pub(crate) topic: Opt<String>,
    pub(crate) kind: Opt<String>,
    pub(crate) attempts: Opt<usize>,
    pub(crate) backoff: Opt<Duration>,
    pub(crate) backoff_cap: Opt<Duration>,
}

/// `[chores]`.
#[derive(Debug)]
pub(crate) struct Chores {
    pub(crate) head: Head,
    pub(crate) every: Opt<Duration>,
    pub(crate) step: Opt<usize>,
    pub(crate) lease: Opt<Duration>,
}

/// `[admin]`.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) head: Head,
    pub(crate) off: Opt<bool>,
    pub(crate) listen: Opt<String>,
    pub(crate) token: Opt<SecretOrigin>,
    pub(crate) hosts: Opt<Vec<String>>,
    pub(crate) sample: Opt<Duration>,
}

/// `[log]`.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) head: Head,
    pub(crate) format: Opt<&'static str>,
    pub(crate) filter: Opt<String>,
}

/// The strategies that there are.
pub(crate) const STRATEGIES: &[&str] = &{
    let mut names = [""; Strategy::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Strategy::ALL[at].name();
        at += 1;
    }
    names
};

impl Written {
    /// Reads a tree.
    pub(crate) fn read(file: &Place, tree: Table, problems: &mut Problems) -> Written {
        let root = Node { place: file.clone(), value: Value::Table(tree) };
        let mut root = Section::open(String::new(), root, problems);
        let (outboxes, sinks) = (root.named("outbox"), root.named("sink"));
        let (routes, limits) = (root.list("route"), root.list("limit"));
        let mut single = |key| {
            let empty = || Node { place: file.clone(), value: Value::Table(Table::new()) };
            root.inner(key).unwrap_or_else(empty)
        };
        let (server, policy, chores) = (single("server"), single("policy"), single("chores"));
        let (admin, log) = (single("admin"), single("log"));
        root.end();
        let mut all = Vec::new();
        for (section, node) in outboxes {
            for (name, node) in series::spread(&section, node, problems) {
                all.push(outbox(name, &section, node, problems));
            }
        }
        let route = |node| route(node, problems).spread(&all);
        Written {
            routes: routes.into_iter().flat_map(route).collect(),
            server: self::server(server, problems),
            outboxes: all,
            sinks: sinks.into_iter().map(|(name, n)| sink(name, n, problems)).collect(),
            policy: self::policy(policy, problems),
            limits: limits.into_iter().map(|node| limit(node, problems)).collect(),
            chores: self::chores(chores, problems),
            admin: self::admin(admin, problems),
            log: self::log(log, problems),
        }
    }
}

fn server(node: Node, problems: &mut Problems) -> Server {
    let mut section = Section::open("[server]".to_owned(), node, problems);
    Server { connections: section.count("connections"), head: section.end() }
}

fn outbox(name: String, title: &str, node: Node, problems: &mut Problems) -> Outbox {
    let mut section = Section::open(format!("[outbox.{title}]"), node, problems);
    Outbox {
        name,
        section: title.to_owned(),
        url: section.text("url"),
        table: section.text("table"),
        batch: section.count("batch"),
        bytes: section.count("bytes"),
        lease: section.duration("lease"),
        idle: section.duration("idle"),
        turns: section.count("turns"),
        drain: section.duration("drain"),
        history: section.flag("history"),
        strategy: section.word("strategy", STRATEGIES),
        shards: section.count("shards"),
        connections: section.count("connections"),
        listen: section.flag("listen"),
        order: section.word("order", &["hold", "pass"]),
        keep_sent: section.duration("keep_sent"),
        keep_inbox: section.duration("keep_inbox"),
        head: section.end(),
    }
}

fn sink(name: String, node: Node, problems: &mut Problems) -> Sink {
    let mut section = Section::open(format!("[sink.{name}]"), node, problems);
    let (kind, timeout) = (section.word("kind", KINDS), section.glance("timeout"));
    // Without a kind nobody knows its keys, so that a missing kind is the only problem told.
    let (meant, head) = match &kind {
        Some(kind) => Kind::read(kind.value, section),
        None => (None, section.leave()),
    };
    Sink { name, head, kind, timeout, meant }
}

impl Route {
    /// Returns a route for each outbox of the section that it names.
    fn spread(self, outboxes: &[Outbox]) -> Vec<Route> {
        let Some(named) = &self.outbox else { return vec![self] };
        let of = |outbox: &&Outbox| outbox.section == named.value && outbox.name != named.value;
        let of: Vec<&Outbox> = outboxes.iter().filter(of).collect();
        if of.is_empty() {
            return vec![self];
        }
        let each = |outbox: &&Outbox| {
            let outbox = At { value: outbox.name.clone(), place: named.place.clone() };
            Route { outbox: Some(outbox), ..self.clone() }
        };
        of.iter().map(each).collect()
    }
}

fn route(node: Node, problems: &mut Problems) -> Route {
    let mut section = Section::open("[[route]]".to_owned(), node, problems);
    Route {
        topic: section.text("topic"),
        sink: section.text("sink"),
        outbox: section.text("outbox"),
        durability: section.word("durability", CLASSES),
        lag_limit: section.count("lag_limit"),
        head: section.end(),
    }
}

fn policy(node: Node, problems: &mut Problems) -> Policy {
    let mut section = Section::open("[policy]".to_owned(), node, problems);
    Policy {
        attempts: section.count("attempts"),
        backoff: section.duration("backoff"),
        backoff_cap: section.duration("backoff_cap"),
        rest: section.duration("rest"),
        head: section.end(),
    }
}

fn limit(node: Node, problems: &mut Problems) -> Limit {
    let mut section = Section::open("[[limit]]".to_owned(), node, problems);
    Limit {
        topic: section.text("topic"),
        kind: section.text("type"),
        attempts: section.count("attempts"),
        backoff: section.duration("backoff"),
        backoff_cap: section.duration("backoff_cap"),
        head: section.end(),
    }
}

fn chores(node: Node, problems: &mut Problems) -> Chores {
    let mut section = Section::open("[chores]".to_owned(), node, problems);
    Chores {
        every: section.duration("every"),
        step: section.count("step"),
        lease: section.duration("lease"),
        head: section.end(),
    }
}

fn admin(node: Node, problems: &mut Problems) -> Admin {
    let mut section = Section::open("[admin]".to_owned(), node, problems);
    Admin {
        off: section.flag("off"),
        listen: section.text("listen"),
        token: section.secret("token"),
        hosts: section.texts("hosts"),
        sample: section.duration("sample"),
        head: section.end(),
    }
}

fn log(node: Node, problems: &mut Problems) -> Log {
    let mut section = Section::open("[log]".to_owned(), node, problems);
    Log {
        format: section.word("format", &["human", "json"]),
        filter: section.text("filter"),
        head: section.end(),
    }
}
