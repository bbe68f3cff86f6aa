//! Nobody takes a subject: its stream was deleted, or its server is away, or JetStream is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use async_nats::ConnectOptions;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use broker::manner::{Manner, Naming};
use broker::nats::{Access, Nats, Options};
use event::{Cause, Code, Event, EventId, Inspection, Refusal, Secret, Sink};
use it::answer::{cause, paid, publish};
use it::instance::Instance;
use it::quay::Quay;
use it::quay::nats::{shared, stream_of};
use it::three::nats_member;
use tokio::time::sleep;

use super::{LOOK, PATIENCE};

fn sink(url: &str) -> Nats {
    let access = Access { url: Secret::new(url), token: None, credentials: None };
    let (topic, manner) = (Naming::default(), Manner::new("it"));
    Nats::new(Options { access, topic, stream: None, manner }).unwrap()
}

async fn jetstream(url: &str) -> Option<Context> {
    let (user, address) = url.strip_prefix("nats://")?.split_once('@')?;
    let (user, password) = user.split_once(':')?;
    let options = ConnectOptions::with_user_and_password(user.into(), password.into());
    Some(jetstream::new(options.connect(address).await.ok()?))
}

/// Makes a stream of a new topic as soon as that can be; returns the topic, and the server that
/// has it if there are several.
async fn make(url: &str) -> (String, Option<String>) {
    let (topic, began) = (format!("topic-{}", EventId::new()), Instant::now());
    let (name, subjects) = (stream_of(&topic), vec![topic.clone()]);
    let config = Config { name, subjects, ..Config::default() };
    loop {
        if let Some(jetstream) = jetstream(url).await
            && let Ok(made) = jetstream.create_stream(config.clone()).await
        {
            let cluster = made.cached_info().cluster.as_ref();
            return (topic, cluster.and_then(|cluster| cluster.leader.clone()));
        }
        assert!(began.elapsed() < PATIENCE, "no stream can be made");
        sleep(LOOK).await;
    }
}

/// Publishes an event until the answer is of this kind and its detail has a word.
async fn comes_to(sink: &Nats, event: &Event, kind: &str, word: &str) -> Cause {
    let began = Instant::now();
    loop {
        let (is, cause) = cause(publish(sink, event).await);
        if is == kind && cause.detail.contains(word) {
            return cause;
        }
        // Before that nobody may have noticed; but it is never taken for a place to be made.
        assert_ne!(cause.code, Code::TopicMissing, "{cause}");
        assert!(began.elapsed() < PATIENCE, "{is}: {cause}");
        sleep(LOOK).await;
    }
}

#[tokio::test]
async fn a_stream_that_is_deleted_is_missed_though_its_subject_had_receipts() {
    let quay = shared().await;
    let (topic, sink) = (quay.topic("g").await.unwrap(), sink(&quay.url));
    publish(&sink, &paid(&topic)).await.unwrap();
    quay.jetstream().await.unwrap().delete_stream(stream_of(&topic)).await.unwrap();
    let (is, cause) = cause(publish(&sink, &paid(&topic)).await);
    assert_eq!((is, cause.code), ("retry", Code::TopicMissing), "{cause}");
    assert!(cause.detail.contains(&topic), "{cause}");
}

/// Looks until there is something to see, or all of it is away: whoever lists the streams waits for
/// those that do not answer.
async fn look(sink: &Nats) -> Result<Inspection, Cause> {
    let began = Instant::now();
    loop {
        match sink.inspect().await {
            Ok(seen) => return Ok(seen),
            Err(Refusal::Down(cause)) => return Err(cause),
            Err(silent) => assert!(began.elapsed() < PATIENCE, "{silent:?}"),
        }
    }
}

#[tokio::test]
async fn a_stream_whose_server_is_away_spends_no_attempt_and_nobody_is_told_to_make_it() {
    let first = nats_member("n1", None).unwrap();
    let [second, third] = ["n2", "n3"].map(|name| nats_member(name, Some(&first)).unwrap());
    let mut members = [("n2", second), ("n3", third), ("n1", first)];
    let url = members[0].1.url.clone();
    let (topic, home) = make(&url).await;
    let home = home.expect("a cluster tells who has it");
    let (other, there) = loop {
        let (other, there) = make(&url).await;
        if there.as_ref().is_some_and(|there| *there != home) {
            break (other, there);
        }
    };
    let away = members.iter().position(|(name, _)| *name == home).unwrap();
    let stays = members.iter().find(|(name, _)| there.as_deref() == Some(name)).unwrap();
    let (known, fresh) = (sink(&stays.1.url), sink(&stays.1.url));
    for topic in [&topic, &other] {
        publish(&known, &paid(topic)).await.unwrap();
    }

    members[away].1.kill().unwrap();
    // Also a relay that never had a receipt asks before it says what is missing.
    for sink in [&known, &fresh] {
        let cause = comes_to(sink, &paid(&topic), "down", &stream_of(&topic)).await;
        assert_eq!(cause.code, Code::SinkDown, "{cause}");
    }
    let told = |seen: &Inspection, word| seen.findings.iter().any(|it| it.detail.contains(word));
    let seen = look(&known).await.unwrap();
    assert!(told(&seen, "bring them back") && !told(&seen, "make one"), "{seen:?}");
    let nothing_else = look(&fresh).await.unwrap_err();
    assert!(nothing_else.detail.contains("bring them back"), "{nothing_else}");
    // Where another stream takes something, nobody waits for the one that is away.
    let mut answers = fresh.publish(&[paid(&topic).key("a"), paid(&other).key("b")]).await;
    answers.pop().unwrap().expect("its server is there");
    let (is, of_one) = cause(answers.pop().unwrap());
    assert_eq!((is, of_one.code), ("retry", Code::SinkDown), "{of_one}");
    let (is, never) = cause(publish(&fresh, &paid("nobody-made-this")).await);
    assert_eq!((is, never.code), ("retry", Code::TopicMissing), "{never}");

    members[away].1.revive().unwrap();
    let began = Instant::now();
    while let Err(refusal) = publish(&known, &paid(&topic)).await {
        assert!(began.elapsed() < PATIENCE, "{refusal:?}");
        sleep(LOOK).await;
    }
}

/// Writes the settings of a server: one user may ask JetStream everything, the other nothing.
fn settings(file: &Path, jetstream: bool) {
    let (server, account) = match jetstream {
        true => ("jetstream {}", "jetstream: enabled"),
        false => ("", ""),
    };
    let few = "user: few, password: few, permissions: { publish: { deny: \"$JS.API.>\" } }";
    let users = format!("users: [{{ user: all, password: all }}, {{ {few} }}]");
    let text = format!("{server}\naccounts {{ A: {{\n  {account}\n  {users}\n}} }}\n");
    fs::write(file, text).unwrap();
}

#[tokio::test]
async fn without_jetstream_no_attempt_is_spent_and_who_may_not_ask_goes_by_receipts() {
    let folder = tempfile::tempdir().unwrap();
    // The server may run as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("config");
    settings(&file, true);
    let mut server = Instance::start_with("nats", &["-c", file.to_str().unwrap()]).unwrap();
    let url = |user| format!("nats://{user}:{user}@127.0.0.1:{}", server.ports[0]);
    let (all, few) = (url("all"), url("few"));
    let ((topic, _), (gone, _)) = (make(&all).await, make(&all).await);
    let (all_sink, few_sink) = (sink(&all), sink(&few));
    for sink in [&all_sink, &few_sink] {
        publish(sink, &paid(&topic)).await.unwrap();
    }

    publish(&few_sink, &paid(&gone)).await.unwrap();
    jetstream(&all).await.unwrap().delete_stream(stream_of(&gone)).await.unwrap();
    let (is, lost) = cause(publish(&few_sink, &paid(&gone)).await);
    assert_eq!((is, lost.code), ("down", Code::SinkDown), "{lost}");
    let (is, never) = cause(publish(&few_sink, &paid("nobody-made-this")).await);
    assert_eq!((is, never.code), ("retry", Code::TopicMissing), "{never}");

    server.kill().unwrap();
    settings(&file, false);
    server.revive().unwrap();
    let cause = comes_to(&all_sink, &paid(&topic), "down", "JetStream is away").await;
    assert_eq!(cause.code, Code::SinkDown, "{cause}");
}
