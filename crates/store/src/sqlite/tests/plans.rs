//! How SQLite means to run every statement, with few rows and with many.

use std::time::Duration;

use async_trait::async_trait;
use event::Keep;
use sqlx::SqliteConnection;

use super::super::base::Base;
use super::super::connect;
use super::super::error::Fault;
use super::super::examine::plan_of;
use super::super::statements::FILES;
use super::super::writer::Work;
use super::listing::fill;
use super::{Place, bounded};
use crate::{Grade, Outbox};

/// Statements that look at a bounded part of a table in the order of its primary key.
const BOUNDED: [&str; 4] = ["behind", "count", "glance", "trim_sent"];

/// Statements that sort what they have found: as much as a page, a claim or an identity has.
const SORTING: [&str; 8] = [
    "behind",
    "find_dead_id",
    "find_hot",
    "find_hot_id",
    "find_sent_id",
    "lapse_copy",
    "new_later",
    "trim_sent",
];

/// Reads which indexes a statement's header names.
fn named(head: &str) -> Vec<String> {
    let line = head.split("Index: ").nth(1).expect("a header names its index");
    let words =
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '{' && c != '}');
    let names = words.filter(|word| word.starts_with("{outbox}_"));
    names.map(|name| name.replace("{outbox}", "outbox")).collect()
}

/// Asks how the writer would run every statement.
struct Planning;

#[async_trait]
impl Work for Planning {
    type Out = Vec<Vec<String>>;
    const DURABLE: bool = false;

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Self::Out, Fault> {
        let mut plans = Vec::new();
        for text in base.sql.texts() {
            plans.push(plan_of(text, conn).await?);
        }
        Ok(plans)
    }
}

async fn check_plans(place: &Place, rows: i64) {
    let plans = place.outbox.writer.run(Planning).await.unwrap();
    for ((name, file), plan) in FILES.iter().zip(plans) {
        let head: Vec<&str> = file.lines().take_while(|line| line.starts_with("--")).collect();
        for index in named(&head.join(" ")) {
            let used = plan.iter().any(|step| step.contains(&index));
            assert!(used, "{name}, {rows} rows: {index}: {plan:#?}");
        }
        for step in &plan {
            // A scan of a whole index is a scan all the same.
            let scan = step.strip_prefix("SCAN ").is_some_and(|table| {
                ["outbox", "hot", "later", "dead", "sent", "middle", "below"]
                    .iter()
                    .any(|big| table.starts_with(big) && !table.starts_with("outbox_lease"))
            });
            assert!(!scan || BOUNDED.contains(name), "{name}, {rows} rows: {step}");
            let sort = step.contains("TEMP B-TREE") && !step.contains("LAST TERM");
            assert!(!sort || SORTING.contains(name), "{name}, {rows} rows: {step}");
        }
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
async fn an_examination_tells_when_sizes_were_measured_in_an_empty_outbox() {
    let place = bounded(100_000).await;
    fill(&place, 1).await;
    let mut conn = connect::writer(&place.outbox.base.path, false).await.unwrap();
    sqlx::query("ANALYZE").execute(&mut conn).await.unwrap();
    let findings = place.outbox.examine().await.unwrap();
    let plan = findings.iter().find(|finding| finding.what == "plan").expect("plans are asked");
    assert!(plan.grade == Grade::Bad && plan.detail.contains("drop_hot"), "{}", plan.detail);
}
