//! An outbox, whichever database it lives in.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use event::{
    Catalog, Cause, Chores, Code, Crowd, Event, Finding, Inbox, Millis, Order, Source, StoreError,
    Topics, scrub,
};

use crate::{Strategy, mysql, postgres, sqlite};

/// Which clock rules.
#[derive(Clone, Debug, Default)]
pub enum Now {
    /// The database's own.
    #[default]
    Database,
    /// One that a test moves by hand.
    Hand(Arc<std::sync::atomic::AtomicI64>),
}

/// How to reach an outbox.
#[derive(Clone)]
pub struct Setup {
    /// `sqlite:PATH`, `postgres://USER@HOST/DATABASE` or `mysql://USER@HOST/DATABASE`.
    pub url: String,
    /// The hot table's name; the others are named after it (`outbox_later`, …).
    pub table: String,
    /// Whether published rows are kept as history.
    pub history: bool,
    /// In how many shards relays share it: 1, 2, 4, …; fixed when the tables are made. A file has
    /// one.
    pub shards: u16,
    /// How many connections one handle makes to a server at the most.
    pub connections: u16,
    /// Whether to hear, on one of those, that producers in other processes have committed.
    pub listen: bool,
    /// How relays divide its rows; every relay of an outbox has the same.
    pub strategy: Strategy,
    /// Where a server's outbox tells how many relays work at it.
    pub crowd: Crowd,
    /// Which clock rules.
    pub now: Now,
}

impl fmt::Debug for Setup {
    /// Shows everything but what is secret in the URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { url, table, history, shards, connections, listen, strategy, now, crowd: _ } =
            self;
        let mut shown = f.debug_struct("Setup");
        shown.field("url", &scrub(url)).field("table", table).field("history", history);
        shown.field("shards", shards).field("connections", connections).field("listen", listen);
        shown.field("strategy", strategy).field("now", now).finish()
    }
}

impl Setup {
    /// Reaches the outbox of a URL under its usual names.
    pub fn new(url: impl Into<String>) -> Setup {
        let (url, table, strategy) = (url.into(), "outbox".to_owned(), Strategy::Auto);
        let (shards, connections, listen, now) = (16, 10, false, Now::Database);
        let crowd = Crowd::default();
        Setup { url, table, history: true, shards, connections, listen, strategy, crowd, now }
    }
}

/// What one lane takes from an outbox.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Which topics.
    pub topics: Topics,
    /// What followers of a failing event do.
    pub order: Order,
}

/// Which schema a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The version found; 0 when there is none.
    pub found: u32,
    /// The version that this program works with.
    pub wanted: u32,
}

/// Who comes to the database, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounts {
    /// The relay's account.
    pub relay: String,
    /// The service's, which puts events down and takes events in.
    pub service: String,
}

/// One relay's handle on an outbox. Two handles are two relays, even in one process.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns one lane's view. Lanes of one handle share what the handle leases.
    fn lane(&self, lane: Lane) -> Arc<dyn Source>;
    /// Returns the rows as a person sees them.
    fn catalog(&self) -> Arc<dyn Catalog>;
    /// Returns the upkeep.
    fn chores(&self) -> Arc<dyn Chores>;
    /// Returns the consumers' memory.
    fn inbox(&self) -> Arc<dyn Inbox>;
    /// Puts events down in one transaction of their own, due at `due` or at once.
    async fn put(&self, events: &[Event], due: Option<Millis>) -> Result<(), StoreError>;
    /// Wakes the lanes of this process: something was committed.
    fn ring(&self);
    /// Says which schema the database has.
    async fn schema(&self) -> Result<Schema, StoreError>;
    /// Brings the schema up to date; a newer one than this program knows is refused.
    async fn migrate(&self) -> Result<Schema, StoreError>;
    /// Returns the statements that `migrate` would run on an empty database.
    fn migration(&self) -> String;
    /// Returns the statements that give accounts the rights that they need, and no others.
    fn grants(&self, accounts: &Accounts) -> String;
    /// Looks at versions, settings, plans and clock.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;
    /// Ends every connection.
    async fn close(&self);
}

/// What to do about a url that cannot be read.
pub(crate) const ENCODE: &str = "if its password holds `/`, `?`, `#` or `@`, write it \
                                 percent-encoded (`%2F`), or in a config as `${env:NAME}`";

/// Where an outbox lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// In a file.
    File(PathBuf),
    /// On a server: its host, its port and the database, whoever asks for it.
    Server(String),
}

/// Returns the home that an outbox's URL names. Nothing is touched: the file need not be there, nor
/// the server answer.
pub fn home(url: &str) -> Result<Home, StoreError> {
    match Kind::of(url)? {
        Kind::Sqlite => sqlite::path(url).map(Home::File),
        Kind::Postgres => postgres::home(url).map(Home::Server),
        Kind::MySql => mysql::home(url).map(Home::Server),
    }
}

/// Refuses a strategy that the database of a URL cannot do, and says why. Nothing is touched.
pub fn check_strategy(url: &str, strategy: Strategy) -> Result<(), StoreError> {
    match Kind::of(url)? {
        Kind::Sqlite => sqlite::strategy(strategy).map(drop),
        Kind::Postgres => postgres::strategy(strategy).map(drop),
        Kind::MySql => Ok(()),
    }
}

/// Refuses to listen where nobody can ring, and says so. Nothing is touched.
pub fn check_listen(url: &str) -> Result<(), StoreError> {
    if Kind::of(url)? == Kind::Postgres {
        return Ok(());
    }
    let detail = "only PostgreSQL can tell a relay what other processes commit; leave it out, and \
                  the relay looks for itself";
    Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
}

/// Opens a handle. It does not migrate, and makes no file that is not there except on `migrate`.
pub async fn open(setup: &Setup) -> Result<Arc<dyn Outbox>, StoreError> {
    if setup.listen {
        check_listen(&setup.url)?;
    }
    Ok(match Kind::of(&setup.url)? {
        Kind::Sqlite => Arc::new(sqlite::Sqlite::open(setup).await?),
        Kind::Postgres => Arc::new(postgres::open(setup)?),
        Kind::MySql => Arc::new(mysql::open(setup)?),
    })
}

/// The databases that an outbox can live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

impl Kind {
    fn of(url: &str) -> Result<Kind, StoreError> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Ok(Kind::Sqlite),
            Some("postgres" | "postgresql") => Ok(Kind::Postgres),
            Some("mysql" | "mariadb") => Ok(Kind::MySql),
            _ => {
                let detail = "an outbox url starts with sqlite:, postgres:, mysql: or mariadb:, \
                              for example sqlite:orders.sqlite3 or \
                              mysql://127.0.0.1/orders";
                Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_never_shows_the_password_of_its_url() {
        let setup = Setup::new("postgres://me:canary@127.0.0.1/orders");
        let shown = format!("{setup:?}");
        assert!(shown.contains("127.0.0.1/orders") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn a_url_says_which_database_it_is() {
        assert_eq!(home("sqlite:a.db").unwrap(), Home::File("a.db".into()));
        let server = Home::Server("127.0.0.1:5432/orders".into());
        assert_eq!(home("postgres://me:canary@127.0.0.1/orders").unwrap(), server);
        assert_eq!(home("postgresql://127.0.0.1:5432/orders").unwrap(), server);
        let server = Home::Server("127.0.0.1:3306/orders".into());
        assert_eq!(home("mysql://me:canary@127.0.0.1/orders").unwrap(), server);
        assert_eq!(home("mariadb://127.0.0.1:3306/orders").unwrap(), server);
        for bad in ["orders", "oracle:orders", "postgres://me@127.0.0.1:no/orders"] {
            home(bad).unwrap_err();
        }
        let said = home("orders").unwrap_err().to_string();
        assert!(said.ends_with("mysql://127.0.0.1/orders") && !said.contains("***"), "{said}");
    }
}
