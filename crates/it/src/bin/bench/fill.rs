//! A full outbox, made once and copied for each measurement.

use std::path::PathBuf;

use anyhow::Result;
use event::Event;
use sqlx::{Connection, SqliteConnection};
use store::Setup;
use tempfile::TempDir;

/// Bytes of each payload.
const SIZE: usize = 300;

/// A file with many events.
pub(crate) struct Full {
    folder: TempDir,
}

/// A copy that is drained and then gone.
pub(crate) struct Copy {
    folder: TempDir,
}

impl Full {
    pub(crate) async fn new(events: usize) -> Result<Full> {
        let full = Full { folder: tempfile::tempdir()? };
        let url = format!("sqlite:{}", full.file().display());
        let outbox = store::open(&Setup::new(url.clone())).await?;
        outbox.migrate().await?;
        let payload = format!("{{\"x\":\"{}\"}}", "y".repeat(SIZE - 8));
        let mut number = 0;
        while number < events {
            let until = events.min(number + 1000);
            let event = |n| Event::new("order.paid", "OrderPaid", &*payload).key(format!("k{n}"));
            let part: Vec<Event> = (number..until).map(event).collect();
            outbox.put(&part, None).await?;
            number = until;
        }
        outbox.close().await;
        let mut connection = SqliteConnection::connect(&url).await?;
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await?;
        connection.close().await?;
        Ok(full)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("orders.sqlite3")
    }

    pub(crate) fn copy(&self) -> Result<Copy> {
        let copy = Copy { folder: tempfile::tempdir()? };
        std::fs::copy(self.file(), copy.folder.path().join("orders.sqlite3"))?;
        Ok(copy)
    }
}

impl Copy {
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("orders.sqlite3").display())
    }
}
