//! How a database file is opened: which settings, and which files are refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use event::{Cause, Code, StoreError};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Row, Sqlite, SqliteConnection, SqlitePool};

use super::error::Fault;

/// How long a writer waits for another one.
const BUSY: Duration = Duration::from_secs(5);
/// How many people's questions are answered at once.
const PEOPLE: u32 = 4;
/// File systems on which locks between processes do not hold.
const REMOTE: [&str; 8] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "fuse.sshfs", "fuse.glusterfs"];

/// Reads the path out of a URL (`sqlite:PATH`).
pub fn path(url: &str) -> Result<PathBuf, StoreError> {
    let refuse = |detail: &str| StoreError::Broken(Cause::new(Code::ConfigInvalid, detail));
    let rest = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path.contains(":memory:") {
        return Err(refuse("an outbox lives in a file; write sqlite:PATH"));
    }
    if path.contains('?') {
        return Err(refuse("an outbox url takes no parameters; write sqlite:PATH"));
    }
    Ok(PathBuf::from(path))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY)
        .foreign_keys(true)
        .pragma("wal_autocheckpoint", "4000")
        .pragma("temp_store", "memory")
        .disable_statement_logging()
}

/// The connections that only read. None is opened before it is needed.
pub(super) struct Readers {
    /// The lanes' own: their looks are short, and no person's search stands before them.
    lanes: SqlitePool,
    people: SqlitePool,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Readers {
        let pool = |most: u32| {
            SqlitePoolOptions::new()
                .max_connections(most)
                .test_before_acquire(false)
                .idle_timeout(None)
                .max_lifetime(None)
                .connect_lazy_with(options(path).pragma("query_only", "on"))
        };
        Readers { lanes: pool(1), people: pool(PEOPLE) }
    }

    /// Borrows a connection for a question that may take long.
    pub(super) async fn acquire(&self) -> Result<PoolConnection<Sqlite>, sqlx::Error> {
        self.people.acquire().await
    }

    /// Borrows the lanes' connection for one look.
    pub(super) async fn lane(&self) -> Result<PoolConnection<Sqlite>, sqlx::Error> {
        self.lanes.acquire().await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.people.is_closed()
    }

    pub(super) async fn close(&self) {
        self.lanes.close().await;
        self.people.close().await;
    }
}

/// Opens a connection that writes. `create` makes the file if it is not there.
pub(super) async fn writer(path: &Path, create: bool) -> Result<SqliteConnection, Fault> {
    let options = options(path)
        .create_if_missing(create)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal);
    let mut conn = options.connect().await?;
    let mode: String = sqlx::query("PRAGMA journal_mode").fetch_one(&mut conn).await?.try_get(0)?;
    if mode != "wal" {
        let detail = format!(
            "{} cannot leave journal mode {mode:?} for WAL; keep it on a local disk",
            path.display()
        );
        return Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)).into());
    }
    Ok(conn)
}

/// Refuses a file on a network file system, where two hosts would both think that they are alone.
pub(super) fn refuse_remote(path: &Path) -> Result<(), StoreError> {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return Ok(()) };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(folder) = folder.unwrap_or(Path::new(".")).canonicalize() else { return Ok(()) };
    match file_system(&mounts, &folder) {
        Some(kind) if REMOTE.contains(&kind) => {
            let detail = format!(
                "{} is on a network file system ({kind}), where SQLite cannot keep two hosts \
                 apart; keep it on a local disk",
                path.display()
            );
            Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)))
        }
        _ => Ok(()),
    }
}

/// Finds the file system of a folder: the one mounted deepest above it.
fn file_system<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let of = |line: &'a str| {
        let (left, right) = line.split_once(" - ")?;
        let at = Path::new(left.split(' ').nth(4)?);
        folder.starts_with(at).then(|| (at.components().count(), right.split(' ').next()))
    };
    mounts.lines().filter_map(of).max_by_key(|(depth, _)| *depth)?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_decides_whether_a_file_is_remote() {
        let mounts = "1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /mnt/far rw - nfs4 host:/a rw\n";
        assert_eq!(file_system(mounts, Path::new("/mnt/far/deep")), Some("nfs4"));
        assert_eq!(file_system(mounts, Path::new("/mnt/farther")), Some("ext4"));
    }

    #[test]
    fn a_url_names_a_file_and_nothing_else() {
        assert_eq!(path("sqlite:a/b.db").unwrap(), Path::new("a/b.db"));
        assert_eq!(path("sqlite:///a/b.db").unwrap(), Path::new("/a/b.db"));
        for bad in ["sqlite:", "sqlite::memory:", "sqlite:a.db?mode=rwc"] {
            path(bad).unwrap_err();
        }
    }
}
