//! `cargo xtask bench`: hands over to the bench program of the crate `it`.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cargo;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure
    #[arg(default_value = "sqlite")]
    what: Vec<String>,
    /// Prints one flat JSON object, name to ratio, instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn bench(args: &Args) -> Result<ExitCode> {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "postbox-it", "--bin", "bench", "--"]);
    command.args(&args.what);
    if args.json {
        command.arg("--json");
    }
    let status = command.status().context("cargo does not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
