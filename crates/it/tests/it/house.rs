//! The house rules that a program can check: who may see whom, and how files are kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Whom each crate may see, by folder. `cli` and `it` see all; the hall and `xtask` see none.
const EDGES: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("store", &["event"]),
    ("broker", &["event"]),
    ("relay", &["event"]),
    ("admin", &["event"]),
    ("telemetry", &["event"]),
    ("postbox", &["event", "store", "broker"]),
    ("cli", &["event", "store", "broker", "relay", "admin", "telemetry", "postbox"]),
    ("it", &["event", "store", "broker", "relay", "admin", "telemetry", "postbox"]),
    ("xtask", &[]),
];

/// Crates that bring OpenSSL or a long C build.
const BANNED: &[&str] = &["openssl", "native-tls", "aws-lc-rs", "aws-lc-sys"];

/// Crates that only one other may bring: librdkafka knows no other TLS.
const ONLY_BY: &[(&str, &str)] = &[("openssl-sys", "rdkafka-sys"), ("openssl-src", "openssl-sys")];

/// What others call what has another name here. Words that libraries use all day (send, push, lock,
/// acquire) and DISPATCHING, a status that users know, cannot be told from ours and are left out.
const FOREIGN: &str = "dlq, dead letter, park, parked, parks, discard, discarded, discards, \
    dispatch, dispatched, dispatcher, dispatches, deliver, delivered, delivers, epoch, \
    fence token, fencing token, job, jobs, task, tasks, message, messages, record, records";

/// Where these stand all the same: names that the schema and the metrics must have, what libraries,
/// browsers and brokers call theirs, and the name of a promise.
const GIVEN: &str = "DISCARD ALL, broker_message_id, \
    postbox_dispatch_latency_seconds, tokio::task, \
    task::spawn_blocking, std::task, error.message, take_message(), [\"message\"], .record(, \
    'RECORD', UNIX_EPOCH, extract(epoch, date_part('epoch', database.message(), \
    span::Record, &Record<'_>, fn record(, record_follows, max.message.bytes, maxMessageSize, \
    MESSAGE_TOO_LARGE, v2.Message.body, /proc/{process}/task";

/// Files named after a broker speak its own language, because who reads them looks things up in
/// its documentation; so does the page that sets one beside the outbox.
const THEIRS: &[&str] = &[
    "alternatives",
    "kafka",
    "kafka_cluster",
    "nats",
    "rabbitmq",
    "redis",
    "rocketmq",
    "rocketmq_4",
    "rocketmq_remoting",
];

const LINES: usize = 800;
const COLUMNS: usize = 100;

/// An edge between two of our crates: who sees whom.
type Edge = (String, String);

fn forbidden(edges: &[Edge]) -> Vec<String> {
    let allows = |(from, to): &Edge| {
        let room = EDGES.iter().find(|(name, _)| name == from);
        room.is_some_and(|(_, may)| may.contains(&to.as_str()))
    };
    let complain = |(from, to): &Edge| format!("{from} must not depend on {to}");
    edges.iter().filter(|edge| !allows(edge)).map(complain).collect()
}

#[test]
fn rooms_see_only_whom_they_may() {
    let command = ["metadata", "--format-version=1", "--no-deps", "--offline"];
    let cargo = Command::new(env!("CARGO")).args(command).current_dir(root()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let name = |folder: &Path| folder.file_name().unwrap().to_str().unwrap().to_owned();
    let (mut edges, mut rooms) = (Vec::new(), BTreeSet::new());
    for package in metadata["packages"].as_array().unwrap() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let from = name(manifest.parent().unwrap());
        for dependency in package["dependencies"].as_array().unwrap() {
            if let Some(path) = dependency["path"].as_str() {
                edges.push((from.clone(), name(Path::new(path))));
            }
        }
        rooms.insert(from);
    }
    none(forbidden(&edges));
    let known = EDGES.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(rooms, known, "a new crate needs a line here and a note");
}

#[test]
fn a_forbidden_edge_is_named() {
    let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let good = [edge("cli", "relay"), edge("postbox", "store"), edge("relay", "event")];
    assert_eq!(forbidden(&good), [""; 0]);
    let bad = [edge("relay", "store"), edge("event", "store"), edge("new", "event")];
    let named = ["relay must not depend on store", "event must not depend on store"];
    assert_eq!(forbidden(&bad), [named[0], named[1], "new must not depend on event"]);
}

fn untidy(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |what: &str| complaints.push(format!("{path} {what}"));
    if text.lines().count() > LINES {
        complain("is longer than 800 lines");
    }
    if path.ends_with(".rs") {
        if path.contains("src/") && !text.starts_with("//!") {
            complain("does not open with //!");
        }
        for (at, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS {
                complain(&format!("has more than 100 columns in line {}", at + 1));
            }
        }
    }
    if path.ends_with(".sql") {
        let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        let code = code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
        let code = code.to_uppercase();
        if !text.starts_with("--") {
            complain("does not open with a header");
        }
        // A migration is one step as a whole, and so are an account's rights.
        let whole = ["/migrations/", "/accounts/"].iter().any(|folder| path.contains(folder));
        if !whole && code.trim_end_matches(';').contains(';') {
            complain("holds more than one statement");
        }
        for never in ["SELECT *", "INSERT IGNORE", "INSERT OR IGNORE"] {
            if code.contains(never) {
                complain(&format!("says {never}"));
            }
        }
    }
    complaints
}

#[test]
fn files_are_tidy() {
    let files = files();
    assert!(files.iter().any(|path| path.ends_with(".sql")), "no SQL was found: {files:?}");
    none(files.iter().flat_map(|path| untidy(path, &read(path))).collect());
}

#[test]
fn untidy_files_are_named() {
    let wide = format!("//! It.\n// {}\n", "é".repeat(98));
    assert_eq!(untidy("src/a.rs", &wide), ["src/a.rs has more than 100 columns in line 2"]);
    assert_eq!(untidy("src/a.rs", &wide.replacen("é", "", 1)), [""; 0]);
    assert_eq!(untidy("src/a.rs", "fn a() {}\n"), ["src/a.rs does not open with //!"]);
    assert_eq!(untidy("a.md", &"a\n".repeat(801)), ["a.md is longer than 800 lines"]);
    assert_eq!(untidy("a.sql", "-- It; all.\nSELECT count(*) FROM a;\n"), [""; 0]);
    let bad = "select\n  * from a;\ninsert or  ignore into b VALUES (1)";
    assert_eq!(untidy("a.sql", bad).len(), 4);
    assert_eq!(untidy("migrations/a.sql", "-- It.\nDROP TABLE a; DROP TABLE b;").len(), 1);
    assert_eq!(untidy("x/migrations/a.sql", "-- It.\nDROP TABLE a; DROP TABLE b;"), [""; 0]);
}

/// Takes a line apart into its words, in small letters; names in code have several.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    for c in line.chars() {
        let inside = words.ends_with(|last: char| last.is_lowercase());
        if (c.is_uppercase() && inside) || !c.is_alphanumeric() {
            words.push(' ');
        }
        words.extend(Some(c).filter(|c| c.is_alphanumeric()));
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    format!(" {} ", words.join(" ").to_lowercase())
}

fn foreign(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let ours = GIVEN.split(", ").fold(line.to_owned(), |line, given| line.replace(given, " "));
        let ours = words(&ours);
        let said = FOREIGN.split(", ").filter(|word| ours.contains(&format!(" {word} ")));
        complaints.extend(said.map(|word| format!("{path}:{} says {word}", at + 1)));
    }
    complaints
}

#[test]
fn one_word_stands_for_each_concept() {
    let kinds = ["rs", "sql", "html", "js", "toml", "md"];
    let ours = |path: &&String| {
        let room = ["crates/", "docs/", "README"].iter().any(|start| path.starts_with(start));
        let kind = path.rsplit('.').next().is_some_and(|kind| kinds.contains(&kind));
        let names = |part: &str| THEIRS.contains(&part.split('.').next().unwrap_or(part));
        room && kind && !path.ends_with("tests/it/house.rs") && !path.split('/').any(names)
    };
    let files = files();
    none(files.iter().filter(ours).flat_map(|path| foreign(path, &read(path))).collect());
}

#[test]
fn a_foreign_word_is_named() {
    let text = "let lease_epoch = 1; // a DLQ\nstruct FenceToken;\nsqlx: error.message()\n\
                // parking is tasked with recording\nfn dead_letters() {}\n";
    let named = ["a.rs:1 says dlq", "a.rs:1 says epoch", "a.rs:2 says fence token"];
    assert_eq!(foreign("a.rs", text), named);
    assert_eq!(foreign("a.sql", "SELECT broker_message_id, message"), ["a.sql:1 says message"]);
}

#[test]
fn every_code_has_a_page_that_helps_and_every_page_a_code() {
    for explanation in event::EXPLANATIONS {
        let told = explanation.page.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(told >= 5, "docs/errors/{}.md says too little", explanation.code);
    }
    for entry in fs::read_dir(root().join("docs/errors")).unwrap() {
        let page = entry.unwrap().path();
        let code = page.file_stem().unwrap().to_str().unwrap();
        let known = code == "README" || event::explain(code).is_some();
        assert!(known, "docs/errors/{code}.md is the page of no code");
    }
}

#[test]
fn every_readme_shows_both_commands() {
    for readme in ["README.md", "README.zh-CN.md", "README.ko.md"] {
        for command in ["cargo run --release -- demo", "cargo xtask test"] {
            assert!(read(readme).lines().any(|line| line.trim() == command), "{readme}: {command}");
        }
    }
}

fn unused(workspace: &str, members: &[String]) -> Vec<String> {
    let section = workspace.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let entries = section.lines().take_while(|line| !line.starts_with('['));
    let names = entries.filter_map(|line| Some(line.split_once(" = ")?.0)).map(str::trim);
    let used = |name: &&str| {
        let dotted = format!("{name}.workspace = true");
        let braced = format!("{name} = {{ workspace = true");
        let names = |line: &str| line.starts_with(&dotted) || line.starts_with(&braced);
        members.iter().any(|member| member.lines().any(names))
    };
    names.filter(|name| !used(name)).map(|name| format!("nobody uses {name}")).collect()
}

#[test]
fn every_dependency_of_the_workspace_is_used() {
    let manifests = files().into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    none(unused(&read("Cargo.toml"), &manifests.map(|path| read(&path)).collect::<Vec<_>>()));
    let workspace = "[workspace.dependencies]\na = \"1\"\nab = \"1\"\nc = \"1\"\n[profile.dev]\n";
    let member = "[dependencies]\nab.workspace = true\nc = { workspace = true, features = [] }\n";
    assert_eq!(unused(workspace, &[member.to_owned()]), ["nobody uses a"]);
}

fn unwelcome(lock: &str) -> Vec<String> {
    let field = |package: &str, key: &str| {
        let lines = package.lines().filter_map(|line| line.strip_prefix(key));
        lines.map(|value| value.trim_matches([' ', '=', '"']).to_owned()).next()
    };
    let judge = |package: &str| {
        let name = field(package, "name").unwrap_or_default();
        let source = field(package, "source");
        let foreign = source.filter(|source| !source.starts_with("registry+"));
        let banned = BANNED.contains(&name.as_str()).then(|| "is banned".to_owned());
        let brings = |(named, by): &&(&str, &str)| {
            let wanted = format!("\"{named}\",");
            name != *by && package.lines().any(|line| line.trim() == wanted)
        };
        let brought = ONLY_BY.iter().find(brings);
        let brought = brought.map(|(named, by)| format!("brings {named}, as only {by} may"));
        let why = foreign.map(|source| format!("comes from {source}")).or(banned).or(brought);
        why.map(|why| format!("{name} {why}"))
    };
    lock.split("[[package]]").skip(1).filter_map(judge).collect()
}

#[test]
fn no_dependency_is_banned_or_comes_from_elsewhere() {
    none(unwelcome(&read("Cargo.lock")));
    let bad = "[[package]]\nname = \"a\"\nsource = \"git+https://b\"\n\n\
               [[package]]\nname = \"openssl\"\nsource = \"registry+c\"\n\n\
               [[package]]\nname = \"rdkafka-sys\"\ndependencies = [\n \"openssl-sys\",\n]\n\n\
               [[package]]\nname = \"b\"\ndependencies = [\n \"openssl-sys\",\n]\n";
    let told = unwelcome(bad);
    assert_eq!(told[..2], ["a comes from git+https://b", "openssl is banned"]);
    assert_eq!(told[2..], ["b brings openssl-sys, as only rdkafka-sys may"]);
}

#[track_caller]
fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Lists every text file of ours, relative to the workspace.
fn files() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !name.starts_with('.') && path != "target" {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    let ours = ["rs", "sql", "md", "toml", "js", "css", "html", "proto", "sh"];
    let text = |path: &String| ours.iter().any(|ending| path.ends_with(&format!(".{ending}")));
    found.into_iter().filter(text).collect()
}
