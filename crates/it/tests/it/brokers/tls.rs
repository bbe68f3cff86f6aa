//! TLS with servers whose certificate is of a private CA. A client trusts the CAs of the machine,
//! or those of the file that SSL_CERT_FILE names; so each client here is a process of its own.

mod rabbitmq;
mod rocketmq;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::manner::{Manner, Naming, Subscription};
use broker::{kafka, nats, redis};
use event::{EventId, Feed, Gauge, Refusal, Secret, Sink};
use it::answer::{cause, paid, publish};
use it::instance::Instance;
use it::quay::kafka::levels;
use it::world::need;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::time::sleep;
use url::Url;

const PATIENCE: Duration = Duration::from_secs(60);
/// Where the client finds what it is to do, and what it shows by SCRAM, if it does.
const URL: &str = "IT_TLS_URL";
const PASSWORD: &str = "IT_TLS_PASSWORD";

/// The certificate of a server on 127.0.0.1, and of its CA, and of another.
struct Papers {
    folder: TempDir,
}

impl Papers {
    fn make() -> Papers {
        let papers = Papers { folder: tempfile::tempdir().unwrap() };
        // The server may run as another user.
        fs::set_permissions(papers.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let [issuer, other] = ["ours", "another's"].map(issuer);
        let key = KeyPair::generate().unwrap();
        let names = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = names.signed_by(&key, &issuer).unwrap();
        papers.write("ca", "CERTIFICATE", issuer.as_ref().der());
        papers.write("other", "CERTIFICATE", other.as_ref().der());
        papers.write("server", "CERTIFICATE", certificate.der());
        papers.write("key", "PRIVATE KEY", &key.serialize_der());
        let both = ["key", "server"].map(|name| fs::read_to_string(papers.path(name)).unwrap());
        fs::write(papers.path("both"), both.concat()).unwrap();
        papers
    }

    fn write(&self, name: &str, what: &str, der: &[u8]) {
        let text =
            format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", STANDARD.encode(der));
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Lets a client publish and take, with a url and a file of CAs; returns what it says.
fn client(url: &str, trusted: &Path) -> String {
    client_with(url, trusted, None)
}

/// The same with a password.
fn client_with(url: &str, trusted: &Path, password: Option<&str>) -> String {
    let mut client = Command::new(std::env::current_exe().unwrap());
    client.args(["--exact", "brokers::tls::a_client_says_what_it_got", "--nocapture"]);
    client.env(URL, url).env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
    client.envs(password.map(|password| (PASSWORD, password)));
    let done = client.output().unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Checks who is let in, and that whoever is not is told why.
async fn only_who_trusts_is_served(url: &str, papers: &Papers) {
    let until = Instant::now() + PATIENCE;
    loop {
        let said = client(url, &papers.path("ca"));
        if said.contains("it came") {
            break;
        }
        assert!(said.contains("refused") && Instant::now() < until, "{said}");
        sleep(Duration::from_millis(100)).await;
    }
    let stranger = client(url, &papers.path("other"));
    let elsewhere = client(&url.replace("127.0.0.1", "localhost"), &papers.path("ca"));
    for (said, why) in [(stranger, "UnknownIssuer"), (elsewhere, "not valid for name")] {
        assert!(said.contains("sink-down") && said.contains(why), "{why}: {said}");
    }
}

#[tokio::test]
async fn nats_is_trusted_by_its_ca_and_name() {
    let papers = Papers::make();
    let (certificate, key) = (papers.text("server"), papers.text("key"));
    let more = ["--tls", "--tlscert", &certificate, "--tlskey", &key];
    let server = Instance::start_with("nats", &more).unwrap();
    only_who_trusts_is_served(&server.url.replace("nats://", "tls://"), &papers).await;
}

#[tokio::test]
async fn redis_is_trusted_by_its_ca_and_name() {
    let papers = Papers::make();
    let [ca, certificate, key] = ["ca", "server", "key"].map(|name| papers.text(name));
    let mut more = vec!["--port", "0", "--tls-port", "{port}", "--tls-auth-clients", "no"];
    more.extend(["--tls-ca-cert-file", &ca, "--tls-cert-file", &certificate]);
    more.extend(["--tls-key-file", &key]);
    let server = Instance::start_with("redis", &more).unwrap();
    only_who_trusts_is_served(&server.url.replace("redis://", "rediss://"), &papers).await;
}

/// Starts a Kafka that has two doors of TLS, the second of which asks for a password.
fn kafka(papers: &Papers) -> (Instance, [String; 2]) {
    let doors = "PLAINTEXT://127.0.0.1:{port},TLS://127.0.0.1:{port5},SAFE://127.0.0.1:{port6}";
    let settings = [
        format!("listeners={doors},CONTROLLER://127.0.0.1:{{port3}}"),
        format!("advertised.listeners={doors}"),
        "ssl.keystore.type=PEM".to_owned(),
        format!("ssl.keystore.location={}", papers.text("both")),
        "auto.create.topics.enable=true".to_owned(),
    ];
    let more: Vec<&str> = settings.iter().flat_map(|it| ["--override", it]).collect();
    let server = Instance::start_with("kafka", &more).unwrap();
    let [_, _, _, _, tls, safe] = server.ports;
    let urls = [tls, safe].map(|port| format!("kafka+tls://127.0.0.1:{port}"));
    (server, urls)
}

#[tokio::test]
async fn kafka_is_trusted_by_its_ca_and_name() {
    let papers = Papers::make();
    let (server, [url, _]) = kafka(&papers);
    only_who_trusts_is_served(&url, &papers).await;
    // A feed says as much as a sink.
    let stranger = client(&url, &papers.path("other"));
    assert_eq!(stranger.matches("UnknownIssuer").count(), 2, "{stranger}");
    let port = url.rsplit_once(':').unwrap().1;
    let plainly = client(&format!("kafka://127.0.0.1:{port}"), &papers.path("ca"));
    let in_vain = client(&server.url.replace("kafka://", "kafka+tls://"), &papers.path("ca"));
    for (said, instead) in
        [(plainly, "write kafka+tls://"), (in_vain, "the port of its TLS listener")]
    {
        assert!(said.contains("sink-down") && said.matches(instead).count() == 2, "{said}");
    }
}

#[tokio::test]
async fn kafka_lets_in_by_scram_over_tls_and_tells_its_levels() {
    let papers = Papers::make();
    let (_server, [_, url]) = kafka(&papers);
    let (world, until) = (need("kafka"), Instant::now() + PATIENCE);
    let right = world.detail("scram-sha-512");
    loop {
        let said = client_with(&url, &papers.path("ca"), Some(right));
        if said.contains("it came") {
            break;
        }
        assert!(said.contains("sink-down") && Instant::now() < until, "{said}");
        sleep(Duration::from_millis(100)).await;
    }
    for wrong in [world.detail("scram-sha-256"), "canary"] {
        let said = client_with(&url, &papers.path("ca"), Some(wrong));
        assert!(said.contains("auth-refused") && said.contains("`mechanism`"), "{said}");
        assert!(!said.contains(wrong), "{said}");
    }
    let stranger = client_with(&url, &papers.path("other"), Some(right));
    assert!(stranger.contains("sink-down") && stranger.contains("UnknownIssuer"), "{stranger}");
}

/// The part of the client. Without a url there is nothing to say.
#[tokio::test]
async fn a_client_says_what_it_got() {
    let Ok(url) = std::env::var(URL) else { return };
    let topic = format!("topic-{}", EventId::new());
    let (manner, subscription) = (Manner::new("it"), Subscription::new("g", &[&topic]));
    let (secret, naming) = (Secret::new(&*url), Naming::default());
    let is_kafka = url.starts_with("kafka");
    let (sink, feed): (Box<dyn Sink>, Box<dyn Feed>) = match url.split_once("://").unwrap().0 {
        "kafka" | "kafka+tls" => {
            let access = match std::env::var(PASSWORD) {
                Err(_) => kafka::Access::open(&url),
                Ok(password) => kafka::Access {
                    url,
                    user: Some(("postbox".to_owned(), Secret::new(password))),
                    mechanism: kafka::Mechanism::ScramSha512,
                },
            };
            let feed = kafka::KafkaFeed::new(&access, subscription).unwrap();
            let compression = "none".to_owned();
            let options = kafka::Options { access, topic: naming, compression, manner };
            (Box::new(kafka::Kafka::new(options).unwrap()), Box::new(feed))
        }
        "tls" => {
            let access = nats::Access { url: secret, token: None, credentials: None };
            let feed = nats::NatsFeed::new(&access, subscription).unwrap();
            let options = nats::Options { access, topic: naming, stream: None, manner };
            let at: Url = url.parse().unwrap();
            let (user, password) = (at.username().to_owned(), at.password().unwrap().to_owned());
            let login = async_nats::ConnectOptions::with_user_and_password(user, password);
            if let Ok(client) = login.connect(&*url).await {
                let (name, subjects) = (topic.clone(), vec![topic.clone()]);
                let stream = Config { name, subjects, ..Config::default() };
                jetstream::new(client).create_stream(stream).await.unwrap();
            }
            (Box::new(nats::Nats::new(options).unwrap()), Box::new(feed))
        }
        _ => {
            let feed = redis::RedisFeed::new(&secret, subscription).unwrap();
            let options = redis::Options { url: secret, topic: naming, manner };
            (Box::new(redis::Redis::new(options).unwrap()), Box::new(feed))
        }
    };
    let event = paid(&topic);
    let answer = publish(&*sink, &event).await;
    if answer.is_err() {
        let (is, cause) = cause(answer);
        println!("refused: {is}: {} {}", cause.code, cause.detail);
        if is_kafka && let Err(Refusal::Down(cause)) = feed.next(PATIENCE).await {
            println!("refused to take: {} {}", cause.code, cause.detail);
        }
        return;
    }
    let come: Result<_, Refusal> = feed.next(PATIENCE).await;
    let come = come.unwrap().expect("it comes");
    assert_eq!(come.event.as_ref(), Ok(&event));
    feed.ack(come.handle).await.unwrap();
    if is_kafka {
        // A client of our own asks for them.
        let told = levels(&*sink, &[Gauge::Lag, Gauge::Disk]).await.unwrap();
        assert!(told[0] == 0.0 && told[1] > 0.0, "{told:?}");
    }
    println!("it came");
}
