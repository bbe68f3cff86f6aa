//! RocketMQ from Maven's jars: name server, broker and, if it has one, the proxy in one process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::cache::Cache;
use super::command::output;
use super::java::Java;
use super::place::Place;
use super::recipe::{DATA, PORT, PORTS, Recipe};
use super::{Installed, Running, Server, template};

/// RocketMQ 5, the newest, with its proxy. The client is the official one in Java for proxies, and
/// the CloudEvents SDK, whose binding for RocketMQ was never published: the consumer of the tests
/// fills in what is left of it.
pub(super) const FIVE: RocketMq = RocketMq {
    name: "rocketmq",
    version: "5.5.0",
    jars: &[
        "org.apache.rocketmq:rocketmq-namesrv:5.5.0",
        "org.apache.rocketmq:rocketmq-broker:5.5.0",
        "org.apache.rocketmq:rocketmq-proxy:5.5.0",
    ],
    client: &[
        "org.apache.rocketmq:rocketmq-client-java:5.2.0",
        "io.cloudevents:cloudevents-core:4.0.1",
        "org.slf4j:slf4j-nop:2.0.17",
    ],
    jvm: &[],
    logback: "org.apache.rocketmq.logging.ch.qos.logback",
    scheme: "rocketmq",
    ports: Ports { names: 1, broker: 5, below: 3, copies: 4, proxy: [0, 2] },
    ready: "rocketmq-proxy startup successfully",
};

const ONE: &str = include_str!("rocketmq/One.java");
const LOGBACK: &str = include_str!("rocketmq/logback.xml");

/// A quick start counts for more than speed later; certificates of its own would cost half of it.
const JVM: &[&str] = &[
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xms128m",
    "-Xmx512m",
    "-Dtls.server.mode=disabled",
];

/// One version of RocketMQ.
pub(super) struct RocketMq {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// What runs.
    pub(super) jars: &'static [&'static str],
    /// What a foreign consumer is made of.
    pub(super) client: &'static [&'static str],
    /// What its Java is told besides.
    pub(super) jvm: &'static [&'static str],
    /// The package of what it logs by.
    pub(super) logback: &'static str,
    /// What it speaks at its first port.
    pub(super) scheme: &'static str,
    pub(super) ports: Ports,
    /// What it says when it is ready.
    pub(super) ready: &'static str,
}

/// Which of the ports in a row each part has.
pub(super) struct Ports {
    pub(super) names: usize,
    pub(super) broker: usize,
    /// A broker takes the second one below its own, too.
    pub(super) below: usize,
    pub(super) copies: usize,
    /// gRPC, and the old protocol.
    pub(super) proxy: [usize; 2],
}

impl Ports {
    /// Returns the words that stand for the ports, as `One` is told them.
    fn words(&self) -> [&'static str; 6] {
        let [grpc, old] = self.proxy;
        let all = [grpc, self.names, old, self.below, self.copies, self.broker];
        all.map(|at| if at == 0 { PORT } else { PORTS[at - 1] })
    }
}

impl Server for RocketMq {
    fn name(&self) -> &'static str {
        self.name
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let java = Java::get(cache)?;
        let jars = java.jars(cache, self.name, self.jars)?;
        java.jars(cache, &client(self.name), self.client)?;
        let logback = LOGBACK.replace("{logback}", self.logback);
        let recipe = format!("{} {ONE} {logback} {}", self.version, java.program.display());
        cache.once(&launcher(self.name), &recipe, |folder| {
            fs::write(folder.join("One.java"), ONE)?;
            fs::write(folder.join("logback.xml"), logback)?;
            fs::write(folder.join("java"), java.program.display().to_string())?;
            let mut compile = cache.command(java.program.with_file_name("javac"));
            compile.arg("-d").arg(folder);
            output(compile.arg(folder.join("One.java"))).map(drop)
        })?;
        template::make(cache, self.name, self.version, |_| Ok(cache.command("true")))?;
        Ok(Installed { version: self.version.to_owned(), prefix: jars })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let jars = installed.prefix.display();
        let beside = |name: String| -> Result<PathBuf> {
            Ok(installed.prefix.parent().context("the cache")?.join(name))
        };
        let launcher = beside(launcher(self.name))?;
        let java = fs::read_to_string(launcher.join("java"))?;
        let data = template::copy(installed, self.name, place)?;
        let recipe = Recipe::new(Path::new("env"))?.with([format!("ROCKETMQ_HOME={DATA}")]);
        let recipe = recipe.with([java.clone()]).with(JVM.iter().chain(self.jvm).copied());
        let recipe = recipe.with([
            format!("-Duser.home={DATA}"),
            format!("-Djava.io.tmpdir={DATA}/tmp"),
            format!("-Drmq.logback.configurationFile={}/logback.xml", launcher.display()),
            "-cp".to_owned(),
            format!("{}:{jars}/*", launcher.display()),
            "One".to_owned(),
            DATA.to_owned(),
        ]);
        let recipe = recipe.with(self.ports.words());
        let at = |port: usize| format!("127.0.0.1:{}", place.ports.numbers[port]);
        let details = BTreeMap::from([
            ("url", format!("{}://{}", self.scheme, place.address)),
            ("template", template::path(installed, self.name)?.display().to_string()),
            ("recipe", recipe.told()?),
            ("names", at(self.ports.names)),
            ("broker", at(self.ports.broker)),
            ("java", java),
            ("client", beside(client(self.name))?.display().to_string()),
        ]);
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.logged(self.ready)
    }

    /// SIGTERM would take it ten seconds and more.
    fn farewell(&self) -> Signal {
        Signal::KILL
    }
}

fn launcher(name: &str) -> String {
    format!("{name}-launcher")
}

fn client(name: &str) -> String {
    format!("{name}-client")
}
