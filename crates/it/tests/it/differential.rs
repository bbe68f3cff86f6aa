//! Every store answers as the model does.

mod late;

use it::differential::{Plan, compare};
use it::ground;

/// Makes a test of so many traces in CI of each store.
macro_rules! stores {
    ($(fn $test:ident = $ground:ident $traces:literal,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let plan = Plan::from_env($traces);
                println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
                compare(plan, ground::$ground).await.unwrap();
            }
        )+
    };
}

stores! {
    fn sqlite_answers_as_the_model_does = sqlite 1000,
    fn postgres_answers_as_the_model_does = postgres_unshared 1000,
    fn postgres_with_skip_locked_answers_as_the_model_does = postgres_skip_locked_unshared 200,
    fn postgres_with_cas_answers_as_the_model_does = postgres_cas_unshared 200,
    fn mysql_answers_as_the_model_does = mysql_unshared 200,
    fn mariadb_answers_as_the_model_does = mariadb_unshared 200,
    fn mariadb_old_answers_as_the_model_does = mariadb_old_unshared 200,
}
