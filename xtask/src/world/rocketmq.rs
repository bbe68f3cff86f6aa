//! RocketMQ from Maven's jars: name server, broker and proxy in one process.

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

const VERSION: &str = "5.5.0";

/// The broker and the proxy, and what else they need to run.
const JARS: &[&str] = &[
    "org.apache.rocketmq:rocketmq-namesrv:5.5.0",
    "org.apache.rocketmq:rocketmq-broker:5.5.0",
    "org.apache.rocketmq:rocketmq-proxy:5.5.0",
];

/// The official client in Java, and the CloudEvents SDK. Its binding for RocketMQ was never
/// published, so the consumer of the tests fills in what is left of it.
const CLIENT: &[&str] = &[
    "org.apache.rocketmq:rocketmq-client-java:5.2.0",
    "io.cloudevents:cloudevents-core:4.0.1",
    "org.slf4j:slf4j-nop:2.0.17",
];

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

/// The newest RocketMQ 5.
pub(super) struct RocketMq;

impl Server for RocketMq {
    fn name(&self) -> &'static str {
        "rocketmq"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let java = Java::get(cache)?;
        let jars = java.jars(cache, self.name(), JARS)?;
        java.jars(cache, &client(self.name()), CLIENT)?;
        let recipe = format!("{VERSION} {ONE} {LOGBACK} {}", java.program.display());
        cache.once(&launcher(self.name()), &recipe, |folder| {
            fs::write(folder.join("One.java"), ONE)?;
            fs::write(folder.join("logback.xml"), LOGBACK)?;
            fs::write(folder.join("java"), java.program.display().to_string())?;
            let mut compile = cache.command(java.program.with_file_name("javac"));
            compile.arg("-cp").arg(format!("{}/*", jars.display())).arg("-d").arg(folder);
            output(compile.arg(folder.join("One.java"))).map(drop)
        })?;
        template::make(cache, self.name(), VERSION, |_| Ok(cache.command("true")))?;
        Ok(Installed { version: VERSION.to_owned(), prefix: jars })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let jars = installed.prefix.display();
        let beside = |name: String| -> Result<PathBuf> {
            Ok(installed.prefix.parent().context("the cache")?.join(name))
        };
        let launcher = beside(launcher(self.name()))?;
        let java = fs::read_to_string(launcher.join("java"))?;
        let data = template::copy(installed, self.name(), place)?;
        let recipe = Recipe::new(Path::new("env"))?.with([format!("ROCKETMQ_HOME={DATA}")]);
        let recipe = recipe.with([java.clone()]).with(JVM.iter().copied()).with([
            format!("-Duser.home={DATA}"),
            format!("-Djava.io.tmpdir={DATA}/tmp"),
            format!("-Drmq.logback.configurationFile={}/logback.xml", launcher.display()),
            "-cp".to_owned(),
            format!("{}:{jars}/*", launcher.display()),
            "One".to_owned(),
            DATA.to_owned(),
            PORT.to_owned(),
        ]);
        let recipe = recipe.with(PORTS);
        let [names, .., broker] = place.more;
        let details = BTreeMap::from([
            ("url", format!("rocketmq://{}", place.address)),
            ("template", template::path(installed, self.name())?.display().to_string()),
            ("recipe", recipe.told()?),
            ("names", format!("127.0.0.1:{names}")),
            ("broker", format!("127.0.0.1:{broker}")),
            ("java", java),
            ("client", beside(client(self.name()))?.display().to_string()),
        ]);
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.logged("rocketmq-proxy startup successfully")
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
