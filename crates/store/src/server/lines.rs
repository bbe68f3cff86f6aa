//! The connections of one handle: made when needed, kept when clean, closed when in doubt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dialect::Connects;
use super::fault::{Fault, closed};
use super::identity::Identity;
use super::work::Commit;

/// Connections of one kind.
pub(super) struct Lines<D: Connects> {
    commit: Commit,
    room: Arc<Semaphore>,
    free: Mutex<Vec<Free<D>>>,
    closed: AtomicBool,
}

/// A connection that nobody uses.
struct Free<D: Connects> {
    conn: D::Conn,
    era: u64,
    since: Instant,
}

impl<D: Connects> Lines<D> {
    /// Keeps at the most so many.
    pub(super) fn new(commit: Commit, most: usize) -> Arc<Lines<D>> {
        let (room, free) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Arc::new(Lines { commit, room, free, closed: AtomicBool::new(false) })
    }

    /// Borrows a connection, making one if none is free.
    pub(super) async fn line(self: &Arc<Lines<D>>, db: &D) -> Result<Line<D>, Fault> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| closed())?;
        let lines = self.clone();
        if let Some(Free { conn, era, .. }) = self.newest() {
            return Ok(Line { conn, era, made_to: None, lines, _permit: permit });
        }
        let (conn, server) = db.connect(self.commit).await?;
        Ok(Line { conn, era: 0, made_to: Some(server), lines, _permit: permit })
    }

    /// Returns how many more may be borrowed now.
    pub(super) fn spare(&self) -> usize {
        self.room.available_permits()
    }

    fn free(&self) -> MutexGuard<'_, Vec<Free<D>>> {
        self.free.lock().expect("nothing panics while the free connections are open")
    }

    /// Takes the connection that was used last, and closes those that have lain idle too long.
    fn newest(&self) -> Option<Free<D>> {
        let mut free = self.free();
        let idle = free.partition_point(|free| free.since.elapsed() >= D::IDLE);
        for Free { conn, .. } in free.drain(..idle) {
            tokio::spawn(D::hang_up(conn));
        }
        free.pop()
    }

    /// Closes every connection that is free, so that the next one is made anew.
    pub(super) fn forget(&self) {
        self.free().clear();
    }

    /// Tells whether nobody has closed everything.
    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst)
    }

    /// Closes everything.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.room.close();
        let free = std::mem::take(&mut *self.free());
        for Free { conn, .. } in free {
            D::hang_up(conn).await;
        }
    }
}

/// A borrowed connection. Dropped, it is closed; the server then undoes what was not committed.
pub(super) struct Line<D: Connects> {
    pub(super) conn: D::Conn,
    /// To which of the servers that were met it leads, by their count.
    pub(super) era: u64,
    /// Which server answered, if it was made just now.
    pub(super) made_to: Option<Identity>,
    lines: Arc<Lines<D>>,
    _permit: OwnedSemaphorePermit,
}

impl<D: Connects> Line<D> {
    /// Gives the connection back: it is outside any transaction.
    pub(super) fn put_back(self) {
        if self.lines.is_open() {
            let Line { conn, era, lines, .. } = self;
            lines.free().push(Free { conn, era, since: Instant::now() });
        }
    }
}
