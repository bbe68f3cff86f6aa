//! Makes one test of each fact on each server of a group.

/// Names a group of servers and the facts that hold on all of them.
macro_rules! facts {
    (on_postgres: $facts:tt) => {
        facts!(@on_postgres
            [postgres_13 "postgres-13", postgres_15 "postgres", postgres_18 "postgres-18"] $facts);
    };
    (on_the_mysql_family: $facts:tt) => {
        facts!(@on_the_mysql_family
            [mysql "mysql", mariadb "mariadb", mariadb_10_5 "mariadb-10.5"] $facts);
    };
    (with_skip_locked: $facts:tt) => {
        facts!(@with_skip_locked [mysql "mysql", mariadb "mariadb"] $facts);
    };
    (without_skip_locked: $facts:tt) => {
        facts!(@without_skip_locked [mariadb_10_5 "mariadb-10.5"] $facts);
    };
    (on_mysql: $facts:tt) => {
        facts!(@on_mysql [mysql "mysql"] $facts);
    };
    (on_mariadb: $facts:tt) => {
        facts!(@on_mariadb [mariadb "mariadb", mariadb_10_5 "mariadb-10.5"] $facts);
    };
    (on_mariadb_10_11: $facts:tt) => {
        facts!(@on_mariadb_10_11 [mariadb "mariadb"] $facts);
    };
    (@$group:ident [$($module:ident $server:literal),+] $facts:tt) => {
        mod $group {
            $(facts!(@ $module $server $facts);)+
        }
    };
    (@ $module:ident $server:literal [$($fact:ident),+ $(,)?]) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $fact() {
                    let fact = super::super::$fact;
                    $crate::sql_facts::home::lend($server, fact).await.unwrap();
                }
            )+
        }
    };
}
