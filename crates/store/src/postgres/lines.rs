//! The connections of one handle: made when needed, kept when clean, closed when in doubt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::{Commit, connect};
use super::error::{Fault, closed};

/// Connections of one kind.
pub(super) struct Lines {
    options: PgConnectOptions,
    commit: Commit,
    room: Arc<Semaphore>,
    free: Mutex<Vec<PgConnection>>,
    closed: AtomicBool,
}

impl Lines {
    /// Keeps at the most so many.
    pub(super) fn new(options: PgConnectOptions, commit: Commit, most: usize) -> Arc<Lines> {
        let (room, free) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Arc::new(Lines { options, commit, room, free, closed: AtomicBool::new(false) })
    }

    /// Borrows a connection, making one if none is free.
    pub(super) async fn line(self: &Arc<Lines>) -> Result<Line, Fault> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| closed())?;
        let free = self.free().pop();
        let conn = match free {
            Some(conn) => conn,
            None => connect(&self.options, self.commit).await?,
        };
        Ok(Line { conn, lines: self.clone(), _permit: permit })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<PgConnection>> {
        self.free.lock().expect("nothing panics while the free connections are open")
    }

    /// Closes every connection that is free, so that the next one is made anew.
    pub(super) fn forget(&self) {
        self.free().clear();
    }

    /// Closes everything.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.room.close();
        let free = std::mem::take(&mut *self.free());
        for conn in free {
            // The server ends the session either way.
            let _ = conn.close().await;
        }
    }
}

/// A borrowed connection. Dropped, it is closed; the server then undoes what was not committed.
pub(super) struct Line {
    pub(super) conn: PgConnection,
    lines: Arc<Lines>,
    _permit: OwnedSemaphorePermit,
}

impl Line {
    /// Gives the connection back: it is outside any transaction.
    pub(super) fn put_back(self) {
        if !self.lines.closed.load(Ordering::SeqCst) {
            self.lines.free().push(self.conn);
        }
    }
}
