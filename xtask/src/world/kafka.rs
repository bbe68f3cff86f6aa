//! Kafka, the Java broker, as one node that is its own controller (KRaft), from Maven Central.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use rustix::process::Signal;

use super::cache::Cache;
use super::java::Java;
use super::place::Place;
use super::recipe::{DATA, PORT, PORTS, Recipe};
use super::{Installed, Running, Server, template};

const VERSION: &str = "4.3.1";

/// The broker, which has the client of its own language among its jars, and a log that speaks.
const BROKER: &[&str] =
    &["org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"];

/// What a consumer in Java reads our events with: the official client and the official SDK.
const READER: &[&str] = &[
    "org.apache.kafka:kafka-clients:4.3.1",
    "io.cloudevents:cloudevents-kafka:4.0.1",
    "org.slf4j:slf4j-nop:1.7.36",
];

/// Small and quick to start; what was acknowledged survives a kill. Topics are made by those who
/// need them, as in production. A broker that is silent for 9 s, as one may be on a busy machine,
/// is shut out; whoever kills brokers shortens that, for it is also how long one stays out that
/// comes back. Who has papers for TLS may open two doors more: `TLS`, and `SAFE` by SCRAM alone.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=\
PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,SAFE:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.safe.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_postbox=\"let-postbox-in\";
listener.name.sasl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.safe.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.safe.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
auto.create.topics.enable=false
num.partitions=4
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.index.size.max.bytes=65536
log.cleaner.dedupe.buffer.size=2097152
log.cleaner.threads=1
num.network.threads=2
num.io.threads=4
background.threads=2
broker.heartbeat.interval.ms=500
controlled.shutdown.enable=false
";

/// What `postbox` shows by SCRAM: by each mechanism another word, so that none passes for another.
const SCRAM: [(&str, &str); 2] =
    [("scram-sha-256", "let-postbox-in-by-256"), ("scram-sha-512", "let-postbox-in-by-512")];

const LOG: &str = "\
status=ERROR
rootLogger.level=WARN
rootLogger.appenderRefs=o
rootLogger.appenderRef.o.ref=O
appender.o.type=Console
appender.o.name=O
appender.o.layout.type=PatternLayout
appender.o.layout.pattern=%d %p %c{1} %m%n
logger.ks.name=kafka.server.KafkaRaftServer
logger.ks.level=INFO
";

const JVM: &[&str] = &[
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dlog4j2.disable.jmx=true",
];

/// The newest Kafka on Maven Central. Its first port is plain; the second asks for a password.
pub(super) struct Kafka;

impl Server for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let java = Java::get(cache)?;
        let prefix = java.jars(cache, self.name(), BROKER)?;
        java.jars(cache, "kafka-reader", READER)?;
        let recipe = format!("{VERSION} {SETTINGS} {LOG} {SCRAM:?}");
        template::make(cache, self.name(), &recipe, |data| {
            let settings = data.join("server.properties");
            fs::write(&settings, SETTINGS)?;
            fs::write(data.join("log4j2.properties"), LOG)?;
            // Formatting wants addresses, and keeps none of them.
            let whole = data.with_file_name("format.properties");
            let ports = |line: String| {
                let line = line.replace(PORT, "1").replace(PORTS[0], "2").replace(PORTS[1], "3");
                line.replace(DATA, &data.display().to_string()) + "\n"
            };
            let addresses: String = addresses().into_iter().map(ports).collect();
            fs::write(&whole, format!("{SETTINGS}{addresses}"))?;
            let mut format = cache.command(&java.program);
            format.args(JVM).arg("-cp").arg(jars(&prefix)).arg("kafka.tools.StorageTool");
            format.args(["format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"]).arg(whole);
            for (name, word) in SCRAM {
                let name = name.to_uppercase();
                format.arg("--add-scram").arg(format!("{name}=[name=postbox,password={word}]"));
            }
            Ok(format)
        })?;
        Ok(Installed { version: VERSION.to_owned(), prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let data = template::copy(installed, self.name(), place)?;
        let java = Java::program(installed)?;
        let mut recipe = Recipe::new(&java)?.with(JVM.iter().copied());
        recipe = recipe.with([format!("-Dlog4j2.configurationFile=file:{DATA}/log4j2.properties")]);
        recipe = recipe.with(["-cp", &jars(&installed.prefix), "kafka.Kafka"]);
        recipe = recipe.with([format!("{DATA}/server.properties")]);
        for address in addresses() {
            recipe = recipe.with(["--override".to_owned(), address]);
        }
        let mut details = BTreeMap::from([
            ("url", format!("kafka://{}", place.address)),
            ("guarded", format!("kafka://127.0.0.1:{}", place.more[0])),
            ("user", "postbox".to_owned()),
            ("password", "let-postbox-in".to_owned()),
            ("java", java.display().to_string()),
            ("reader", jars(&installed.prefix.with_file_name("kafka-reader"))),
            ("template", template::path(installed, self.name())?.display().to_string()),
            ("recipe", recipe.told()?),
        ]);
        details.extend(SCRAM.map(|(name, word)| (name, word.to_owned())));
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.logged("Kafka Server started")
    }

    /// SIGTERM would first write down, for a second, what goes with the folder.
    fn farewell(&self) -> Signal {
        Signal::KILL
    }
}

/// Returns the settings that differ between instances.
fn addresses() -> [String; 4] {
    let [guarded, controller, ..] = PORTS;
    let clients = format!("PLAINTEXT://127.0.0.1:{PORT},SASL://127.0.0.1:{guarded}");
    [
        format!("log.dirs={DATA}/logs"),
        format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
        format!("listeners={clients},CONTROLLER://127.0.0.1:{controller}"),
        format!("advertised.listeners={clients}"),
    ]
}

/// Returns the class path of a folder of jars; Java itself reads the star.
fn jars(folder: &Path) -> String {
    folder.join("*").display().to_string()
}
