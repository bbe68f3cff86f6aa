//! Every store answers as the model does, and keeps in many shards what the model keeps in one.

mod late;

use it::differential::{Plan, compare, compare_shared};
use it::ground;
use store::Strategy;

/// How many traces of each store are played in CI.
const TRACES: u64 = 1000;
/// How many are played in CI in several shards, and of the oldest PostgreSQL.
const FEW: u64 = 100;

/// Makes a test of each store.
macro_rules! stores {
    ($traces:ident: $(fn $test:ident = $ground:ident,)+) => {
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

stores! { FEW:
    fn postgres_13_answers_as_the_model_does = postgres_13_unshared,
    fn postgres_13_with_skip_locked_answers_as_the_model_does = postgres_13_skip_locked_unshared,
    fn postgres_13_with_cas_answers_as_the_model_does = postgres_13_cas_unshared,
}

stores! { TRACES:
    fn sqlite_answers_as_the_model_does = sqlite,
    fn postgres_answers_as_the_model_does = postgres_unshared,
    fn postgres_18_answers_as_the_model_does = postgres_18_unshared,
    fn postgres_18_with_skip_locked_answers_as_the_model_does = postgres_18_skip_locked_unshared,
    fn postgres_18_with_cas_answers_as_the_model_does = postgres_18_cas_unshared,
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

/// Makes a test of each server and strategy, in as many shards as a trace says.
macro_rules! shared {
    ($($name:ident = $server:literal $strategy:ident,)+) => {
        mod in_many_shards_as_in_one {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let plan = Plan::from_env(FEW);
                    println!("POSTBOX_SEED={} POSTBOX_TRACES={}", plan.seed, plan.traces);
                    compare_shared(plan, $server, Strategy::$strategy).await.unwrap();
                }
            )+
        }
    };
}

shared! {
    postgres_keeps_its_promises = "postgres" Own,
    postgres_with_skip_locked_keeps_its_promises = "postgres" SkipLocked,
    postgres_with_cas_keeps_its_promises = "postgres" Cas,
    postgres_13_keeps_its_promises = "postgres-13" Own,
    postgres_18_keeps_its_promises = "postgres-18" Own,
    postgres_18_with_skip_locked_keeps_its_promises = "postgres-18" SkipLocked,
    postgres_18_with_cas_keeps_its_promises = "postgres-18" Cas,
    mysql_keeps_its_promises = "mysql" Own,
    mysql_with_skip_locked_keeps_its_promises = "mysql" SkipLocked,
    mysql_with_cas_keeps_its_promises = "mysql" Cas,
    mysql_with_preempt_keeps_its_promises = "mysql" Preempt,
    mariadb_keeps_its_promises = "mariadb" Own,
    mariadb_with_skip_locked_keeps_its_promises = "mariadb" SkipLocked,
    mariadb_with_cas_keeps_its_promises = "mariadb" Cas,
    mariadb_with_preempt_keeps_its_promises = "mariadb" Preempt,
    mariadb_old_keeps_its_promises = "mariadb-10.5" Own,
    mariadb_old_with_cas_keeps_its_promises = "mariadb-10.5" Cas,
    mariadb_old_with_preempt_keeps_its_promises = "mariadb-10.5" Preempt,
}
