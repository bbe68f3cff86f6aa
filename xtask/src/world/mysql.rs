//! MySQL from Debian's packages, and what MariaDB has in common with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use rustix::process::Signal;

use super::cache::Cache;
use super::command::version;
use super::debian::Packages;
use super::place::Place;
use super::recipe::{DATA, PORT, Recipe};
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
    "--innodb-flush-method=nosync",
];

/// SIGTERM would first write to its folder, for seconds, what goes with the folder.
pub(super) const FAREWELL: Signal = Signal::KILL;

const PROGRAM: &str = "usr/sbin/mysqld";

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

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
        let version = version(&mut mysqld(cache, &prefix))?;
        template::make(cache, self.name(), &format!("{version} {ACCOUNT}"), |data| {
            let accounts = data.with_file_name("accounts.sql");
            fs::write(&accounts, ACCOUNT)?;
            let mut init = mysqld(cache, &prefix);
            init.args(base(&prefix)).arg(format!("--datadir={}", data.display()));
            init.args(["--initialize-insecure", "--innodb-redo-log-capacity=8M"]);
            init.arg(format!("--init-file={}", accounts.display()));
            Ok(init)
        })?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let prefix = &installed.prefix;
        let library = format!("{LIBRARY_PATH}={}", private(prefix));
        let program = prefix.join(PROGRAM).display().to_string();
        let recipe = Recipe::new(Path::new("env"))?.with([library, program]).with(base(prefix));
        let recipe = recipe.with(["--mysqlx=OFF", "--innodb-redo-log-capacity=8M"]);
        run(recipe.with(["--innodb-doublewrite=OFF"]), self.name(), installed, place)
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        ready(place)
    }

    fn farewell(&self) -> Signal {
        FAREWELL
    }
}

/// Starts a server of the family.
pub(super) fn run(
    recipe: Recipe,
    name: &str,
    installed: &Installed,
    place: &Place<'_>,
) -> Result<Running> {
    let data = template::copy(installed, name, place)?;
    // A server that starts deletes what others have in a folder of temporary files that they share.
    let recipe = recipe.with([format!("--datadir={DATA}"), format!("--tmpdir={DATA}")]);
    let recipe = recipe.with([format!("--port={PORT}")]);
    let recipe = recipe.with(SETTINGS.iter().copied());
    let details = BTreeMap::from([
        ("url", format!("mysql://postbox:postbox@{}/postbox", place.address)),
        ("template", template::path(installed, name)?.display().to_string()),
        ("recipe", recipe.told()?),
    ]);
    Ok(Running { child: recipe.spawn(&data, place)?, details })
}

/// Tells whether a server of the family answers.
pub(super) fn ready(place: &Place<'_>) -> bool {
    place.logged("ready for connections")
}

fn mysqld(cache: &Cache<'_>, prefix: &Path) -> Command {
    let mut command = cache.command(prefix.join(PROGRAM));
    command.env(LIBRARY_PATH, private(prefix));
    command
}

/// Returns where it keeps libraries that only the environment leads the loader to.
fn private(prefix: &Path) -> String {
    prefix.join("usr/lib/mysql/private").display().to_string()
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
