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

mod postgres_13 {
    it::contract!(it::ground::postgres_13);
}

/// What every statement of a way to claim has a part in.
macro_rules! in_short {
    ($($name:ident)+) => {
        $(
            mod $name {
                it::store_promises! { it::ground::$name, lease = it::suite::source::lease:
                    a_claimed_row_is_not_handed_out_again_before_its_lease_runs_out
                    an_unsettled_claim_comes_back_with_a_higher_fence_and_one_more_attempt
                    two_relays_never_hold_the_same_row
                    what_was_in_hand_at_a_release_spends_no_attempt
                }
                it::store_promises! { it::ground::$name, settle = it::suite::source::settle:
                    each_settlement_of_many_is_judged_by_itself
                    nothing_is_lost_or_made_up_at_any_step
                }
                it::store_promises! { it::ground::$name, due = it::suite::source::due:
                    what_is_due_first_comes_first
                    retries_and_fresh_rows_share_a_claim
                }
                it::store_promises! { it::ground::$name, together = it::suite::source::together:
                    claims_made_at_once_share_no_row_and_no_key
                    turns_that_overlap_take_each_event_once_and_keep_its_receipt
                }
            }
        )+
    };
}

// The oldest PostgreSQL speaks the same statements as the others, which keep every promise.
in_short! {
    postgres_13_skip_locked
    postgres_13_cas
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
