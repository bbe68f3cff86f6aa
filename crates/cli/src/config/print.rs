//! A config as it may be shown: what is in force, with every secret masked.

use std::time::Duration;

use event::Order;
use toml::{Table, Value};

use super::duration;
use super::meant::{Admin, Config, Outbox};
use super::sealed::{Origin, Sealed};

/// Returns the config as a document without secrets.
pub(crate) fn document(config: &Config) -> Table {
    let mut document = Table::new();
    let server = Table::from_iter([("connections".to_owned(), number(config.connections))]);
    document.insert("server".into(), Value::Table(server));
    let outboxes = config.outboxes.iter().map(|o| (o.name.clone(), Value::Table(outbox(o))));
    document.insert("outbox".into(), Value::Table(outboxes.collect()));
    let sinks = config.sinks.iter().map(|s| (s.name.clone(), Value::Table(s.kind.print())));
    document.insert("sink".into(), Value::Table(sinks.collect()));
    let routes = config.routes.iter().map(|route| {
        let mut table = Table::new();
        table.insert("topic".into(), route.topic.to_string().into());
        table.insert("sink".into(), route.sink.clone().into());
        if let Some(outbox) = &route.outbox {
            table.insert("outbox".into(), outbox.clone().into());
        }
        if let Some(durability) = route.durability {
            table.insert("durability".into(), durability.as_str().into());
        }
        if let Some(limit) = route.lag_limit {
            table.insert("lag_limit".into(), number(limit));
        }
        Value::Table(table)
    });
    document.insert("route".into(), Value::Array(routes.collect()));
    document.insert("policy".into(), Value::Table(policy(config)));
    let limits: Vec<Value> = config.policy.limits.iter().map(limit).collect();
    if !limits.is_empty() {
        document.insert("limit".into(), Value::Array(limits));
    }
    let chores = Table::from_iter([
        ("every".to_owned(), time(config.chores.every)),
        ("step".to_owned(), number(config.chores.step)),
        ("lease".to_owned(), time(config.chores.lease)),
    ]);
    document.insert("chores".into(), Value::Table(chores));
    document.insert("admin".into(), Value::Table(admin(&config.admin)));
    let log = Table::from_iter([
        ("format".to_owned(), Value::from(if config.log.json { "json" } else { "human" })),
        ("filter".to_owned(), Value::from(config.log.filter.clone())),
    ]);
    document.insert("log".into(), Value::Table(log));
    document
}

fn outbox(outbox: &Outbox) -> Table {
    let order = if outbox.order == Order::Pass { "pass" } else { "hold" };
    Table::from_iter([
        ("url".to_owned(), Value::from(outbox.url.to_string())),
        ("table".to_owned(), Value::from(outbox.table.clone())),
        ("batch".to_owned(), number(outbox.batch)),
        ("bytes".to_owned(), number(outbox.bytes)),
        ("lease".to_owned(), time(outbox.lease)),
        ("idle".to_owned(), time(outbox.idle)),
        ("turns".to_owned(), number(outbox.turns)),
        ("drain".to_owned(), time(outbox.drain)),
        ("history".to_owned(), Value::from(outbox.history)),
        ("strategy".to_owned(), Value::from(outbox.strategy.name())),
        ("shards".to_owned(), Value::from(i64::from(outbox.shards))),
        ("connections".to_owned(), Value::from(i64::from(outbox.connections))),
        ("listen".to_owned(), Value::from(outbox.listen)),
        ("order".to_owned(), Value::from(order)),
        ("keep_sent".to_owned(), time(outbox.keep_sent)),
        ("keep_inbox".to_owned(), time(outbox.keep_inbox)),
    ])
}

fn policy(config: &Config) -> Table {
    Table::from_iter([
        ("attempts".to_owned(), Value::from(i64::from(config.policy.attempts))),
        ("backoff".to_owned(), time(config.policy.backoff.base)),
        ("backoff_cap".to_owned(), time(config.policy.backoff.cap)),
        ("rest".to_owned(), time(config.policy.rest)),
    ])
}

fn limit(limit: &event::Limit) -> Value {
    let mut table = Table::new();
    if let Some(topic) = &limit.topic {
        table.insert("topic".into(), topic.to_string().into());
    }
    if let Some(kind) = &limit.kind {
        table.insert("type".into(), kind.to_string().into());
    }
    table.insert("attempts".into(), Value::from(i64::from(limit.attempts)));
    table.insert("backoff".into(), time(limit.backoff.base));
    table.insert("backoff_cap".into(), time(limit.backoff.cap));
    Value::Table(table)
}

fn admin(admin: &Admin) -> Table {
    let token = admin.token.as_ref().map_or_else(|| Value::from(""), sealed);
    let hosts = admin.hosts.iter().cloned().map(Value::from);
    Table::from_iter([
        ("off".to_owned(), Value::from(admin.off)),
        ("listen".to_owned(), Value::from(admin.listen.to_string())),
        ("token".to_owned(), token),
        ("hosts".to_owned(), Value::Array(hosts.collect())),
        ("sample".to_owned(), time(admin.sample)),
    ])
}

pub(super) fn sealed(secret: &Sealed) -> Value {
    let named = |kind: &str, text: String| {
        Value::Table(Table::from_iter([(kind.to_owned(), Value::from(text))]))
    };
    match &secret.origin.0 {
        Origin::Inline(_) => Value::from("***"),
        Origin::File(path) => named("file", path.display().to_string()),
        Origin::Variable(name) => named("env", name.clone()),
    }
}

pub(super) fn time(value: Duration) -> Value {
    Value::from(duration::text(value))
}

pub(super) fn number(value: usize) -> Value {
    Value::from(i64::try_from(value).unwrap_or(i64::MAX))
}
