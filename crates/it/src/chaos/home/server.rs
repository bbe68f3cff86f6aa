//! A database of its own on a server of the world. What servers differ in is [`Words`], and nothing
//! here depends on which it is.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use async_trait::async_trait;
use store::Setup;

use super::{Home, Manners, Session, Watch, open};
use crate::world::Address;

/// How a server is spoken to: `{name}` is the database, and `{user}` a relay's account.
pub(super) struct Words {
    /// Make the database.
    pub(super) make: &'static [&'static str],
    /// Writes down who changes a row, beside the outbox in the new database. The relay's name is
    /// the third part of its account's.
    pub(super) notes: String,
    /// Make an account.
    pub(super) account: &'static [&'static str],
    /// Makes a session a producer's.
    pub(super) producer: &'static str,
    /// Shows which producers wait at this moment, and for which relay.
    pub(super) watch: Watch,
    pub(super) manners: Manners,
    /// Ends the database, whoever is in it.
    pub(super) drop: &'static [&'static str],
    /// Lists the accounts.
    pub(super) accounts: &'static str,
    /// Ends an account.
    pub(super) forget: &'static str,
}

pub(super) struct Database {
    server: Address,
    name: String,
    words: Words,
}

impl Database {
    pub(super) async fn make(server: &Address, words: Words) -> Result<Database> {
        let name = format!("chaos_{:012x}", fastrand::u64(..1 << 48));
        let home = Database { server: server.clone(), name, words };
        home.order(home.words.make, "").await?;
        let url = home.url(None)?;
        let outbox = store::open(&Setup::new(&*url)).await?;
        outbox.migrate().await?;
        outbox.close().await;
        open(&url).await?.run(&home.fill(&home.words.notes, "")).await?;
        Ok(home)
    }

    /// Tells the server something, outside of the database.
    async fn order(&self, words: &[&str], user: &str) -> Result<()> {
        let mut root = open(self.server.detail("url")).await?;
        for sql in words {
            root.run(&self.fill(sql, user)).await?;
        }
        Ok(())
    }

    fn fill(&self, words: &str, user: &str) -> String {
        words.replace("{name}", &self.name).replace("{user}", user)
    }

    /// Returns the url of the database for an account, or for whoever may do everything.
    fn url(&self, user: Option<&str>) -> Result<String> {
        let url = self.server.detail("url");
        let (scheme, rest) = url.split_once("://").context("a url with a scheme")?;
        let (owner, rest) = rest.split_once('@').context("a url with a user")?;
        let (host, _) = rest.split_once('/').context("a url with a database")?;
        Ok(format!("{scheme}://{}@{host}/{}", user.unwrap_or(owner), self.name))
    }
}

#[async_trait]
impl Home for Database {
    fn version(&self) -> String {
        self.server.version.clone()
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.server.socket)
    }

    fn manners(&self) -> Manners {
        self.words.manners
    }

    async fn producer(&self) -> Result<Box<dyn Session>> {
        let mut session = self.onlooker().await?;
        session.run(self.words.producer).await?;
        Ok(session)
    }

    async fn onlooker(&self) -> Result<Box<dyn Session>> {
        open(&self.url(None)?).await
    }

    async fn account(&self, relay: &str) -> Result<String> {
        let user = format!("{}_{relay}", self.name);
        self.order(self.words.account, &user).await?;
        self.url(Some(&user))
    }

    fn watch(&self) -> Option<Watch> {
        Some(self.words.watch)
    }

    async fn leave(&self) -> Result<()> {
        self.order(self.words.drop, "").await?;
        let mut root = open(self.server.detail("url")).await?;
        let ours = root.rows(&self.fill(self.words.accounts, "")).await?;
        for user in ours.into_iter().flatten().flatten() {
            root.run(&self.fill(self.words.forget, &user)).await?;
        }
        Ok(())
    }
}
