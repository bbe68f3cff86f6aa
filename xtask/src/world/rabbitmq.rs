//! RabbitMQ from Debian's packages, with what a reader in Python needs.
//!
//! The server's own scripts are left out: they put shells between us and the server, and look for
//! their files in `/`. What is started is the virtual machine itself, so its process is the server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::Cache;
use super::debian::{Packages, find};
use super::place::Place;
use super::python::Python;
use super::recipe::{DATA, PORT, PORTS, Recipe};
use super::{Installed, Running, Server, template};

const PACKAGES: Packages =
    Packages { suite: "sid", names: &["rabbitmq-server"], programs: &[PROGRAMS] };

/// Where Erlang has its programs, which start each other by their paths.
const PROGRAMS: &str = "usr/lib/erlang/erts-*/bin";

/// Where the server has its libraries.
const SERVER: &str = "usr/lib/rabbitmq/lib/rabbitmq_server-*";

/// The client of the server's own tutorials, and the official CloudEvents SDK.
const PYTHON: Python =
    Python { name: "rabbitmq-python", packages: &["pika==1.4.4", "cloudevents==2.2.0"] };

/// The account of the tests, which may do everything.
const USER: &str = "postbox";
const PASSWORD: &str = "p0stbox-of-the-world";

/// What lets one call functions of the server, as its own tools do. Nobody else reaches its port.
const COOKIE: &str = "postboxworld";

/// The node asks a registry of names before it starts, and its own way of starting one fails here.
/// So one of its own stands beside it, and ends with it however that ends.
const WITH_REGISTRY: &str = r#"
setpriv --pdeathsig KILL "$BINDIR/epmd" -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
until "$BINDIR/epmd" -port "$ERL_EPMD_PORT" -names > /dev/null 2>&1; do sleep 0.01; done
exec "$@""#;

/// What the virtual machine is told: the server, two threads, and no busy waiting.
const MACHINE: &[&str] = &[
    "-noinput",
    "-s",
    "rabbit",
    "boot",
    "-boot",
    "start_sasl",
    "+W",
    "w",
    "+B",
    "i",
    "+S",
    "2:2",
    "+sbwt",
    "none",
    "+sbwtdcpu",
    "none",
    "+sbwtdio",
    "none",
    "-kernel",
    "inet_dist_use_interface",
    "{127,0,0,1}",
    "-kernel",
    "prevent_overlapping_partitions",
    "false",
    "-syslog",
    "logger",
    "[]",
    "-syslog",
    "syslog_error_logger",
    "false",
    "-rabbit",
    "vm_memory_high_watermark",
    "{absolute,\"512MB\"}",
    "-rabbit",
    "disk_free_limit",
    "{absolute,\"50MB\"}",
    "-rabbit",
    "default_user",
    "<<\"postbox\">>",
    "-rabbit",
    "default_pass",
    "<<\"p0stbox-of-the-world\">>",
    // Tests read what has just happened.
    "-rabbit",
    "collect_statistics_interval",
    "200",
    "-rabbitmq_management",
    "tcp_config",
];

/// The newest RabbitMQ in Debian.
pub(super) struct RabbitMq;

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        PYTHON.get(cache)?;
        let prefix = PACKAGES.unpacked(cache, self.name())?;
        let server = find(&prefix, SERVER);
        let name = server.file_name().and_then(|name| name.to_str());
        let version = name.and_then(|name| name.split('-').nth(1)).context("no RabbitMQ")?;
        template::make(cache, self.name(), &format!("{version} {COOKIE}"), |data| {
            fs::write(data.join("plugins"), "[rabbitmq_management].\n")?;
            fs::write(data.join("environment"), "")?;
            // It belongs to the user that the server runs as, who alone may read it.
            let mut cookie = Command::new("sh");
            cookie.args(["-c", "umask 277; printf %s \"$1\" > \"$2/.erlang.cookie\"", "sh"]);
            cookie.arg(COOKIE).arg(data);
            Ok(cookie)
        })?;
        Ok(Installed { version: version.to_owned(), prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let data = template::copy(installed, self.name(), place)?;
        let recipe = recipe(&installed.prefix)?;
        let [management, peers, ..] = place.more;
        let call = find(&installed.prefix, PROGRAMS).join("erl_call");
        let details = BTreeMap::from([
            ("url", format!("amqp://{USER}:{PASSWORD}@{}/%2f", place.address)),
            ("management", format!("http://{USER}:{PASSWORD}@127.0.0.1:{management}")),
            ("peers", peers.to_string()),
            ("call", call.display().to_string()),
            ("cookie", COOKIE.to_owned()),
            ("python", PYTHON.program(installed)?.display().to_string()),
            ("template", template::path(installed, self.name())?.display().to_string()),
            ("recipe", recipe.told()?),
        ]);
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.logged("Server startup complete")
    }
}

fn recipe(prefix: &Path) -> Result<Recipe> {
    let [management, peers, registry, ..] = PORTS;
    let (programs, server) = (find(prefix, PROGRAMS), find(prefix, SERVER));
    let (root, programs) = (prefix.join("usr/lib/erlang"), programs.display().to_string());
    let plugins = server.join("plugins").display().to_string();
    let environment = [
        ("HOME", DATA.to_owned()),
        ("ROOTDIR", root.display().to_string()),
        ("BINDIR", programs.clone()),
        ("EMU", "beam".to_owned()),
        ("PROGNAME", "erl".to_owned()),
        ("ERL_LIBS", plugins.clone()),
        ("ERL_EPMD_PORT", registry.to_owned()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODENAME", "rabbit@localhost".to_owned()),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODE_PORT", PORT.to_owned()),
        ("RABBITMQ_DIST_PORT", peers.to_owned()),
        ("RABBITMQ_BASE", DATA.to_owned()),
        ("RABBITMQ_MNESIA_BASE", format!("{DATA}/store")),
        ("RABBITMQ_LOG_BASE", DATA.to_owned()),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_CONFIG_FILE", format!("{DATA}/none")),
        ("RABBITMQ_CONF_ENV_FILE", format!("{DATA}/environment")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", format!("{DATA}/plugins")),
        ("RABBITMQ_PID_FILE", format!("{DATA}/pid")),
        ("RABBITMQ_GENERATED_CONFIG_DIR", DATA.to_owned()),
        ("RABBITMQ_PLUGINS_DIR", plugins),
        ("RABBITMQ_FEATURE_FLAGS_FILE", format!("{DATA}/flags")),
    ];
    let environment = environment.map(|(name, value)| format!("{name}={value}"));
    let recipe = Recipe::new(Path::new("env"))?.with(environment);
    let recipe = recipe.with(["sh", "-c", WITH_REGISTRY, "sh"]);
    let recipe = recipe.with([format!("{programs}/erlexec")]).with(MACHINE.iter().copied());
    Ok(recipe.with([format!("[{{ip,\"127.0.0.1\"}},{{port,{management}}}]")]))
}
