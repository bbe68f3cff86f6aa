//! A plain INSERT from the real `sqlite3` shell is a whole, valid producer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use event::Millis;
use it::receiver::{Arrival, Receiver, willing};
use it::site::{Rules, Site};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_insert_from_the_sqlite3_shell_is_published() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let _relay = site.relay("a", &receiver.url("a"), &Rules::default()).unwrap();
    sqlite3(
        &site.file(),
        r#"INSERT INTO outbox (topic, event_type, biz_key, payload)
           VALUES ('order.paid', 'OrderPaid', '123', '{"total": 42, "note": "a\nb"}');"#,
    );
    let came = receiver.until("the event", PATIENCE, |all| all.first().cloned()).await.unwrap();
    assert_eq!(came.key.as_deref(), Some("123"));
    assert_eq!(came.body, r#"{"total": 42, "note": "a\nb"}"#);
    came.id.parse::<event::EventId>().unwrap();
    site.until("it is sent", PATIENCE, |counts| counts.sent == 1).await.unwrap();
    let seen = sqlite3(&site.file(), "SELECT status, biz_key, attempts FROM outbox_events;");
    assert_eq!(seen.trim(), "SENT|123|1");
}

#[tokio::test]
async fn a_delayed_insert_from_the_sqlite3_shell_is_published_when_it_is_due() {
    let site = Site::new().await.unwrap();
    let receiver = Receiver::start(willing()).await.unwrap();
    let _relay = site.relay("a", &receiver.url("a"), &Rules::default()).unwrap();
    let due = Millis::now() + Duration::from_secs(2);
    sqlite3(
        &site.file(),
        &format!(
            "INSERT INTO outbox_later (topic, event_type, payload, due_at)
             VALUES ('order.due', 'OrderDue', 'later', {});
             INSERT INTO outbox (topic, event_type, payload) VALUES ('order.paid', 'P', 'now');",
            due.0
        ),
    );
    let both = |all: &[Arrival]| (all.len() == 2).then(|| all.to_vec());
    let came = receiver.until("both events", PATIENCE, both).await.unwrap();
    let bodies: Vec<&str> = came.iter().map(|arrival| arrival.body.as_str()).collect();
    assert_eq!(bodies, ["now", "later"]);
    let early = SystemTime::UNIX_EPOCH + Duration::from_millis(due.0.unsigned_abs());
    let since = came[1].at.elapsed();
    assert!(SystemTime::now() - since >= early, "it came before it was due");
}

/// Runs one script in the shell, which waits for another writer as every producer should.
fn sqlite3(file: &Path, script: &str) -> String {
    let patient = ["-bail", "-cmd", ".timeout 30000"];
    let run = Command::new("sqlite3").args(patient).arg(file).arg(script).output();
    let run = run.expect("the sqlite3 shell is missing: install the Debian package sqlite3");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("the shell writes UTF-8")
}
