//! What only the inside can see: how statements are planned, what one look may read, and that work
//! shares commits.

mod listing;
mod plans;
mod sift;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Event, Order, Topics, Want};
use sqlx::{Row, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Sqlite;
use super::base::Base;
use super::error::Fault;
use super::writer::{Work, Writer};
use crate::{Lane, Outbox, Setup};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(10);

struct Place {
    _folder: TempDir,
    outbox: Sqlite,
}

async fn place() -> Place {
    bounded(100_000).await
}

/// Makes a place where one page and one count look at so many rows.
async fn bounded(many: i64) -> Place {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let url = format!("sqlite:{}", folder.path().join("outbox.sqlite3").display());
    let mut base = Base::new(&Setup::new(url)).expect("the setup is right");
    Arc::get_mut(&mut base).expect("nobody else has it yet").many = many;
    let outbox = Sqlite { writer: Writer::start(base.clone()), base };
    outbox.migrate().await.expect("an empty file takes the schema");
    Place { _folder: folder, outbox }
}

#[tokio::test]
async fn a_claim_waits_for_no_persons_search() {
    let place = place().await;
    let readers = &place.outbox.base.readers;
    let mut searches = Vec::new();
    while let Ok(Ok(conn)) = timeout(SHORT, readers.acquire()).await {
        searches.push(conn);
        assert!(searches.len() < 100, "there is no end of readers");
    }
    place.outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap();
    let lane = place.outbox.lane(Lane { topics: Topics::all(), order: Order::Hold });
    let want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(30) };
    let claims = timeout(LONG, lane.claim(&want)).await.expect("no search stands before a claim");
    assert_eq!(claims.unwrap().len(), 1);
    drop(searches);
}

/// Work that counts the commits around it.
struct Numbered {
    event: Event,
    gate: Option<(Arc<Notify>, Arc<Notify>)>,
    fails: bool,
}

#[async_trait]
impl Work for Numbered {
    type Out = ();
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), Fault> {
        if let Some((begun, go_on)) = &self.gate {
            begun.notify_one();
            go_on.notified().await;
        }
        super::put::write(&base.sql, conn, std::slice::from_ref(&self.event), None, None).await?;
        if self.fails {
            sqlx::query("SELECT no_such_function()").execute(&mut *conn).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn work_that_is_queued_together_shares_a_commit_and_failing_work_undoes_only_itself() {
    let place = place().await;
    let (base, writer) = (&place.outbox.base, &place.outbox.writer);
    let mut watch = base.readers.acquire().await.unwrap();
    let numbered = |kind: &str, gate, fails| {
        let event = Event::new("t", kind, "{}");
        writer.run(Numbered { event, gate, fails })
    };
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = numbered("first", Some((begun.clone(), go_on.clone())), false);
    let queue = async {
        // The first is at work, so these three are queued and make one group.
        begun.notified().await;
        let three = async {
            tokio::join!(
                numbered("second", None, false),
                numbered("fails", None, true),
                numbered("third", None, false)
            )
        };
        let (ended, ()) = tokio::join!(three, async { go_on.notify_one() });
        ended
    };
    let before = commits(base);
    let (first, (second, fails, third)) = tokio::join!(first, queue);
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    fails.unwrap_err();
    let rows = sqlx::query("SELECT event_type FROM outbox ORDER BY seq").fetch_all(&mut *watch);
    let kinds: Vec<String> = rows.await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(kinds, ["first", "second", "third"]);
    assert_eq!(commits(base) - before, 2, "one alone, then one group");
}

/// Counts the commits in the write-ahead log: the last frame of each names the size of the file.
fn commits(base: &Base) -> usize {
    let Ok(log) = std::fs::read(base.path.with_extension("sqlite3-wal")) else { return 0 };
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().expect("four bytes"));
    let frames = (32..log.len()).step_by(24 + word(8) as usize);
    // Frames with another salt are left over from before the log was last reset.
    frames.filter(|at| word(at + 4) > 0 && word(at + 8) == word(16)).count()
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_stop_its_work() {
    let place = place().await;
    let writer = place.outbox.writer.clone();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let gate = Some((begun.clone(), go_on.clone()));
    let event = Event::new("t", "T", "{}");
    let caller =
        tokio::spawn(async move { writer.run(Numbered { event, gate, fails: false }).await });
    begun.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    go_on.notify_one();
    place.outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap();
    let counts = place.outbox.catalog().count().await.unwrap();
    assert_eq!(counts.new, 2);
}

#[tokio::test]
async fn a_handle_that_was_closed_says_so() {
    let place = place().await;
    place.outbox.close().await;
    let refused = place.outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap_err();
    assert!(refused.to_string().contains("closed"), "{refused}");
}

#[tokio::test]
async fn an_outbox_without_one_of_its_tables_is_neither_right_nor_up_to_date() {
    let place = place().await;
    let mut conn = super::connect::writer(&place.outbox.base.path, false).await.unwrap();
    sqlx::raw_sql("DROP TABLE outbox_dead").execute(&mut conn).await.unwrap();
    for refused in [
        place.outbox.schema().await.unwrap_err(),
        place.outbox.migrate().await.unwrap_err(),
        place.outbox.examine().await.unwrap_err(),
    ] {
        assert_eq!(refused.cause().code, event::Code::SchemaMissing);
        assert!(refused.to_string().contains("without outbox_dead:"), "{refused}");
    }
}
