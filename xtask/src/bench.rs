//! `cargo xtask bench`: starts the servers and hands over to the bench program of the crate `it`.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::world::{Run, World};
use crate::{cargo, interrupt, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure: sqlite; or stores, and then which of sqlite, postgres, postgres-18, mysql,
    /// mariadb, mariadb-10.5 if not most; or brokers, and then which of rocketmq, kafka, rabbitmq,
    /// nats, redis, http if not all; or chart and a page, whose tables are drawn beside it
    #[arg(default_value = "sqlite")]
    what: Vec<String>,
    /// Which parts of a store, with commas between them: drains, strategies, history, relays,
    /// producers, rss, latency, snapshot, backlog, due; all but the last two if nothing is said
    #[arg(long)]
    only: Option<String>,
    /// Prints one flat JSON object, name to ratio, instead of a table
    #[arg(long)]
    json: bool,
    /// Prints the table as the pages of docs/benchmarks hold it
    #[arg(long)]
    page: bool,
    /// Draws the ratios of one store, or of brokers, as SVG into a file
    #[arg(long)]
    chart: Option<String>,
    /// How many events each measurement drains: 100000, from PostgreSQL 400000, and with a snapshot
    /// open 600000; to brokers 50000 to 300000, as many as take seconds
    #[arg(long)]
    events: Option<u64>,
    /// How many rows are much: for history and due 1000000, for backlog 5000000
    #[arg(long)]
    behind: Option<u64>,
}

pub(crate) fn bench(args: &Args) -> Result<ExitCode> {
    let run = Run::open(&root())?;
    interrupt::listen(run.folder())?;
    let servers = args.servers();
    let _world = match servers.is_empty() {
        true => None,
        false => Some(World::start_all(&run, &servers)?),
    };
    // What is shipped is measured, and some of it as the program itself.
    let mut build = run.command(cargo().get_program());
    build.current_dir(root()).args(["build", "--profile", "dist"]);
    build.args(["--package", "postbox-cli", "--package", "postbox-it", "--bins"]);
    if !build.status().context("cargo does not start")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    let mut command = run.command(root().join("target/dist/bench"));
    command.current_dir(root()).env("POSTBOX_WORLD", run.file());
    command.args(&args.what);
    for (name, wanted) in [("--json", args.json), ("--page", args.page)] {
        command.args(wanted.then_some(name));
    }
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    for (name, given) in [
        ("--only", args.only.clone()),
        ("--chart", args.chart.clone()),
        ("--events", number(args.events)),
        ("--behind", number(args.behind)),
    ] {
        command.args(given.iter().flat_map(|given| [name, given]));
    }
    let status = command.status().context("the program does not start")?;
    interrupt::check()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    /// Returns the servers whose programs are needed.
    fn servers(&self) -> Vec<String> {
        let what: Vec<&str> = self.what.iter().map(String::as_str).collect();
        let named = match what[..] {
            ["stores"] => vec!["postgres", "mysql", "mariadb"],
            ["stores", ref names @ ..] => names.to_vec(),
            ["brokers"] => vec!["postgres", "rocketmq", "kafka", "rabbitmq", "nats", "redis"],
            ["brokers", ref names @ ..] => [&["postgres"], names].concat(),
            _ => Vec::new(),
        };
        let served = |name: &&str| !["sqlite", "http"].contains(name);
        named.into_iter().filter(served).map(str::to_owned).collect()
    }
}
