//! PostgreSQL from Debian's packages. Another version is another constant here.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use rustix::process::Signal;

use super::cache::Cache;
use super::command::version;
use super::debian::Packages;
use super::place::Place;
use super::recipe::{DATA, PORT, Recipe};
use super::{Installed, Running, Server, template};

/// PostgreSQL 13, as Debian 11 has it: the oldest that an outbox works with.
pub(super) const THIRTEEN: Postgres = Postgres {
    name: "postgres-13",
    bin: "usr/lib/postgresql/13/bin",
    packages: Packages {
        suite: "bullseye",
        names: &["postgresql-13"],
        programs: &["usr/lib/postgresql/13/bin"],
    },
};

/// PostgreSQL 15, as Debian 12 has it.
pub(super) const FIFTEEN: Postgres = Postgres {
    name: "postgres",
    bin: "usr/lib/postgresql/15/bin",
    packages: Packages {
        suite: "bookworm",
        names: &["postgresql-15"],
        programs: &["usr/lib/postgresql/15/bin"],
    },
};

/// PostgreSQL 18, the newest in Debian.
pub(super) const EIGHTEEN: Postgres = Postgres {
    name: "postgres-18",
    bin: "usr/lib/postgresql/18/bin",
    packages: Packages {
        suite: "sid",
        names: &["postgresql-18"],
        programs: &["usr/lib/postgresql/18/bin"],
    },
};

/// What survives a kill of the server, and nothing that only a power cut would need.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "wal_level=logical",
    "max_connections=200",
    "max_prepared_transactions=20",
    "shared_buffers=64MB",
    "logging_collector=off",
    // What a test asks is answered sooner than it is compiled; and of Debian 11, the compiler's
    // libraries lead to those of the machine.
    "jit=off",
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=on",
];

/// One version of PostgreSQL.
pub(super) struct Postgres {
    name: &'static str,
    bin: &'static str,
    packages: Packages,
}

impl Server for Postgres {
    fn name(&self) -> &'static str {
        self.name
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let prefix = self.packages.unpacked(cache, self.name)?;
        let version = version(&mut cache.command(prefix.join(self.bin).join("postgres")))?;
        template::make(cache, self.name, &format!("{version} C UTF8 usual WAL"), |data| {
            let mut initdb = cache.command(prefix.join(self.bin).join("initdb"));
            initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
            initdb.args(["--no-sync", "--pgdata"]);
            initdb.arg(data);
            Ok(initdb)
        })?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let bin = installed.prefix.join(self.bin);
        let data = template::copy(installed, self.name, place)?;
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let recipe = Recipe::new(&bin.join("postgres"))?;
        let recipe = recipe.with(["-D", DATA, "-p", PORT]).with(settings);
        let details = BTreeMap::from([
            ("url", format!("postgres://postgres@{}/postgres", place.address)),
            ("psql", bin.join("psql").display().to_string()),
            ("template", template::path(installed, self.name)?.display().to_string()),
            ("recipe", recipe.told()?),
        ]);
        Ok(Running { child: recipe.spawn(&data, place)?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        let state = fs::read_to_string(place.folder.join("data/postmaster.pid"));
        state.is_ok_and(|state| state.lines().nth(7).is_some_and(|line| line.trim() == "ready"))
    }

    /// SIGTERM would wait for clients to leave.
    fn farewell(&self) -> Signal {
        Signal::INT
    }
}
