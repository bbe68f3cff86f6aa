//! Redis from Debian's packages.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::cache::Cache;
use super::command::output;
use super::debian::Packages;
use super::place::Place;
use super::python::Python;
use super::recipe::{DATA, PORT, Recipe};
use super::{Installed, Running, Server, template};

/// A link to one of its tools, which is the same program.
const PROGRAM: &str = "usr/bin/redis-server";

const PACKAGES: Packages = Packages {
    suite: "sid",
    names: &["redis-server"],
    programs: &["usr/bin/redis-check-rdb", PROGRAM],
};

/// What a reader in Python needs.
const PYTHON: Python =
    Python { name: "redis-python", packages: &["redis==8.1.0", "cloudevents==2.2.0"] };

const PASSWORD: &str = "postbox-of-redis";

/// The settings that are worth a receipt.
const SETTINGS: &[&str] = &[
    "--bind",
    "127.0.0.1",
    "--daemonize",
    "no",
    "--save",
    "",
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--requirepass",
    PASSWORD,
];

/// The newest Redis in Debian.
pub(super) struct Redis;

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let prefix = PACKAGES.unpacked(cache, self.name())?;
        let told = output(cache.command(prefix.join(PROGRAM)).arg("--version"))?;
        let version = told.split_whitespace().find_map(|word| word.strip_prefix("v="));
        let version = version.context("Redis tells no version")?.to_owned();
        template::make(cache, self.name(), &version, |_| Ok(cache.command("true")))?;
        PYTHON.get(cache)?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let data = template::copy(installed, self.name(), place)?;
        let recipe = Recipe::new(&installed.prefix.join(PROGRAM))?;
        let recipe = recipe.with(["--dir", DATA, "--port", PORT]).with(SETTINGS.iter().copied());
        let details = BTreeMap::from([
            ("url", format!("redis://:{PASSWORD}@{}/0", place.address)),
            ("python", PYTHON.program(installed)?.display().to_string()),
            ("template", template::path(installed, self.name())?.display().to_string()),
            ("recipe", recipe.told()?),
        ]);
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.logged("Ready to accept connections")
    }
}
