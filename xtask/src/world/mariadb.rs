//! MariaDB from Debian's packages. Another version is another constant here.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::cache::Cache;
use super::command::version;
use super::debian::Packages;
use super::place::Place;
use super::recipe::Recipe;
use super::{Installed, Running, Server, mysql, template};

/// MariaDB 10.11, as Debian 12 has it.
pub(super) const TEN_ELEVEN: MariaDb = MariaDb {
    name: "mariadb",
    packages: Packages { suite: "bookworm", names: &["mariadb-server-core"], programs: &[PROGRAM] },
};

/// MariaDB 10.5, as Debian 11 has it: the last without `SKIP LOCKED`.
pub(super) const TEN_FIVE: MariaDb = MariaDb {
    name: "mariadb-10.5",
    packages: Packages {
        suite: "bullseye",
        names: &["mariadb-server-core-10.5"],
        programs: &[PROGRAM],
    },
};

const PROGRAM: &str = "usr/sbin/mariadbd";

/// The files that make the system tables, in this order.
const SYSTEM: &[&str] = &[
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
];

/// One version of MariaDB.
pub(super) struct MariaDb {
    name: &'static str,
    packages: Packages,
}

impl Server for MariaDb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let prefix = self.packages.unpacked(cache, self.name)?;
        let version = version(&mut cache.command(prefix.join(PROGRAM)))?;
        let account = mysql::ACCOUNT;
        template::make(cache, self.name, &format!("{version} {account}"), |data| {
            let script = data.with_file_name("bootstrap.sql");
            fs::write(&script, bootstrap(&prefix)?)?;
            let mut init = cache.command(prefix.join(PROGRAM));
            init.args(base(&prefix)).arg(format!("--datadir={}", data.display()));
            init.args(["--bootstrap", "--enforce-storage-engine=", "--max-allowed-packet=8M"]);
            init.arg("--innodb-log-file-size=8M").stdin(File::open(&script)?);
            Ok(init)
        })?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let recipe = Recipe::new(&installed.prefix.join(PROGRAM))?.with(base(&installed.prefix));
        let recipe = recipe.with(["--innodb-log-file-size=8M"]);
        mysql::run(recipe, self.name, installed, place)
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        mysql::ready(place)
    }

    fn farewell(&self) -> Signal {
        mysql::FAREWELL
    }
}

/// What its own script `mariadb-install-db` would feed to the server. The accounts of the host
/// are left out, for a template belongs to no host.
fn bootstrap(prefix: &Path) -> Result<String> {
    let mut script = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n".to_owned();
    for name in SYSTEM {
        let file = prefix.join("usr/share/mysql").join(name);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for line in text.lines().filter(|line| !line.contains("@current_hostname")) {
            script.push_str(line);
            script.push('\n');
        }
    }
    Ok(script + "FLUSH PRIVILEGES;\n" + mysql::ACCOUNT)
}

fn base(prefix: &Path) -> Vec<String> {
    let usr = prefix.join("usr").display().to_string();
    vec![
        "--no-defaults".to_owned(),
        format!("--basedir={usr}"),
        format!("--lc-messages-dir={usr}/share/mysql"),
        format!("--character-sets-dir={usr}/share/mysql/charsets"),
    ]
}
