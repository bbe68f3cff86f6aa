//! RabbitMQ by `amqps://`, and its management plugin by `https://`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use broker::manner::{Manner, Naming, Subscription};
use broker::rabbitmq::{FeedOptions, Options, RabbitMq, RabbitMqFeed};
use event::{Answer, EventId, Feed, Secret, Sink};
use it::answer::{cause, paid, publish};
use it::instance::Instance;
use it::world::need;
use tokio::time::sleep;

use super::Papers;

const PATIENCE: Duration = Duration::from_secs(120);
/// Where the client finds the broker, and the plugin.
const PLACES: &str = "IT_TLS_RABBITMQ";

/// A server that speaks TLS beside what it speaks in the world.
struct Both {
    /// By TLS, and without.
    broker: [String; 2],
    plugin: String,
    _server: Instance,
}

impl Both {
    fn start(papers: &Papers) -> Both {
        let [certificate, key] = ["server", "key"].map(|name| papers.text(name));
        let own = format!("{{certfile,\"{certificate}\"}},{{keyfile,\"{key}\"}}");
        let (broker, plugin) = ("[{\"127.0.0.1\",{port5}}]", "{ip,\"127.0.0.1\"},{port,{port6}}");
        let (shown, plugin) = (format!("[{own}]"), format!("[{plugin},{own}]"));
        let more = ["-rabbit", "ssl_listeners", broker, "-rabbit", "ssl_options", &shown];
        let more = [&more[..], &["-rabbitmq_management", "ssl_config", &plugin]].concat();
        let server = Instance::start_with("rabbitmq", &more).unwrap();
        let [plain, _, _, _, tls, plugin] = server.ports;
        let at = |url: &str, was: u16, port: u16| url.replace(&was.to_string(), &port.to_string());
        let secure = at(&server.url, plain, tls).replace("amqp://", "amqps://");
        let shared = need("rabbitmq").detail("management").to_owned();
        let (front, _) = shared.rsplit_once(':').unwrap();
        let plugin = format!("{}:{plugin}", front.replace("http://", "https://"));
        Both { broker: [secure, server.url.clone()], plugin, _server: server }
    }

    fn client(&self, secure: bool, elsewhere: bool, trusted: &Path) -> String {
        let named = |url: &str| match elsewhere {
            true => url.replace("127.0.0.1", "localhost"),
            false => url.to_owned(),
        };
        let broker = if secure { named(&self.broker[0]) } else { self.broker[1].clone() };
        let mut client = Command::new(std::env::current_exe().unwrap());
        let name = "brokers::tls::rabbitmq::a_client_says_what_it_got";
        client.args(["--exact", name, "--nocapture"]);
        client.env(PLACES, format!("{broker} {}", named(&self.plugin)));
        client.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
        let done = client.output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

#[tokio::test]
async fn rabbitmq_and_its_plugin_are_trusted_by_their_ca_and_name() {
    let papers = Papers::make();
    let (server, ca) = (Both::start(&papers), papers.path("ca"));
    let until = Instant::now() + PATIENCE;
    loop {
        let said = server.client(true, false, &ca);
        // When it has just started, the plugin tells nothing yet.
        if said.contains("it came") && said.contains("it is worth Durable") {
            break;
        }
        assert!(said.contains("is refused") && Instant::now() < until, "{said}");
        sleep(Duration::from_millis(100)).await;
    }
    let other = papers.path("other");
    for (elsewhere, trusted, why) in
        [(false, &other, "UnknownIssuer"), (true, &ca, "not valid for name")]
    {
        let refused = |said: &str, who: &str| {
            let line = said.lines().find(|line| line.starts_with(who)).unwrap_or_default();
            assert!(line.contains("sink-down") && line.contains(why), "{who}, {why}: {said}");
            assert!(!line.contains("p0stbox"), "{line}");
        };
        let said = server.client(true, elsewhere, trusted);
        refused(&said, "the sink");
        refused(&said, "the feed");
        // Whoever is let in by the broker may still not be by the plugin.
        let said = server.client(false, elsewhere, trusted);
        assert!(said.contains("it came"), "{said}");
        refused(&said, "the look");
    }
}

fn refused(who: &str, answer: Answer) -> String {
    let (is, cause) = cause(answer);
    format!("{who} is refused: {is}: {} {}", cause.code, cause.detail)
}

/// The part of the client. Without places there is nothing to say.
#[tokio::test]
async fn a_client_says_what_it_got() {
    let Ok(places) = std::env::var(PLACES) else { return };
    let (broker, plugin) = places.split_once(' ').unwrap();
    let (broker, plugin) = (Secret::new(broker), Secret::new(plugin));
    let topic = format!("topic-{}", EventId::new());
    let subscription = Subscription::new("g", &[&topic]);
    let feed = FeedOptions::new(broker.clone(), &*topic, subscription);
    let feed = RabbitMqFeed::new(feed).unwrap();
    if let Err(refusal) = feed.declare().await {
        println!("{}", refused("the feed", Err(refusal)));
    }
    let (naming, manner) = (Naming::default(), Manner::new("it"));
    let exchange = topic.clone();
    let options = Options { url: broker, exchange, topic: naming, declare: true, manner };
    let sink = RabbitMq::new(options).unwrap().with_management(&plugin).unwrap();
    let event = paid(&topic);
    if let Err(refusal) = publish(&sink, &event).await {
        return println!("{}", refused("the sink", Err(refusal)));
    }
    let come = feed.next(PATIENCE).await.unwrap().expect("it comes");
    assert_eq!(come.event.as_ref(), Ok(&event));
    feed.ack(come.handle).await.unwrap();
    println!("it came");
    match sink.inspect().await {
        Ok(seen) => println!("it is worth {:?}", seen.durability),
        Err(refusal) => println!("{}", refused("the look", Err(refusal))),
    }
    feed.close().await;
}
