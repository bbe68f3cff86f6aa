//! `cargo xtask chaos`: starts the servers and hands over to the chaos program of the crate `it`.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::world::{Run, World};
use crate::{cargo, interrupt, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Databases, one after the other: sqlite, postgres, postgres-18, mysql, mariadb, mariadb-10.5
    #[arg(default_value = "postgres")]
    databases: Vec<String>,
    /// How many events each database gets
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// How many relays work at once; a SQLite file always has two
    #[arg(long, default_value_t = 8)]
    relays: u64,
    /// Draws what happens again
    #[arg(long)]
    seed: Option<u64>,
    /// How relays divide the rows: own, skip_locked, cas, preempt
    #[arg(long, default_value = "own")]
    strategy: String,
    /// Kills and stops nobody, and lets no event come twice
    #[arg(long)]
    calm: bool,
}

pub(crate) fn chaos(args: &Args) -> Result<ExitCode> {
    let run = Run::open(&root())?;
    interrupt::listen(run.folder())?;
    let servers: Vec<String> =
        args.databases.iter().filter(|name| *name != "sqlite").cloned().collect();
    let _world = match servers.is_empty() {
        true => None,
        false => Some(World::start_all(&run, &servers)?),
    };
    let mut build = cargo();
    // Both at once, so that no crate is built with two sets of features.
    build.args(["build", "--release", "--package", "postbox-cli", "--package", "postbox-it"]);
    build.args(["--bin", "postbox", "--bin", "chaos"]);
    ensure!(build.status().context("cargo does not start")?.success(), "it does not build");
    let mut command = run.command(root().join("target/release/chaos"));
    command.env("POSTBOX_WORLD", run.file()).args(&args.databases);
    command.args(["--events", &args.events.to_string(), "--relays", &args.relays.to_string()]);
    command.args(["--strategy", &args.strategy]);
    if let Some(seed) = args.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if args.calm {
        command.arg("--calm");
    }
    let status = command.status().context("the program does not start")?;
    interrupt::check()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
