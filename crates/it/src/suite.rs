//! The contract: one function per promise, the same for every store.
//!
//! A store passes by `it::contract!(ground)`, which makes one test of every promise; the two sides
//! of a broker pass by `it::sink_contract!(shared, own)` and `it::feed_contract!(shared, own,
//! guarded)`.

mod act;
pub mod catalog;
pub mod chores;
pub mod feed;
pub mod inbox;
mod passage;
pub mod python;
pub mod sink;
pub mod source;
pub mod storm;

/// Makes one test of every promise, on the ground that the given function makes.
#[macro_export]
macro_rules! contract {
    ($ground:path) => {
        $crate::store_promises! { $ground, lease = $crate::suite::source::lease:
            a_claimed_row_is_not_handed_out_again_before_its_lease_runs_out
            an_unsettled_claim_comes_back_with_a_higher_fence_and_one_more_attempt
            a_settlement_from_before_the_lease_ran_out_is_stale_and_changes_nothing
            two_relays_never_hold_the_same_row
            a_standby_takes_over_when_the_lease_runs_out_and_not_before
            a_lane_knows_that_another_relay_holds_what_waits
            an_owner_that_goes_on_keeps_its_lease
            a_turn_that_overstays_loses_its_claim_though_its_relay_lives
            a_turn_that_overstays_takes_nothing_from_the_turns_beside_it
            a_claim_from_before_a_release_ends_nothing_of_the_next_one
            a_clock_that_is_set_back_hands_nothing_out_twice
            a_lease_from_a_clock_that_was_ahead_is_taken_over
            a_released_lane_hands_over_at_once
            a_lane_that_holds_nothing_is_released_too
            what_was_in_hand_at_a_release_spends_no_attempt
        }
        $crate::store_promises! { $ground, settle = $crate::suite::source::settle:
            done_is_final
            dead_is_final
            settling_twice_changes_nothing_the_second_time
            a_retry_is_due_after_its_time_and_counts_the_attempt
            a_release_spends_no_attempt
            each_settlement_of_many_is_judged_by_itself
            nothing_is_lost_or_made_up_at_any_step
        }
        $crate::store_promises! { $ground, order = $crate::suite::source::order:
            rows_of_one_key_come_in_order_within_a_claim
            followers_wait_while_their_key_is_in_hand
            followers_wait_behind_a_retry
            followers_pass_a_retry_where_the_lane_says_so
            a_dead_event_frees_its_key
            keys_do_not_wait_for_each_other
            rows_without_a_key_wait_for_nobody
            order_survives_a_release_of_the_whole_batch
            order_survives_a_take_over
            rows_that_wait_behind_their_key_do_not_starve_others
        }
        $crate::store_promises! { $ground, sequence = $crate::suite::source::sequence:
            a_claim_tells_where_its_row_stood_in_line
            a_sequence_stays_through_every_attempt_and_a_new_life
            a_delayed_event_has_no_sequence
        }
        $crate::store_promises! { $ground, due = $crate::suite::source::due:
            nothing_is_claimed_when_nothing_is_due
            a_delayed_row_comes_when_it_is_due_and_not_before
            what_is_due_first_comes_first
            retries_and_fresh_rows_share_a_claim
            large_retries_leave_room_for_fresh_rows
            a_claim_for_one_row_takes_retries_and_fresh_rows_in_turns
            a_claim_that_finds_nothing_takes_no_turn
            a_claim_that_only_looks_back_takes_no_turn
            suspects_take_turns_with_fresh_rows
            a_suspect_is_claimed_alone
            a_suspect_that_was_settled_is_no_suspect
        }
        $crate::store_promises! { $ground, lanes = $crate::suite::source::lanes:
            rows_of_other_lanes_are_passed_over_and_not_lost
            two_lanes_of_one_relay_see_disjoint_rows
            a_lane_opened_late_finds_what_waits
            a_key_that_waits_in_one_lane_does_not_wait_in_another
            a_lane_that_releases_takes_nothing_from_another
            a_claim_that_overstays_takes_nothing_from_another_lane
            a_claim_is_settled_by_its_own_lane_only
        }
        $crate::store_promises! { $ground, size = $crate::suite::source::size:
            a_claim_keeps_its_limit
            a_claim_keeps_its_bytes_but_one_event_always_fits
            what_is_in_hand_needs_no_room_when_a_claim_looks_back
            payloads_come_back_byte_for_byte
            headers_keys_and_names_come_back_letter_by_letter
            an_event_of_a_rolled_back_transaction_is_not_there
        }
        $crate::store_promises! { $ground, together = $crate::suite::source::together:
            an_outcome_beside_a_claim_is_known_to_the_next_one
            claims_made_at_once_share_no_row_and_no_key
            settlements_made_at_once_are_each_judged_by_themselves
            turns_that_overlap_take_each_event_once_and_keep_its_receipt
        }
        $crate::store_promises! { $ground, wait = $crate::suite::source::wait:
            wait_returns_on_a_ring
            wait_returns_when_an_event_is_put
            wait_returns_after_its_time
        }
        // A storm kills relays in the midst of their work, which may go on without them.
        $crate::promises! { $ground, storm = $crate::suite::storm:
            whatever_goes_wrong_nothing_is_lost_and_keys_stay_in_order
            without_faults_no_event_is_published_twice
        }
        $crate::store_promises! { $ground, catalog = $crate::suite::catalog:
            every_filter_finds_its_events_and_no_others
            pages_are_complete_and_without_repeats
            a_row_is_listed_with_its_status_all_its_life
            a_delayed_event_is_new_until_it_is_tried
            a_listed_event_tells_its_trail_and_its_receipt
            a_trail_keeps_only_the_newest_moments
            the_head_of_a_waiting_key_tells_how_many_wait_behind_it
            requeue_gives_the_named_dead_a_new_life
            a_requeue_answers_once_for_each_event
            requeue_takes_what_a_filter_finds_up_to_its_limit
            requeued_events_of_a_key_keep_their_order
            a_dead_row_is_requeued_once_however_many_ask
            requeue_beside_a_live_relay_loses_nothing
        }
        $crate::store_promises! { $ground, inbox = $crate::suite::inbox:
            an_event_is_begun_once_and_done_once_processed
            a_second_holder_is_told_to_wait
            of_many_at_once_one_works
            another_takes_over_after_the_lease
            a_late_finish_changes_nothing
            a_failure_may_be_tried_again
            groups_remember_apart
        }
        $crate::store_promises! { $ground, chores = $crate::suite::chores:
            only_old_history_is_trimmed_and_still_counted
            history_that_was_created_ahead_goes_in_its_time
            a_step_trims_no_more_than_its_size
            the_dead_are_never_trimmed
            only_old_inbox_memory_is_trimmed
            one_relay_at_a_time_holds_the_chores
        }
    };
}

/// Makes one test of every promise of a sink. The given functions make a quay: one of the broker
/// that all tests share, one of a broker of the test's own.
#[macro_export]
macro_rules! sink_contract {
    ($shared:path, $own:path) => {
        $crate::promises! { $shared, answers = $crate::suite::sink::answers:
            what_has_a_receipt_is_there_byte_for_byte
            text_that_is_no_json_arrives_letter_by_letter
            nothing_is_answered_with_nothing
            keys_stay_in_order_within_a_batch
            keys_stay_in_order_over_batches
            receipts_carry_what_the_broker_calls_each_event
            publishes_made_at_once_keep_their_answers_apart
        }
        $crate::promises! { $shared, limits = $crate::suite::sink::limits:
            a_refused_event_holds_its_followers_and_nobody_else
            an_oversize_event_is_rejected_alone
            an_unknown_topic_is_refused_by_name_or_made
            a_stranger_is_refused_and_no_secret_is_told
            after_a_stop_nothing_new_is_offered
            a_repeated_event_is_one_delivery_where_the_broker_dedupes
            a_look_at_the_broker_claims_no_more_than_is_so
            a_look_counts_what_waits_and_what_was_given_up
        }
        $crate::promises! { $own, faults = $crate::suite::sink::faults:
            a_broker_that_is_not_there_is_down
            an_answer_that_is_cut_off_is_unknown
            an_answer_that_does_not_come_is_unknown
            a_broker_that_sleeps_is_not_waited_for
            a_broker_that_is_killed_loses_no_receipt
        }
    };
}

/// Makes one test of every promise of a feed, like [`sink_contract!`]. The third function makes a
/// quay of the test's own whose broker asks for a password, if its kind does.
#[macro_export]
macro_rules! feed_contract {
    ($shared:path, $own:path, $guarded:path) => {
        $crate::promises! { $shared, ends = $crate::suite::feed::ends:
            what_was_published_comes_once_to_a_group
            two_groups_each_get_everything
            an_ack_is_for_good
            what_was_not_ended_comes_again_after_a_close
            what_was_not_ended_comes_again_after_its_lease
            again_comes_after_its_time
            dead_comes_no_more_and_is_kept
            extend_keeps_a_delivery_beyond_its_lease
            a_stale_handle_ends_nothing_of_the_next_holders
            what_was_ended_is_ended_once
            a_foreign_entry_comes_as_a_cause_and_does_not_stop_the_line
            no_more_is_handed_out_than_may_be_in_hand
            a_feed_without_events_says_so_in_time
            a_close_is_soon
        }
        $crate::promises! { $shared, order = $crate::suite::feed::order:
            one_consumer_gets_each_key_in_order
            the_sequence_comes_along_and_grows_with_each_key
            two_consumers_of_a_group_share_and_take_a_key_one_after_another
            again_holds_its_key_back_where_a_group_is_ordered
        }
        $crate::promises! { $own, outages = $crate::suite::feed::faults:
            a_consumer_that_dies_in_mid_work_loses_nothing
            a_feed_goes_on_after_its_broker_was_killed
            a_feed_goes_on_after_its_broker_slept
            what_an_answer_had_that_never_came_is_taken_before_anything_newer_of_its_key
        }
        $crate::promises! { $guarded, strangers = $crate::suite::feed::stranger:
            a_feed_with_a_wrong_password_says_so_and_goes_on_when_it_is_let_in
        }
    };
}

/// Makes one test of each named promise.
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($ground:path, $name:ident = $suite:path: $($promise:ident)+) => {
        mod $name {
            use $suite as suite;

            // Whoever names a function of the module around these means that one.
            #[allow(unused_imports)]
            use super::*;

            $(
                #[tokio::test]
                async fn $promise() {
                    suite::$promise(&$ground().await).await;
                }
            )+
        }
    };
}

/// Makes one test of each named promise of a store, which leaves its ground to the next.
#[doc(hidden)]
#[macro_export]
macro_rules! store_promises {
    ($ground:path, $name:ident = $suite:path: $($promise:ident)+) => {
        mod $name {
            use $suite as suite;

            $(
                #[test]
                fn $promise() {
                    $crate::ground::stand($ground, |ground| Box::pin(suite::$promise(ground)));
                }
            )+
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_promise_is_in_the_contract() {
        let contract = include_str!("suite.rs");
        let suites = [
            include_str!("suite/source/lease.rs"),
            include_str!("suite/source/settle.rs"),
            include_str!("suite/source/order.rs"),
            include_str!("suite/source/sequence.rs"),
            include_str!("suite/source/due.rs"),
            include_str!("suite/source/lanes.rs"),
            include_str!("suite/source/size.rs"),
            include_str!("suite/source/together.rs"),
            include_str!("suite/source/wait.rs"),
            include_str!("suite/storm.rs"),
            include_str!("suite/catalog.rs"),
            include_str!("suite/inbox.rs"),
            include_str!("suite/chores.rs"),
            include_str!("suite/sink/answers.rs"),
            include_str!("suite/sink/limits.rs"),
            include_str!("suite/sink/faults.rs"),
            include_str!("suite/feed/ends.rs"),
            include_str!("suite/feed/order.rs"),
            include_str!("suite/feed/faults.rs"),
            include_str!("suite/feed/stranger.rs"),
        ];
        for promise in suites.iter().flat_map(|text| text.split("\npub async fn ").skip(1)) {
            let name = promise.split('(').next().unwrap();
            assert!(contract.contains(&format!(" {name}\n")), "{name} is in no contract");
        }
    }
}
