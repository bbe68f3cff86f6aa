//! PostgreSQL from Debian's packages. Another version is another line of [`Postgres`].

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::cache::Cache;
use super::command::{output, version};
use super::debian::Packages;
use super::place::{Nobody, Place};
use super::{Installed, Running, Server};

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

/// What survives a kill of the server, and nothing that only a power cut would need.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "wal_level=logical",
    "max_connections=200",
    "shared_buffers=64MB",
    "logging_collector=off",
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
        cache.once(&template(self.name), &format!("{version} C UTF8"), |folder| {
            let mut initdb = cache.command(prefix.join(self.bin).join("initdb"));
            initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
            initdb.args(["--no-sync", "--no-instructions", "--wal-segsize=1", "--pgdata"]);
            initdb.arg(folder.join("data")).current_dir("/");
            if let Some(nobody) = Nobody::if_root()? {
                nobody.own(folder)?;
                nobody.run(&mut initdb);
            }
            output(&mut initdb).map(drop)
        })?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let bin = installed.prefix.join(self.bin);
        let cached = installed.prefix.parent().context("the cache")?.join(template(self.name));
        let data = place.folder.join("data");
        output(place.command("cp")?.arg("-a").arg(cached.join("data")).arg(&data))?;
        let mut postgres = place.command(bin.join("postgres"))?;
        postgres.arg("-D").arg(&data).arg("-p").arg(place.address.port().to_string());
        for setting in SETTINGS {
            postgres.args(["-c", setting]);
        }
        if let Some(nobody) = Nobody::if_root()? {
            nobody.own(&place.folder)?;
            nobody.run(&mut postgres);
        }
        let details = BTreeMap::from([
            ("url", format!("postgres://postgres@{}/postgres", place.address)),
            ("psql", bin.join("psql").display().to_string()),
        ]);
        Ok(Running { child: postgres.spawn().context("postgres does not start")?, details })
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

fn template(name: &str) -> String {
    format!("{name}-template")
}
