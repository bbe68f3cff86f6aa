//! MySQL from Debian's packages, and what MariaDB has in common with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::Cache;
use super::command::version;
use super::debian::Packages;
use super::place::{Nobody, Place};
use super::{Installed, Running, Server, template};

/// The account of the tests, which may do everything, and a database to start from.
pub(super) const ACCOUNT: &str = "\
CREATE USER 'postbox'@'%' IDENTIFIED BY 'postbox';
GRANT ALL ON *.* TO 'postbox'@'%' WITH GRANT OPTION;
CREATE DATABASE postbox;
";

/// What survives a kill of the server, and nothing that only a power cut would need.
const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--socket=socket",
    "--pid-file=pid",
    "--server-id=1",
    "--log-bin=log",
    "--binlog-format=ROW",
    "--sync-binlog=0",
    "--skip-name-resolve",
    "--max-connections=200",
    "--table-open-cache=400",
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=2",
];

const PROGRAM: &str = "usr/sbin/mysqld";

const PACKAGES: Packages =
    Packages { suite: "sid", names: &["mysql-server-core"], programs: &[PROGRAM] };

/// The newest MySQL in Debian.
pub(super) struct MySql;

impl Server for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let prefix = PACKAGES.unpacked(cache, self.name())?;
        let version = version(&mut mysqld(cache.command(prefix.join(PROGRAM)), &prefix))?;
        template::make(cache, self.name(), &format!("{version} {ACCOUNT}"), |data| {
            let accounts = data.with_file_name("accounts.sql");
            fs::write(&accounts, ACCOUNT)?;
            let mut init = mysqld(cache.command(prefix.join(PROGRAM)), &prefix);
            init.args(base(&prefix)).arg(format!("--datadir={}", data.display()));
            init.args(["--initialize-insecure", "--innodb-redo-log-capacity=8M"]);
            init.arg(format!("--init-file={}", accounts.display()));
            Ok(init)
        })?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let data = template::copy(installed, self.name(), place)?;
        // Two servers must not have one identity.
        fs::remove_file(data.join("auto.cnf")).context("auto.cnf")?;
        let prefix = &installed.prefix;
        let mut program = mysqld(place.command(prefix.join(PROGRAM))?, prefix);
        program.args(base(prefix));
        program.args(["--mysqlx=OFF", "--innodb-doublewrite=OFF", "--innodb-redo-log-capacity=8M"]);
        run(program, &data, place)
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        ready(place)
    }
}

/// Starts a server of the family on its data.
pub(super) fn run(mut program: Command, data: &Path, place: &Place<'_>) -> Result<Running> {
    program.arg(format!("--datadir={}", data.display()));
    program.arg(format!("--port={}", place.address.port())).args(SETTINGS);
    if let Some(nobody) = Nobody::if_root()? {
        nobody.run(&mut program);
    }
    let url = format!("mysql://postbox:postbox@{}/postbox", place.address);
    let child = program.spawn().context("the server does not start")?;
    Ok(Running { child, details: BTreeMap::from([("url", url)]) })
}

/// Tells whether a server of the family answers.
pub(super) fn ready(place: &Place<'_>) -> bool {
    place.logged("ready for connections")
}

/// Its private libraries lie where only the environment leads the loader.
fn mysqld(mut command: Command, prefix: &Path) -> Command {
    command.env("LD_LIBRARY_PATH", prefix.join("usr/lib/mysql/private"));
    command
}

fn base(prefix: &Path) -> Vec<String> {
    let usr = prefix.join("usr").display().to_string();
    vec![
        "--no-defaults".to_owned(),
        format!("--basedir={usr}"),
        format!("--lc-messages-dir={usr}/share/mysql"),
        format!("--character-sets-dir={usr}/share/mysql/charsets"),
        format!("--plugin-dir={usr}/lib/mysql/plugin"),
        "--secure-file-priv=".to_owned(),
    ]
}
