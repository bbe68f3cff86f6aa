//! How SQLite means to run every statement, with few rows and with many.

use std::time::Duration;

use async_trait::async_trait;
use event::Keep;
use sqlx::SqliteConnection;

use super::super::base::Base;
use super::super::connect;
use super::super::error::Fault;
use super::super::examine::{Plan, plans, unserved};
use super::super::writer::Work;
use super::listing::fill;
use super::{Place, bounded};
use crate::{Grade, Outbox};

/// Statements that sort what they have found: as much as a page, a claim, a requeue or an identity
/// has.
const SORTING: [&str; 10] = [
    "behind",
    "find_dead_id",
    "find_hot",
    "find_hot_id",
    "find_sent_id",
    "lapse_copy",
    "new_later",
    "requeue_copy",
    "requeue_order",
    "trim_sent",
];

/// Asks how the writer would run every statement.
struct Planning;

#[async_trait]
impl Work for Planning {
    type Out = Vec<Plan>;
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Self::Out, Fault> {
        plans(base, conn).await
    }
}

async fn check_plans(place: &Place, rows: i64) {
    let plans = place.outbox.writer.run(Planning).await.unwrap();
    assert_eq!(unserved("outbox", &plans), [""; 0], "{rows} rows");
    for Plan { name, steps, .. } in plans {
        let sorts = |step: &&String| step.contains("TEMP B-TREE") && !step.contains("LAST TERM");
        let sort = steps.iter().find(sorts);
        assert!(sort.is_none() || SORTING.contains(&name), "{name}, {rows} rows: {sort:?}");
    }
}

#[tokio::test]
async fn every_statement_is_served_by_the_index_that_its_header_names() {
    let keep = Duration::from_secs(1_000_000_000);
    let keep = Keep { sent: keep * 3, inbox: keep, step: 1, lease: keep };
    for rows in [0, 10, 1_000, 100_000] {
        let place = bounded(100_000).await;
        if rows > 0 {
            fill(&place, rows).await;
        }
        check_plans(&place, rows).await;
        // The size that somebody measured must not matter: it will not be the size for long.
        let mut conn = connect::writer(&place.outbox.base.path, false).await.unwrap();
        sqlx::raw_sql("ANALYZE; CREATE TABLE reload (a)").execute(&mut conn).await.unwrap();
        place.outbox.chores().sweep(&keep).await.unwrap();
        check_plans(&place, rows).await;
    }
}

#[tokio::test]
async fn an_examination_tells_which_part_of_a_relays_work_is_not_served() {
    for (index, part) in [
        ("outbox_later_due", "due_later"),
        ("outbox_later_holders", "holders"),
        ("outbox_sent_created", "find_sent"),
    ] {
        let place = bounded(100_000).await;
        let plan = async || {
            let findings = place.outbox.examine().await.unwrap();
            findings.into_iter().find(|finding| finding.what == "plan").expect("plans are asked")
        };
        assert_eq!(plan().await.grade, Grade::Good);
        let mut conn = connect::writer(&place.outbox.base.path, false).await.unwrap();
        let drop = format!("DROP INDEX {index}");
        sqlx::query(sqlx::AssertSqlSafe(drop)).execute(&mut conn).await.unwrap();
        let plan = plan().await;
        assert_eq!(plan.grade, Grade::Bad);
        assert!(plan.detail.contains(part) && plan.detail.contains(index), "{}", plan.detail);
    }
}

#[tokio::test]
async fn an_examination_sees_a_scan_whatever_a_statement_calls_its_table() {
    let place = bounded(100_000).await;
    let mut conn = connect::writer(&place.outbox.base.path, false).await.unwrap();
    let no_key = "PRAGMA legacy_alter_table = ON; ALTER TABLE outbox RENAME TO keyed;
                  CREATE TABLE outbox AS SELECT * FROM keyed";
    sqlx::raw_sql(no_key).execute(&mut conn).await.unwrap();
    let findings = place.outbox.examine().await.unwrap();
    let plan = findings.iter().find(|finding| finding.what == "plan").expect("plans are asked");
    assert_eq!(plan.grade, Grade::Bad);
    for part in ["done_hot", "retry_hot", "dead_hot", "lapse_copy", "lapse_drop"] {
        assert!(plan.detail.contains(part), "{part}: {}", plan.detail);
    }
}

#[tokio::test]
async fn an_examination_tells_when_sizes_were_measured_in_an_empty_outbox() {
    let place = bounded(100_000).await;
    fill(&place, 1).await;
    let mut conn = connect::writer(&place.outbox.base.path, false).await.unwrap();
    sqlx::query("ANALYZE").execute(&mut conn).await.unwrap();
    let findings = place.outbox.examine().await.unwrap();
    let plan = findings.iter().find(|finding| finding.what == "plan").expect("plans are asked");
    assert!(plan.grade == Grade::Bad && plan.detail.contains("drop_hot"), "{}", plan.detail);
}
