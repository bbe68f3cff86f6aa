//! `postbox migrate`: makes the tables, or prints the statements that would.

use clap::Args;
use serde_json::json;
use store::Accounts;

use crate::args::{Global, Which};
use crate::failure::End;
use crate::out::Out;
use crate::outboxes::{self, Chosen};
use crate::table::Tone;

/// Make the tables of each outbox, or bring them up to date.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  postbox migrate                                every outbox of postbox.toml
  postbox migrate --url sqlite:orders.sqlite3
  postbox migrate --print > outbox.sql           for your own migrations; needs no config
  postbox migrate --grants --service shop        the rights of the relay and of the service")]
pub(crate) struct Migrate {
    /// Print the statements for an empty database, and change nothing.
    #[arg(long)]
    print: bool,
    /// Print the statements that give accounts the rights they need, and change nothing.
    #[arg(long, conflicts_with = "print")]
    grants: bool,
    /// The relay's account.
    #[arg(long, value_name = "ACCOUNT", default_value = "postbox", requires = "grants")]
    relay: String,
    /// The account of the service that puts events down and takes them in.
    #[arg(long, value_name = "ACCOUNT", default_value = "service", requires = "grants")]
    service: String,
    #[command(flatten)]
    which: Which,
}

impl Migrate {
    /// Migrates each outbox, the others even if one fails.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let mut end = End::Fine;
        for chosen in self.choose(global, out)? {
            let done = match self.text() {
                Some(text) => print(&chosen, out, &text).await,
                None => migrate(&chosen, out).await,
            };
            if let Err(error) = done {
                let store = error.downcast::<event::StoreError>()?;
                out.aside(Tone::Bad, format!("✗ {}: {store}", chosen.name));
                if out.json {
                    out.value(&json!({ "outbox": chosen.name, "problem": store.cause() }))?;
                }
                end = End::Wrong;
            }
        }
        Ok(end)
    }

    /// Returns what is printed instead of done.
    fn text(&self) -> Option<Text> {
        let accounts = || Accounts { relay: self.relay.clone(), service: self.service.clone() };
        match (self.print, self.grants) {
            (true, _) => Some(Text::Tables),
            (_, true) => Some(Text::Grants(accounts())),
            _ => None,
        }
    }

    /// Chooses the outboxes; statements can be printed for the usual names without any config.
    fn choose(&self, global: &Global, out: Out) -> anyhow::Result<Vec<Chosen>> {
        let named = self.which.url.is_some() || self.which.outbox.is_some();
        if !self.print || named || global.config.exists() {
            return outboxes::choose(global, &self.which);
        }
        let setup = store::Setup::new("sqlite:outbox.sqlite3");
        let file = global.config.display();
        let text = format!("There is no config {file}: these make the tables of {}.", setup.table);
        out.aside(Tone::Dim, text);
        Ok(vec![Chosen { name: setup.table.clone(), setup }])
    }
}

/// Which statements are printed.
enum Text {
    Tables,
    Grants(Accounts),
}

async fn print(chosen: &Chosen, out: Out, text: &Text) -> anyhow::Result<()> {
    let opened = chosen.handle().await?;
    let statements = match text {
        Text::Tables => opened.outbox.migration(),
        Text::Grants(accounts) => opened.outbox.grants(accounts),
    };
    opened.outbox.close().await;
    if out.json {
        out.value(&json!({ "outbox": opened.name, "statements": statements }))?;
    } else {
        out.line(format!("-- {}\n{}", opened.name, statements.trim_end()))?;
    }
    Ok(())
}

async fn migrate(chosen: &Chosen, out: Out) -> anyhow::Result<()> {
    let opened = chosen.open().await?;
    let before = opened.outbox.schema().await?.found;
    let schema = opened.outbox.migrate().await?;
    opened.outbox.close().await;
    if out.json {
        let (from, to) = (before, schema.found);
        out.value(&json!({ "outbox": opened.name, "from": from, "to": to }))?;
        return Ok(());
    }
    let change = match before {
        0 => format!("tables made (schema {})", schema.found),
        same if same == schema.found => format!("up to date (schema {same})"),
        older => format!("schema {older} is now {}", schema.found),
    };
    out.line(format!("{} {}: {change}", out.paint(Tone::Good, "✓"), opened.name))?;
    Ok(())
}
