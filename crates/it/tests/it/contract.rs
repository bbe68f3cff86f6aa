//! Every store keeps every promise, and says clearly why when it cannot.

/// Makes a test of a function on each kind of server.
macro_rules! servers {
    ($test:ident) => {
        mod on {
            #[tokio::test]
            async fn postgres() {
                super::$test("postgres").await;
            }

            #[tokio::test]
            async fn mysql() {
                super::$test("mysql").await;
            }

            #[tokio::test]
            async fn mariadb() {
                super::$test("mariadb").await;
            }

            #[tokio::test]
            async fn mariadb_10_5() {
                super::$test("mariadb-10.5").await;
            }
        }
    };
}

mod accounts;
mod alphabets;
mod apart;
mod application;
mod backlog;
mod beside;
mod callers;
mod competing;
mod delayed;
mod doubted;
mod failed;
mod falls_due;
mod halfway;
mod history;
mod late;
mod lines;
mod locks;
mod opened;
mod ordered;
mod outrun;
mod plans;
mod refusals;
mod shape;
mod sharing;
mod unnamed;
mod upkeep;
mod view;
mod yielding;

mod memory {
    it::contract!(it::ground::memory);
}

mod memory_competing {
    it::contract!(it::ground::memory_competing);
}

mod sqlite {
    it::contract!(it::ground::sqlite);
}

mod postgres {
    it::contract!(it::ground::postgres);
}

mod postgres_unshared {
    it::contract!(it::ground::postgres_unshared);
}

mod postgres_18 {
    it::contract!(it::ground::postgres_18);
}

mod postgres_18_skip_locked {
    it::contract!(it::ground::postgres_18_skip_locked);
}

mod postgres_18_cas {
    it::contract!(it::ground::postgres_18_cas);
}

mod postgres_skip_locked {
    it::contract!(it::ground::postgres_skip_locked);
}

mod postgres_cas {
    it::contract!(it::ground::postgres_cas);
}

mod mysql {
    it::contract!(it::ground::mysql);
}

mod mysql_unshared {
    it::contract!(it::ground::mysql_unshared);
}

mod mariadb {
    it::contract!(it::ground::mariadb);
}

mod mariadb_unshared {
    it::contract!(it::ground::mariadb_unshared);
}

mod mariadb_old {
    it::contract!(it::ground::mariadb_old);
}

mod mariadb_old_unshared {
    it::contract!(it::ground::mariadb_old_unshared);
}

mod mysql_skip_locked {
    it::contract!(it::ground::mysql_skip_locked);
}

mod mysql_cas {
    it::contract!(it::ground::mysql_cas);
}

mod mysql_preempt {
    it::contract!(it::ground::mysql_preempt);
}

mod mariadb_skip_locked {
    it::contract!(it::ground::mariadb_skip_locked);
}

mod mariadb_cas {
    it::contract!(it::ground::mariadb_cas);
}

mod mariadb_preempt {
    it::contract!(it::ground::mariadb_preempt);
}

mod mariadb_old_cas {
    it::contract!(it::ground::mariadb_old_cas);
}

mod mariadb_old_preempt {
    it::contract!(it::ground::mariadb_old_preempt);
}
