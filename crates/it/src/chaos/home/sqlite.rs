//! A SQLite file: it has one writer at a time, and does not know who that is.

use std::net::SocketAddr;

use anyhow::Result;
use async_trait::async_trait;
use store::Setup;
use tempfile::TempDir;

use super::{Home, Manners, Session, Watch, open};

/// What is written down with each row that leaves its table.
const NOTES: &str = "
    CREATE TABLE chaos_change (
        number INTEGER PRIMARY KEY, event_id TEXT, relay TEXT, owner TEXT
    );
    CREATE TRIGGER note_hot AFTER DELETE ON outbox BEGIN
        INSERT INTO chaos_change (event_id, owner)
        SELECT OLD.event_id, owner FROM outbox_lease WHERE name = 'shard:0';
    END;
    CREATE TRIGGER note_later AFTER DELETE ON outbox_later BEGIN
        INSERT INTO chaos_change (event_id, owner)
        SELECT OLD.event_id, owner FROM outbox_lease WHERE name = 'shard:0';
    END;
    CREATE TABLE sale (event_id TEXT PRIMARY KEY)";

pub(super) struct File {
    folder: TempDir,
}

impl File {
    pub(super) async fn make() -> Result<File> {
        let file = File { folder: tempfile::tempdir()? };
        let outbox = store::open(&Setup::new(file.url())).await?;
        outbox.migrate().await?;
        outbox.close().await;
        open(&file.url()).await?.run(NOTES).await?;
        Ok(file)
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("orders.sqlite3").display())
    }

    async fn session(&self) -> Result<Box<dyn Session>> {
        let mut session = open(&self.url()).await?;
        session.run("PRAGMA busy_timeout = 60000").await?;
        Ok(session)
    }
}

#[async_trait]
impl Home for File {
    fn version(&self) -> String {
        "file".into()
    }

    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn manners(&self) -> Manners {
        Manners { producers: 2, begin: "BEGIN IMMEDIATE", two_phase: None, waited: None }
    }

    async fn producer(&self) -> Result<Box<dyn Session>> {
        self.session().await
    }

    async fn onlooker(&self) -> Result<Box<dyn Session>> {
        self.session().await
    }

    async fn account(&self, _: &str) -> Result<String> {
        Ok(self.url())
    }

    fn watch(&self) -> Option<Watch> {
        None
    }

    fn counted(&self) -> &'static str {
        "SELECT sum(sent) FROM outbox_lease"
    }

    async fn leave(&self) -> Result<()> {
        Ok(())
    }
}
