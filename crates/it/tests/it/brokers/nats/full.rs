//! A server that is nearly full gets fewer at once, until there is room.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use broker::manner::{Manner, Naming};
use broker::nats::{Access, Nats, Options};
use event::{Event, Finding, Gauge, Grade, Inspection, Secret, Sink};
use it::answer::publish;
use it::instance::Instance;
use tokio::time::sleep;

use super::{LOOK, PATIENCE};

/// What the account may store, and how much of that one event is.
const SETTINGS: &str = "\
jetstream {}
accounts { A: {
  jetstream: { max_mem: 1MB, max_file: 1MB }
  users: [{ user: a, password: a }]
} }
";
const PIECE: usize = (1 << 20) / 20;

#[tokio::test]
async fn an_account_that_is_nearly_full_gets_fewer_at_once_before_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // The server may run as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("config");
    fs::write(&file, SETTINGS).unwrap();
    let server = Instance::start_with("nats", &["-c", file.to_str().unwrap()]).unwrap();
    let address = format!("127.0.0.1:{}", server.ports[0]);
    let manner = Manner { concurrency: 4, ..Manner::new("it") };
    let gate = manner.gates.of(&format!("nats://{address}"), 4);
    let url = Secret::new(format!("nats://a:a@{address}"));
    let access = Access { url, token: None, credentials: None };
    let options = Options { access, topic: Naming::default(), stream: None, manner };
    let sink = Nats::new(options).unwrap();
    let began = Instant::now();
    while sink.probe().await.is_err() {
        assert!(began.elapsed() < PATIENCE, "it does not answer");
        sleep(LOOK).await;
    }
    let login = async_nats::ConnectOptions::with_user_and_password("a".into(), "a".into());
    let jetstream = jetstream::new(login.connect(&address).await.unwrap());
    let (name, subjects) = ("pieces".to_owned(), vec!["piece".to_owned()]);
    let config = Config { name, subjects, ..Config::default() };
    let stream = jetstream.create_stream(config).await.unwrap();

    let look = async || {
        let seen = sink.inspect().await.unwrap();
        let warned = |it: &Finding| it.what == "storage" && it.grade == Grade::Warn;
        let full = Inspection::total(&seen.levels, Gauge::Disk).expect("the account has a limit");
        (full, seen.findings.iter().any(warned), gate.width())
    };
    assert_eq!(look().await, (0.0, false, 4));
    for _ in 0..18 {
        publish(&sink, &Event::new("piece", "Piece", "x".repeat(PIECE))).await.unwrap();
    }
    let (full, warned, width) = look().await;
    assert!((0.9..1.0).contains(&full) && warned && width < 4, "{full}, {warned}, {width}");
    stream.purge().await.unwrap();
    let (full, warned, width) = look().await;
    assert!(full < 0.1 && !warned && width == 4, "{full}, {warned}, {width}");
}
