//! NATS with JetStream, from Debian's packages.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::cache::Cache;
use super::command::output;
use super::debian::Packages;
use super::place::Place;
use super::python::Python;
use super::recipe::{DATA, PORT, Recipe};
use super::{Installed, Running, Server, template};

const PROGRAM: &str = "usr/sbin/nats-server";

const PACKAGES: Packages = Packages { suite: "sid", names: &["nats-server"], programs: &[PROGRAM] };

/// What a reader in Python needs.
const PYTHON: Python =
    Python { name: "nats-python", packages: &["nats-py==2.16.0", "cloudevents==2.2.0"] };

/// The settings that are worth a receipt, and two accounts: one that may ask the server how it
/// writes to its disk, and one, as most are, that may not.
const CONFIG: &str = "\
server_name: postbox
jetstream { max_mem: 256MB, max_file: 4GB, sync_interval: always }
system_account: SYS
accounts {
  SYS: {
    users: [{ user: system, password: system }]
    exports: [{ service: \"$SYS.REQ.SERVER.PING.JSZ\" }]
  }
  POSTBOX: {
    jetstream: enabled
    users: [{ user: postbox, password: postbox-of-nats }]
    imports: [{ service: { account: SYS, subject: \"$SYS.REQ.SERVER.PING.JSZ\" } }]
  }
  PLAIN: { jetstream: enabled, users: [{ user: plain, password: plain-of-nats }] }
}
";

/// The newest NATS in Debian.
pub(super) struct Nats;

impl Server for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let prefix = PACKAGES.unpacked(cache, self.name())?;
        let told = output(cache.command(prefix.join(PROGRAM)).arg("--version"))?;
        let (_, version) = told.trim().rsplit_once('v').context("NATS tells no version")?;
        let version = version.to_owned();
        template::make(cache, self.name(), &format!("{version} {CONFIG}"), |data| {
            let config = data.with_file_name("config");
            fs::write(&config, CONFIG)?;
            let mut copy = cache.command("cp");
            copy.arg(config).arg(data.join("config"));
            Ok(copy)
        })?;
        PYTHON.get(cache)?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let data = template::copy(installed, self.name(), place)?;
        let recipe = Recipe::new(&installed.prefix.join(PROGRAM))?;
        let recipe = recipe.with(["-c".to_owned(), format!("{DATA}/config")]);
        let recipe = recipe.with(["-a", "127.0.0.1", "-p", PORT]);
        let recipe = recipe.with(["-sd".to_owned(), format!("{DATA}/store")]);
        let address = place.address;
        let details = BTreeMap::from([
            ("url", format!("nats://postbox:postbox-of-nats@{address}")),
            ("plain", format!("nats://plain:plain-of-nats@{address}")),
            ("python", PYTHON.program(installed)?.display().to_string()),
            ("template", template::path(installed, self.name())?.display().to_string()),
            ("recipe", recipe.told()?),
        ]);
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.logged("Server is ready")
    }
}
