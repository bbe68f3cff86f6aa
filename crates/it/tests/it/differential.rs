//! Every store answers as the model does.

mod late;

use it::differential::{Plan, compare};
use it::ground;

/// How many traces of each store are played in CI.
const TRACES: u64 = 1000;

/// Makes a test of each store.
macro_rules! stores {
    ($(fn $test:ident = $ground:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let plan = Plan::from_env(TRACES);
                println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
                compare(plan, ground::$ground).await.unwrap();
            }
        )+
    };
}

stores! {
    fn sqlite_answers_as_the_model_does = sqlite,
    fn postgres_answers_as_the_model_does = postgres_unshared,
    fn postgres_with_skip_locked_answers_as_the_model_does = postgres_skip_locked_unshared,
    fn postgres_with_cas_answers_as_the_model_does = postgres_cas_unshared,
    fn mysql_answers_as_the_model_does = mysql_unshared,
    fn mysql_with_skip_locked_answers_as_the_model_does = mysql_skip_locked_unshared,
    fn mysql_with_cas_answers_as_the_model_does = mysql_cas_unshared,
    fn mysql_with_preempt_answers_as_the_model_does = mysql_preempt_unshared,
    fn mariadb_answers_as_the_model_does = mariadb_unshared,
    fn mariadb_with_skip_locked_answers_as_the_model_does = mariadb_skip_locked_unshared,
    fn mariadb_with_cas_answers_as_the_model_does = mariadb_cas_unshared,
    fn mariadb_with_preempt_answers_as_the_model_does = mariadb_preempt_unshared,
    fn mariadb_old_answers_as_the_model_does = mariadb_old_unshared,
    fn mariadb_old_with_cas_answers_as_the_model_does = mariadb_old_cas_unshared,
    fn mariadb_old_with_preempt_answers_as_the_model_does = mariadb_old_preempt_unshared,
}
