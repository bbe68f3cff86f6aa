//! The consumer's own database, and what happened in it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postbox::{Backoff, Consumed, Consumer, Feed, Witness};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool};
use tokio::sync::watch;

pub(crate) const SOON: Backoff =
    Backoff { base: Duration::from_millis(1), cap: Duration::from_millis(5) };

pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) pool: SqlitePool,
    pub(crate) heard: Arc<Heard>,
}

/// A witness that remembers.
pub(crate) struct Heard {
    pub(crate) all: Mutex<Vec<Consumed>>,
    count: watch::Sender<usize>,
}

impl Witness for Heard {
    fn consumed(&self, group: &str, what: &Consumed) {
        assert_eq!(group, "stock");
        self.all.lock().unwrap().push(what.clone());
        self.count.send_modify(|count| *count += 1);
    }
}

impl Heard {
    /// Waits until so much was heard.
    pub(crate) async fn until(&self, count: usize) {
        let mut news = self.count.subscribe();
        let waiting =
            tokio::time::timeout(Duration::from_secs(30), news.wait_for(|it| *it >= count));
        waiting.await.unwrap_or_else(|_| panic!("heard only {:?}", self.all.lock())).unwrap();
    }

    /// Waits until such a thing was heard, for a day: on a clock that is paused, that is soon over.
    pub(crate) async fn until_heard(&self, fits: fn(&Consumed) -> bool) {
        let (mut news, day) = (self.count.subscribe(), Duration::from_secs(86_400));
        let waiting = tokio::time::timeout(day, news.wait_for(|_| self.count(fits) > 0));
        waiting.await.unwrap_or_else(|_| panic!("heard only {:?}", self.all.lock())).unwrap();
    }

    pub(crate) fn count(&self, fits: impl Fn(&Consumed) -> bool) -> usize {
        self.all.lock().unwrap().iter().filter(|what| fits(what)).count()
    }
}

/// Makes a database with an inbox and a table of effects.
pub(crate) async fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stock.sqlite3");
    postbox::migrate(&format!("sqlite:{}", path.display())).await.unwrap();
    let pool = open(&path).await;
    let effects = "CREATE TABLE effects (event_id TEXT, key TEXT, n INTEGER PRIMARY KEY)";
    sqlx::query(effects).execute(&pool).await.unwrap();
    let heard = Heard { all: Mutex::default(), count: watch::Sender::new(0) };
    Place { _folder: folder, pool, heard: Arc::new(heard) }
}

async fn open(path: &std::path::Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(20));
    SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap()
}

impl Place {
    pub(crate) fn consumer(&self, feed: Arc<dyn Feed>) -> Consumer<Sqlite> {
        let consumer = Consumer::new(feed, self.pool.clone(), "stock");
        consumer.patience(3, SOON).witness(self.heard.clone())
    }

    /// Returns the ids of the effects, in order.
    pub(crate) async fn effects(&self) -> Vec<String> {
        let ids = sqlx::query_scalar("SELECT event_id FROM effects ORDER BY n");
        ids.fetch_all(&self.pool).await.unwrap()
    }
}

/// Makes the work that leaves an effect.
macro_rules! effect {
    ($tx:ident, $event:ident) => {{
        let effect = "INSERT INTO effects (event_id, key) VALUES (?, ?)";
        let effect = sqlx::query(effect).bind($event.id.to_string()).bind(&$event.key);
        effect.execute($tx).await?;
    }};
}

pub(crate) use effect;
