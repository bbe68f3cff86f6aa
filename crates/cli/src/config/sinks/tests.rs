//! What a config may say of each kind of sink, and what is answered to one that does not.

use std::time::Duration;

use event::Durability;

use super::super::{Config, DEFAULT, Problem, document, parse};
use super::*;

/// The least that a sink of each kind needs: its url.
const LEAST: &[(&str, &str)] = &[
    ("rocketmq", "rocketmq://127.0.0.1:8081"),
    ("kafka", "kafka://127.0.0.1:9092"),
    ("rabbitmq", "amqp://127.0.0.1:5672/"),
    ("nats", "nats://127.0.0.1:4222"),
    ("redis", "redis://127.0.0.1:6379/0"),
    ("http", "https://stock.example.com/events"),
    ("stdout", ""),
];

/// What a credentials file looks like; the seed is nobody's.
const CREDENTIALS: &str = "-----BEGIN NATS USER JWT-----\ncanary\n------END NATS USER JWT------\n\
    -----BEGIN USER NKEY SEED-----\n\
    SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4\n\
    ------END USER NKEY SEED------\n";

fn whole(sink: &str) -> String {
    format!(
        "[[route]]\ntopic = \"*\"\nsink = \"there\"\n[outbox.orders]\n\
         url = \"sqlite:orders.sqlite3\"\n[sink.there]\n{sink}\n"
    )
}

fn keys_of(kind: &str, url: &str, more: &str) -> String {
    let url = if url.is_empty() { String::new() } else { format!("url = \"{url}\"") };
    whole(&format!("kind = \"{kind}\"\n{url}\n{more}"))
}

fn read(text: &str) -> Config {
    parse("postbox.toml", text, []).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse("postbox.toml", text, []).unwrap_err();
    problems.0.iter().map(Problem::to_string).collect()
}

fn brokers() -> impl Iterator<Item = (&'static str, &'static str)> {
    LEAST.iter().copied().filter(|(kind, _)| !["http", "stdout"].contains(kind))
}

#[test]
fn the_default_file_shows_every_kind_once_with_its_defaults_and_routes_to_one() {
    let example = read(DEFAULT);
    assert_eq!(LEAST.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), KINDS);
    assert_eq!(example.sinks.len(), KINDS.len());
    assert_eq!((example.routes.len(), example.routes[0].sink.as_str()), (1, "stock"));
    for (kind, url) in LEAST {
        let shown = example.sinks.iter().find(|sink| sink.kind.name() == *kind).unwrap();
        assert_eq!(read(&keys_of(kind, url, "")).sinks[0].kind, shown.kind, "{kind}");
    }
}

#[test]
fn every_kind_prints_every_key_that_it_reads_and_reads_what_it_printed() {
    for (kind, url) in LEAST {
        let host = url.trim_end_matches("/events").trim_end_matches("/0").trim_end_matches('/');
        let config = read(&keys_of(kind, host, ""));
        let printed = config.sinks[0].kind.print();
        let mut shown: Vec<&str> = printed.keys().map(String::as_str).collect();
        let mut known = [keys(kind), vec!["kind"]].concat();
        shown.sort_unstable();
        known.sort_unstable();
        assert_eq!(shown, known, "{kind}");
        let text = toml::to_string(&document(&config)).unwrap();
        assert_eq!(read(&text), config, "{text}");
    }
}

#[test]
fn the_values_of_a_broker_are_read() {
    let more = "topic = \"shop.{topic}\"\nshape = \"delay\"\naccess_key = \"me\"\n\
                secret_key = \"word\"\ntimeout = \"3s\"\nconcurrency = 7";
    let config = read(&keys_of("rocketmq", "rocketmq+tls://a:1,b:2", more));
    let Kind::RocketMq(rocketmq) = &config.sinks[0].kind else { panic!("{config:?}") };
    assert_eq!((rocketmq.shape, rocketmq.common.topic.as_str()), ("delay", "shop.{topic}"));
    assert_eq!(rocketmq.common.pace.timeout, Duration::from_secs(3));
    assert_eq!(rocketmq.common.pace.concurrency, 7);
    let (name, secret) = rocketmq.keys.as_ref().unwrap();
    assert_eq!((name.as_str(), secret.value.reveal()), ("me", "word"));
}

#[test]
fn a_url_says_whether_rocketmq_has_a_proxy() {
    for url in ["rocketmq://a:1", "rocketmq+remoting://a:1,b:2", "rocketmq+remoting+tls://a:1"] {
        let config = read(&keys_of("rocketmq", url, ""));
        let Kind::RocketMq(rocketmq) = &config.sinks[0].kind else { panic!("{config:?}") };
        assert_eq!(rocketmq.common.url.reveal(), url);
    }
}

#[test]
fn a_url_of_another_kind_is_told_with_what_to_write() {
    for (kind, _) in brokers() {
        for url in ["http://canary", "canary:1234", "canary", ""] {
            let said = problems(&whole(&format!("kind = \"{kind}\"\nurl = \"{url}\"")));
            let begin = "postbox.toml:8: `url` in [sink.there]: it must begin with ";
            assert!(said.len() == 1 && said[0].starts_with(begin), "{kind}: {said:#?}");
            assert!(said[0].contains("; write for example "), "{kind}: {said:#?}");
            assert!(!said[0].contains("canary"), "{kind}: {said:#?}");
        }
        let said = problems(&whole(&format!("kind = \"{kind}\"")));
        assert_eq!(said, ["postbox.toml:6: [sink.there] needs `url`"], "{kind}");
    }
    for (kind, url, expected) in [
        ("kafka", "kafka://me:canary@a:1", "write them as `user` and `password`"),
        ("rocketmq", "rocketmq://me:canary@a:1", "write them as `access_key` and `secret_key`"),
        ("rocketmq", "rocketmq://a:1?canary=1", "only ?nameserver=HOST:PORT may follow"),
        ("rocketmq", "rocketmq://a:1?nameserver=canary", "a host is without its port"),
        ("rocketmq", "rocketmq+tls://a:1?plain-nameserver=canary", "a host is without its port"),
        ("rocketmq", "rocketmq+remoting://a:1?nameserver=canary:1", "nothing may stand"),
        ("redis", "redis://:canary@a/orders", "only the number of a database may follow"),
        ("rabbitmq", "amqp://me:canary@a/b/c", "is written %2F"),
    ] {
        let said = problems(&keys_of(kind, url, ""));
        assert!(said.len() == 1 && said[0].contains(expected), "{said:#?}");
        assert!(!said[0].contains("canary"), "{said:#?}");
    }
}

#[test]
fn the_relations_of_times_hold_for_every_kind() {
    for (kind, url) in LEAST.iter().filter(|(kind, _)| *kind != "stdout") {
        let said = problems(&keys_of(kind, url, "timeout = \"13s\""));
        let expected = "postbox.toml:9: `timeout` in [sink.there] is 13s; it must be shorter than \
                        half the drain of [outbox.orders], 12s500ms";
        assert!(said.len() == 1 && said[0].starts_with(expected), "{kind}: {said:#?}");
        let said = problems(&keys_of(kind, url, "timeout = \"0s\"\nconcurrency = 0"));
        let expected =
            ["9: `timeout` in [sink.there]: it must", "10: `concurrency` in [sink.there]"];
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(&format!("postbox.toml:{expected}")), "{kind}: {said}");
        }
    }
}

#[test]
fn a_key_of_another_kind_says_whose_it_is_and_a_wrong_one_what_is_near() {
    let said = problems(&keys_of("kafka", "kafka://a:1", "stream = \"S\"\nexchange = \"e\""));
    assert_eq!(
        said,
        [
            "postbox.toml:9: unknown key `stream` in [sink.there]; it is a key of kind \"nats\", \
             and this is \"kafka\"",
            "postbox.toml:10: unknown key `exchange` in [sink.there]; it is a key of kind \
             \"rabbitmq\", and this is \"kafka\"",
        ]
    );
    for (kind, url) in brokers() {
        let said = problems(&keys_of(kind, url, "topik = \"t\""));
        let expected = "postbox.toml:9: unknown key `topik` in [sink.there]; did you mean `topic`?";
        assert_eq!(said, [expected], "{kind}");
    }
    let said = problems(&keys_of("kafak", "kafka://a:1", ""));
    assert!(said.len() == 1 && said[0].ends_with("did you mean `kafka`?"), "{said:?}");
}

#[test]
fn what_means_nothing_is_told_with_its_line() {
    for (kind, more, expected) in [
        ("kafka", "topic = \"{key}\"", "may hold {topic} and {type}, and no other braces"),
        ("kafka", "topic = \"\"", "it is empty"),
        (
            "kafka",
            "compression = \"zstd\"",
            "is not one of \"none\", \"gzip\", \"snappy\", \"lz4\"",
        ),
        ("kafka", "user = \"me\"", "`user` in [sink.there]: it needs `password` too"),
        ("kafka", "password = \"canary\"", "`password` in [sink.there]: it needs `user` too"),
        ("kafka", "mechanism = \"scram-sha-1\"", "did you mean `scram-sha-512`?"),
        ("kafka", "mechanism = \"scram-sha-512\"", "it needs `user` and `password` too"),
        ("rocketmq", "shape = \"lifo\"", "did you mean `fifo`?"),
        ("rocketmq", "access_key = \"a\"", "it needs `secret_key` too"),
        ("rabbitmq", "declare = \"yes\"", "it takes true or false"),
        ("rabbitmq", "management = \"canary:1\"", "it must begin with http:// or https://"),
        ("nats", "credentials = \"canary\"", "`credentials` in [sink.there]: this is not the text"),
        ("nats", "credentials = { file = \"/nowhere/x\" }", "cannot read the secret in /nowhere/x"),
        ("http", "durability = \"sure\"", "\"best-effort\", \"durable\", \"replicated\""),
    ] {
        let (_, url) = LEAST.iter().find(|(name, _)| name == &kind).unwrap();
        let said = problems(&keys_of(kind, url, more));
        assert!(said.len() == 1 && said[0].contains(expected), "{more}: {said:#?}");
        assert!(said[0].starts_with("postbox.toml:9: "), "{more}: {said:#?}");
        assert!(!said[0].contains("canary"), "{said:#?}");
    }
    let both = "token = \"canary\"\ncredentials = \"canary\"";
    let said = problems(&keys_of("nats", "nats://a", both));
    assert!(said.len() == 1 && said[0].contains("goes without `credentials`"), "{said:?}");
}

#[test]
fn no_secret_of_a_broker_prints_wherever_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    std::fs::write(&file, "canary-file\n").unwrap();
    let path = file.display();
    for (kind, url, more) in [
        ("kafka", "kafka://a:1", format!("user = \"u\"\npassword = {{ file = \"{path}\" }}")),
        ("rocketmq", "rocketmq://a:1", "access_key = \"u\"\nsecret_key = \"canary\"".to_owned()),
        ("rabbitmq", "amqp://me:canary@a/canary", "management = \"http://me:canary@a\"".into()),
        ("nats", "nats://me:canary@a,me:canary@b", "token = \"canary\"".to_owned()),
        ("nats", "tls://a", format!("credentials = \"{}\"", CREDENTIALS.replace('\n', "\\n"))),
        ("redis", "rediss://:canary@a/0", String::new()),
    ] {
        let config = read(&keys_of(kind, url, &more));
        let printed = toml::to_string(&document(&config)).unwrap();
        let shown = format!("{printed} {config:?}");
        assert!(!shown.contains("canary") && !shown.contains("SUAI"), "{printed}\n{config:?}");
    }
    let url = format!("redis://:${{file:{path}}}@a:1/0");
    let config = read(&keys_of("redis", &url, ""));
    let Kind::Redis(redis) = &config.sinks[0].kind else { panic!("{config:?}") };
    assert_eq!(redis.common.url.reveal(), "redis://:canary-file@a:1/0");
}

#[test]
fn a_route_demands_a_class_and_no_other_word() {
    let routed = |class: &str| {
        let text = keys_of("redis", "redis://a", "");
        text.replace("sink = \"there\"", &format!("sink = \"there\"\ndurability = \"{class}\""))
    };
    for class in Durability::ALL {
        assert_eq!(read(&routed(class.as_str())).routes[0].durability, Some(class));
    }
    let said = problems(&routed("durabel"));
    let expected = "postbox.toml:4: `durability` in [[route]]: \"durabel\" is not one of \
                    \"best-effort\", \"durable\", \"replicated\"; did you mean `durable`?";
    assert_eq!(said, [expected]);
}
