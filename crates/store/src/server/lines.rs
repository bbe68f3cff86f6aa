//! The connections of one handle: made when needed, kept when clean, closed when in doubt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dialect::Connects;
use super::fault::{Fault, closed};
use super::work::Commit;

/// Connections of one kind.
pub(super) struct Lines<D: Connects> {
    commit: Commit,
    room: Arc<Semaphore>,
    /// Those that nobody uses, and since when.
    free: Mutex<Vec<(Instant, D::Conn)>>,
    closed: AtomicBool,
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
        let free = self.newest();
        let (conn, made_to) = match free {
            Some(conn) => (conn, None),
            None => db.connect(self.commit).await.map(|(conn, server)| (conn, Some(server)))?,
        };
        Ok(Line { conn, made_to, lines: self.clone(), _permit: permit })
    }

    fn free(&self) -> MutexGuard<'_, Vec<(Instant, D::Conn)>> {
        self.free.lock().expect("nothing panics while the free connections are open")
    }

    /// Takes the connection that was used last, and closes those that have lain idle too long.
    fn newest(&self) -> Option<D::Conn> {
        let mut free = self.free();
        free.retain(|(since, _)| since.elapsed() < D::IDLE);
        free.pop().map(|(_, conn)| conn)
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
        for (_, conn) in free {
            D::hang_up(conn).await;
        }
    }
}

/// A borrowed connection. Dropped, it is closed; the server then undoes what was not committed.
pub(super) struct Line<D: Connects> {
    pub(super) conn: D::Conn,
    /// Which server answered, if it was made just now.
    pub(super) made_to: Option<String>,
    lines: Arc<Lines<D>>,
    _permit: OwnedSemaphorePermit,
}

impl<D: Connects> Line<D> {
    /// Gives the connection back: it is outside any transaction.
    pub(super) fn put_back(self) {
        if self.lines.is_open() {
            self.lines.free().push((Instant::now(), self.conn));
        }
    }
}
