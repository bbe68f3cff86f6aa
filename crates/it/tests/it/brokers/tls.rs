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
use broker::{nats, redis};
use event::{EventId, Feed, Refusal, Secret, Sink};
use it::answer::{cause, paid, publish};
use it::instance::Instance;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::time::sleep;
use url::Url;

const PATIENCE: Duration = Duration::from_secs(60);
/// Where the client finds what it is to do.
const URL: &str = "IT_TLS_URL";

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
    let mut client = Command::new(std::env::current_exe().unwrap());
    client.args(["--exact", "brokers::tls::a_client_says_what_it_got", "--nocapture"]);
    client.env(URL, url).env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
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

/// The part of the client. Without a url there is nothing to say.
#[tokio::test]
async fn a_client_says_what_it_got() {
    let Ok(url) = std::env::var(URL) else { return };
    let topic = format!("topic-{}", EventId::new());
    let (manner, subscription) = (Manner::new("it"), Subscription::new("g", &[&topic]));
    let (secret, naming) = (Secret::new(&*url), Naming::default());
    let (sink, feed): (Box<dyn Sink>, Box<dyn Feed>) = match url.starts_with("tls") {
        true => {
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
        false => {
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
        return;
    }
    let come: Result<_, Refusal> = feed.next(PATIENCE).await;
    let come = come.unwrap().expect("it comes");
    assert_eq!(come.event.as_ref(), Ok(&event));
    feed.ack(come.handle).await.unwrap();
    println!("it came");
}
