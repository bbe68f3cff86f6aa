//! How full the disk of a Kafka is: told as its system tells it, with the right that it takes, and
//! what a sink does when little is left.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker::kafka::{Access, Kafka};
use broker::manner::Manner;
use event::{Event, Finding, Gauge, Grade, Inspection, Sink};
use it::process::{Process, postbox};
use it::quay::Quay;
use it::quay::kafka::{KafkaQuay, own_with, shared};
use it::raw;
use it::site::Site;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// How far two looks at one disk may differ: others write to it between them.
const NEAR: f64 = 0.02;

fn manner() -> Manner {
    Manner { timeout: Duration::from_secs(20), ..Manner::new("it") }
}

fn sink(quay: &KafkaQuay, access: Access, manner: Manner) -> Kafka {
    Kafka::new(quay.options(access, manner)).expect("the options are right")
}

async fn look(sink: &dyn Sink) -> (Option<f64>, Vec<Finding>) {
    let seen = sink.inspect().await.expect("the broker tells");
    let disks = seen.levels.iter().filter(|level| level.gauge == Gauge::Disk);
    assert!(disks.clone().count() < 2, "{seen:?}");
    let whole = disks.clone().all(|level| level.topic.is_empty() && level.group.is_empty());
    assert!(whole, "it is of the broker as a whole: {seen:?}");
    (Inspection::total(&seen.levels, Gauge::Disk), seen.findings)
}

/// Asks the system how much of the disk of a folder cannot be written to any more.
fn by_the_system(folder: &Path) -> f64 {
    let mut df = Command::new("df");
    let done = df.args(["--block-size=1", "--output=size,avail"]).arg(folder).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let mut numbers = text.lines().last().unwrap().split_whitespace();
    let mut number = || numbers.next().unwrap().parse::<f64>().unwrap();
    let (size, avail) = (number(), number());
    1.0 - avail / size
}

fn is_near(told: f64, folder: &Path) -> bool {
    let system = by_the_system(folder);
    assert!((0.0..=1.0).contains(&system), "{system}");
    (told - system).abs() < NEAR
}

#[tokio::test]
async fn a_broker_tells_it_as_its_system_does_with_and_without_a_password() {
    let quay = shared().await;
    for access in [quay.access(), quay.guarded(&quay.password)] {
        let (told, findings) = look(&sink(&quay, access, manner())).await;
        let told = told.unwrap_or_else(|| panic!("it is not told: {findings:?}"));
        assert!(is_near(told, &quay.folder()), "{told}, {}", by_the_system(&quay.folder()));
        let untold = |it: &Finding| it.what.starts_with("disks of");
        assert!(!findings.iter().any(untold), "{findings:?}");
    }
}

#[tokio::test]
async fn status_and_metrics_tell_it() {
    let (quay, site) = (shared().await, Site::new().await.unwrap());
    let topic = quay.make(1, &[]).await.unwrap();
    let (file, url) = (site.file(), &quay.url);
    let folder = file.parent().unwrap();
    let text = format!(
        "[outbox.orders]\nurl = \"sqlite:{}\"\n[sink.there]\nkind = \"kafka\"\nurl = \"{url}\"\n\
         [[route]]\ntopic = \"{topic}\"\nsink = \"there\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\nsample = \"200ms\"\n",
        file.display()
    );
    std::fs::write(folder.join("postbox.toml"), text).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(postbox().unwrap());
        let done = command.args(args).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let told: Value = serde_json::from_str(&run(&["status", "--json"])).unwrap();
    let levels = told["sinks"][0]["levels"].as_array().unwrap();
    let disk = levels.iter().find(|level| level["gauge"] == "disk").expect("a disk");
    let used = disk["value"].as_f64().unwrap();
    assert!(is_near(used, &quay.folder()), "{told}");
    let table = run(&["status"]);
    let row = table.lines().find(|line| line.starts_with("there")).expect("a row of the sink");
    let cell = row.split_whitespace().last().and_then(|cell| cell.strip_suffix('%'));
    let percent: f64 = cell.unwrap_or_else(|| panic!("{table}")).parse().unwrap();
    assert!((percent / 100.0 - used).abs() < NEAR, "{table}");

    let mut relay = Process::start(folder, "relay", &["run", "-c", "postbox.toml"]).unwrap();
    relay.says("console at http://", PATIENCE).await.unwrap();
    let log = relay.log();
    let (_, rest) = log.split_once("console at http://").unwrap();
    let console: SocketAddr = rest.split('/').next().unwrap().parse().unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let page = raw::get(console, "/metrics", "").unwrap().body;
        let is = |line: &&str| line.starts_with("postbox_broker_disk{sink=\"there\"");
        if let Some(line) = page.lines().find(is) {
            let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
            assert!((value - used).abs() < NEAR, "{line}");
            return;
        }
        assert!(Instant::now() < until, "{page}");
        sleep(LOOK).await;
    }
}

/// Without a rule everybody may do everything; a rule for the cluster is made while a sink looks.
#[tokio::test]
async fn whoever_lacks_the_right_is_told_which_and_goes_on() {
    let quay = own_with(&[
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        "allow.everyone.if.no.acl.found=true",
    ])
    .await;
    let topic = quay.make(1, &[]).await.unwrap();
    let (_line, guarded) = quay.detour(manner()).await.unwrap();
    assert!(look(&*guarded).await.0.is_some(), "nothing is forbidden yet");
    forbid_describe(&quay).await;
    let told = async {
        loop {
            let (told, findings) = look(&*guarded).await;
            if told.is_none() {
                break findings;
            }
        }
    };
    let findings = timeout(PATIENCE, told).await.expect("the rule counts");
    let found = findings.iter().find(|it| it.what.starts_with("disks of 127.0.0.1:"));
    let Finding { grade, detail, .. } = found.unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(*grade, Grade::Warn);
    assert!(detail.contains("the right Describe on the cluster"), "{detail}");
    assert!(detail.contains("'User:postbox' --operation Describe --cluster"), "{detail}");
    let said = format!("{findings:?}");
    assert!(quay.secrets().iter().all(|secret| !said.contains(secret)), "{said}");
    let answers = guarded.publish(&[Event::new(&*topic, "Counted", "{}")]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let open = sink(&quay, quay.access(), manner());
    assert!(look(&open).await.0.is_some(), "others may still know");
}

/// Makes the rule that `postbox` may not describe the cluster (CreateAcls, version 1).
async fn forbid_describe(quay: &KafkaQuay) {
    let address = quay.url.trim_start_matches("kafka://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let (cluster, literal, describe, deny) = ([4], [3], [8], [2]);
    let asked = [
        &[0, 30, 0, 1, 0, 0, 0, 7][..],
        &text("it"),
        &[0, 0, 0, 1],
        &cluster,
        &text("kafka-cluster"),
        &literal,
        &text("User:postbox"),
        &text("*"),
        &describe,
        &deny,
    ]
    .concat();
    write(&mut stream, &asked).await.unwrap();
    let answer = read(&mut stream).await.expect("an answer");
    let (call, one, error) = (&answer[..4], &answer[8..12], &answer[12..14]);
    assert_eq!((call, one, error), (&[0, 0, 0, 7][..], &[0, 0, 0, 1][..], &[0, 0][..]));
}

#[tokio::test]
async fn a_broker_whose_disk_is_nearly_full_gets_fewer_at_once_until_there_is_room() {
    let quay = own_with(&[]).await;
    let topic = quay.make(4, &[]).await.unwrap();
    let manner = Manner { concurrency: 10_000, ..manner() };
    let gates = manner.gates.clone();
    let (at, to, access) = quay.bent().unwrap();
    let (url, left) = (access.url.clone(), Arc::new(AtomicI64::new(500)));
    forge(at, to, Arc::clone(&left)).await;
    let sink = sink(&quay, access, manner);
    let width = || gates.of(&url, usize::MAX).width();
    let event = |n: usize| Event::new(&*topic, "Counted", "{}").key(n.to_string());
    let batch: Vec<Event> = (0..1000).map(event).collect();
    let widened = async {
        while width() < 8 {
            sink.publish(&batch).await;
        }
    };
    timeout(PATIENCE, widened).await.expect("it grows");
    let (told, findings) = look(&sink).await;
    assert!((told.unwrap() - 0.5).abs() < NEAR && width() >= 8, "{told:?}, {}", width());
    assert!(!findings.iter().any(|it| it.what == "disk"), "{findings:?}");

    left.store(1, Ordering::SeqCst);
    let (told, findings) = look(&sink).await;
    assert!(told.unwrap() > 0.99, "{told:?}");
    let warned = |it: &Finding| it.what == "disk" && it.detail.starts_with("100 % of the disk of");
    assert!(findings.iter().any(warned), "{findings:?}");
    assert_eq!(width(), 1);
    let answers = sink.publish(&batch[..100]).await;
    assert!(answers.iter().all(Result::is_ok), "one handful always goes: {answers:?}");
    assert_eq!(width(), 1);

    left.store(500, Ordering::SeqCst);
    look(&sink).await;
    assert!(width() >= 8, "{}", width());
}

/// Opens a way to a broker on which only so many thousandths of its disk are said to be left.
async fn forge(at: SocketAddr, to: SocketAddr, left: Arc<AtomicI64>) {
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(to).await.unwrap();
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            let asked = Arc::default();
            tokio::spawn(ask(from_client, to_server, Arc::clone(&asked)));
            tokio::spawn(answer(from_server, to_client, asked, Arc::clone(&left)));
        }
    });
}

/// The numbers of the calls that ask for the disks.
type Asked = Arc<Mutex<HashSet<[u8; 4]>>>;

async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asked: Asked) {
    while let Some(call) = read(&mut from).await {
        if call.starts_with(&[0, 35, 0, 4]) {
            asked.lock().unwrap().insert(*call[4..].first_chunk().unwrap());
        }
        if write(&mut to, &call).await.is_none() {
            break;
        }
    }
}

async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asked: Asked,
    left: Arc<AtomicI64>,
) {
    while let Some(mut answer) = read(&mut from).await {
        if asked.lock().unwrap().remove(answer.first_chunk().unwrap()) {
            // Of one folder at the end: how large its disk is, how much is left, two empty lists.
            let end = answer.len();
            let large = i64::from_be_bytes(answer[end - 18..end - 10].try_into().unwrap());
            let left = large / 1000 * left.load(Ordering::SeqCst);
            answer[end - 10..end - 2].copy_from_slice(&left.to_be_bytes());
        }
        if write(&mut to, &answer).await.is_none() {
            break;
        }
    }
}

async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut whole = vec![0; from.read_u32().await.ok()? as usize];
    from.read_exact(&mut whole).await.ok()?;
    Some(whole)
}

async fn write(to: &mut (impl AsyncWriteExt + Unpin), whole: &[u8]) -> Option<()> {
    let length = (whole.len() as u32).to_be_bytes();
    to.write_all(&[&length[..], whole].concat()).await.ok()
}
