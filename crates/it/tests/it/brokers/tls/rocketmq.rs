//! RocketMQ that speaks TLS and nothing else, through its proxy and without one.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use broker::manner::{Manner, Naming, Subscription};
use broker::rocketmq::{Access, Options, RocketMqFeed, Shape, sink};
use event::{EventId, Feed};
use it::answer::{cause, paid, publish};
use it::quay::Quay;
use it::quay::rocketmq_tls::{Enforcing, Parts};
use tokio::time::sleep;

use super::Papers;

/// Java takes its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Where the client finds the url to publish to, and the parts of the server.
const PLACES: &str = "IT_TLS_ROCKETMQ";
/// How the urls begin.
const THROUGH: &str = "rocketmq+tls://";
const WITHOUT: &str = "rocketmq+remoting+tls://";

/// Lets a client publish, look and take, with a url and a file of CAs; returns what it says.
fn client(url: &str, parts: &Parts, trusted: &Path) -> String {
    let Parts { proxy, names, broker } = parts;
    let mut client = Command::new(std::env::current_exe().unwrap());
    client.args(["--exact", "brokers::tls::rocketmq::a_client_says_what_it_got", "--nocapture"]);
    client.env(PLACES, format!("{url} {proxy} {names} {broker}"));
    client.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
    let done = client.output().unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn named_otherwise(parts: &Parts) -> Parts {
    let [proxy, names, broker] = [&parts.proxy, &parts.names, &parts.broker]
        .map(|place| place.replace("127.0.0.1", "localhost"));
    Parts { proxy, names, broker }
}

fn through(parts: &Parts) -> String {
    format!("{THROUGH}{}?nameserver={}", parts.proxy, parts.names)
}

fn without(parts: &Parts) -> String {
    format!("{WITHOUT}{}", parts.names)
}

#[tokio::test]
async fn rocketmq_is_trusted_by_its_ca_and_name_through_a_proxy_and_without() {
    let papers = Papers::make();
    let mut server = Enforcing::start(&papers.text("server"), &papers.text("key")).unwrap();
    let (parts, ca) = (server.parts(), papers.path("ca"));
    let until = Instant::now() + PATIENCE;
    loop {
        let said = client(&through(&parts), &parts, &ca);
        if said.contains("it came") {
            assert!(said.contains("it is worth Durable"), "{said}");
            break;
        }
        server.lives().unwrap();
        assert!(said.contains("refused") && Instant::now() < until, "{said}");
        sleep(Duration::from_millis(100)).await;
    }
    let said = client(&without(&parts), &parts, &ca);
    assert!(said.contains("it came") && said.contains("it is worth Durable"), "{said}");

    let (other, elsewhere) = (papers.path("other"), named_otherwise(&parts));
    for url in [through, without] {
        for (parts, trusted, why) in
            [(&parts, &other, "UnknownIssuer"), (&elsewhere, &ca, "not valid for name")]
        {
            let said = client(&url(parts), parts, trusted);
            for who in ["the sink", "the feed"] {
                let refused = said.lines().find(|line| line.starts_with(who)).unwrap_or_default();
                assert!(refused.contains("sink-down") && refused.contains(why), "{why}: {said}");
            }
        }
    }
    // Nothing goes out of name server and broker without TLS.
    let plain = format!("{THROUGH}{}?plain-nameserver={}", parts.proxy, parts.names);
    let said = client(&plain, &parts, &ca);
    assert!(said.contains("it came") && said.contains("it is worth BestEffort"), "{said}");
}

/// The part of the client. Without places there is nothing to say.
#[tokio::test]
async fn a_client_says_what_it_got() {
    let Ok(places) = std::env::var(PLACES) else { return };
    let mut places = places.split(' ').map(str::to_owned);
    let mut next = || places.next().expect("the test names it");
    let (url, proxy, names, broker) = (next(), next(), next(), next());
    let quay = Parts { proxy, names, broker }.quay();
    let group = format!("group-{}", EventId::new());
    // Whoever is not trusted cannot make one either.
    let topic = quay.topic(&group).await.unwrap_or_else(|_| "unmade".to_owned());

    let manner = Manner { timeout: Duration::from_secs(30), ..Manner::new("it") };
    let access = Access { url, keys: None };
    let (naming, shape) = (Naming::default(), Shape::Fifo);
    let sink = sink(Options { access, topic: naming, shape, manner }).unwrap();
    let feed = RocketMqFeed::new(&quay.access, Subscription::new(group, &[&topic])).unwrap();

    let event = paid(&topic);
    let answer = publish(&*sink, &event).await;
    let sent = answer.is_ok();
    if !sent {
        let (is, cause) = cause(answer);
        println!("the sink is refused: {is}: {} {}", cause.code, cause.detail);
    }
    // Where nothing was sent, nothing comes.
    let patience = if sent { PATIENCE } else { Duration::from_secs(10) };
    match feed.next(patience).await {
        Ok(Some(come)) => {
            assert_eq!(come.event.as_ref(), Ok(&event));
            feed.ack(come.handle).await.unwrap();
            println!("it came");
        }
        Ok(None) => println!("the feed has nothing"),
        Err(refusal) => {
            let (is, cause) = cause(Err(refusal));
            println!("the feed is refused: {is}: {} {}", cause.code, cause.detail);
        }
    }
    match sink.worth().await {
        Ok(seen) => println!("it is worth {:?}: {:?}", seen.durability, seen.findings),
        Err(refusal) => println!("the look is refused: {refusal:?}"),
    }
    feed.close().await;
}
