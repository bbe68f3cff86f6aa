//! The command line: what can be asked, and its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands;

/// An event reaches its destination if, and only if, your transaction committed.
#[derive(Debug, Parser)]
#[command(
    name = "postbox",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  postbox demo                                  see all of it work, with nothing installed
  postbox migrate --url sqlite:orders.sqlite3   make the tables
  postbox put order.paid OrderPaid '{\"total\": 42}' --key 123 --url sqlite:orders.sqlite3
  postbox run -c postbox.toml                   relay
  postbox dead list                             what was given up, and why

Exit codes:
  0  fine
  1  something is wrong, or was not found
  2  the command line or the config is wrong"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// The config file.
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        env = "POSTBOX_CONFIG",
        default_value = "postbox.toml",
        help_heading = "Everywhere"
    )]
    pub(crate) config: PathBuf,
    /// Answer in JSON: one document, or one per line for lists.
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
}

/// Which outbox a command is about.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Which {
    /// The database, instead of a config file: sqlite:PATH, or postgres://USER@HOST/DATABASE, or
    /// the same with mysql: or mariadb:.
    #[arg(long, value_name = "URL", help_heading = "Which outbox")]
    pub(crate) url: Option<String>,
    /// The table, together with --url.
    #[arg(long, value_name = "NAME", requires = "url", help_heading = "Which outbox")]
    pub(crate) table: Option<String>,
    /// The outbox, by its name in the config.
    #[arg(long, value_name = "NAME", conflicts_with = "url", help_heading = "Which outbox")]
    pub(crate) outbox: Option<String>,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::Demo),
    Run(commands::run::Run),
    Migrate(commands::migrate::Migrate),
    Doctor(commands::doctor::Doctor),
    Status(commands::status::Status),
    #[command(subcommand)]
    Events(commands::events::Events),
    #[command(subcommand)]
    Dead(commands::dead::Dead),
    Put(commands::put::Put),
    Explain(commands::explain::Explain),
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    Completions(commands::completions::Completions),
}
