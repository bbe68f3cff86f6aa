//! Kills and stops real relays on real databases, and counts what became of every event.
//!
//! `chaos [NAME …] [--events N] [--relays N] [--seed N] [--strategy NAME] [--calm]`, where the name
//! of a database is `sqlite` or that of a server of the world: `postgres`, `postgres-18`, `mysql`,
//! `mariadb`, `mariadb-10.5`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use it::chaos::{self, Plan};
use store::Strategy;

/// In how many rounds relays are struck, at the least.
const ROUNDS: usize = 5;

struct Asked {
    databases: Vec<String>,
    plan: Plan,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let asked = read(std::env::args().skip(1))?;
    let mut good = true;
    for database in asked.databases {
        let relays = if database == "sqlite" { 2 } else { asked.plan.relays };
        let plan = Plan { database, relays, ..asked.plan.clone() };
        let weather = if plan.calm { " --calm" } else { "" };
        say(&format!(
            "chaos {} --events {} --relays {} --seed {} --strategy {}{weather}",
            plan.database, plan.events, plan.relays, plan.seed, plan.strategy
        ));
        let outcome = chaos::run(&plan, &say).await?;
        write!(std::io::stdout(), "{outcome}")?;
        good &= outcome.is_good();
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows progress to whoever looks on; nothing can be done if nobody can see it.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Asked> {
    let plan = Plan {
        database: String::new(),
        strategy: Strategy::Own,
        events: 100_000,
        relays: 8,
        seed: fastrand::u64(..1 << 48),
        calm: false,
        rounds: ROUNDS,
    };
    let mut asked = Asked { databases: Vec::new(), plan };
    while let Some(arg) = args.next() {
        if arg == "--strategy" {
            let named = args.next().and_then(|name| Strategy::named(&name));
            asked.plan.strategy = named.context("--strategy NAME")?;
            continue;
        }
        let mut number = || {
            let given = args.next().with_context(|| format!("{arg} N"))?;
            given.parse::<u64>().with_context(|| format!("{arg} N"))
        };
        match arg.as_str() {
            "--events" => asked.plan.events = usize::try_from(number()?)?,
            "--relays" => asked.plan.relays = usize::try_from(number()?)?,
            "--seed" => asked.plan.seed = number()?,
            "--calm" => asked.plan.calm = true,
            name if !name.starts_with('-') => asked.databases.push(name.to_owned()),
            other => bail!(
                "{other:?} is unknown; write: \
                 chaos [NAME …] [--events N] [--relays N] [--seed N] [--strategy NAME] [--calm]"
            ),
        }
    }
    if asked.databases.is_empty() {
        asked.databases.push("postgres".into());
    }
    Ok(asked)
}
