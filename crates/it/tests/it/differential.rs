//! Every store answers as the model does.

mod late;

use it::differential::{Plan, compare};
use it::ground;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::sqlite).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::postgres_unshared).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_with_skip_locked_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::postgres_skip_locked_unshared).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_with_cas_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::postgres_cas_unshared).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::mysql_unshared).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::mariadb_unshared).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_old_answers_as_the_model_does() {
    let plan = Plan::from_env();
    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
    compare(plan, ground::mariadb_old_unshared).await.unwrap();
}
