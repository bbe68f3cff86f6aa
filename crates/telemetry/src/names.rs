//! Every metric's name and meaning, in one place. `docs/operate/metrics.md` is held to it.

use metrics::{describe_counter, describe_gauge, describe_histogram};

macro_rules! metrics {
    ($($kind:ident { $($name:ident $text:literal $meaning:literal,)+ })+) => {
        $($(pub(crate) const $name: &str = $text;)+)+

        pub(crate) fn describe() {
            $($(metrics!(@ $kind $name $meaning);)+)+
        }

        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$($((stringify!($kind), $text),)+)+];
    };
    (@ counters $name:ident $meaning:literal) => { describe_counter!($name, $meaning) };
    (@ gauges $name:ident $meaning:literal) => { describe_gauge!($name, $meaning) };
    (@ histograms $name:ident $meaning:literal) => { describe_histogram!($name, $meaning) };
}

metrics! {
    counters {
        CLAIMED "postbox_claimed_total" "Events claimed, by outbox and sink.",
        PUBLISHED "postbox_published_total" "Events with a receipt, by outbox and sink.",
        REFUSED "postbox_refused_total"
            "Answers without a receipt, by outbox, sink, reaction and code.",
        DEAD "postbox_dead_total" "Events given up, by outbox, sink and code.",
        STALE "postbox_stale_total" "Settlements that came too late and changed nothing.",
        OUTRUN "postbox_outrun_total"
            "Rows that a claim had chosen and another relay was quicker to claim.",
        STORE_ERRORS "postbox_store_errors_total"
            "Times that a database did not answer a lane, by outbox, sink and code.",
        TAKEN_IN "postbox_inbox_taken_in_total" "Events taken in, by group.",
        DUPLICATES "postbox_inbox_duplicates_total"
            "Events that had been taken in before, by group.",
        FAILED "postbox_inbox_failed_total" "Events that could not be taken in, by group.",
    }
    gauges {
        EVENTS "postbox_events" "Events by outbox and status; NaN while they cannot be counted.",
        ESTIMATED "postbox_events_estimated" "1 while some of the counts are estimates from above.",
        OLDEST "postbox_oldest_due_seconds"
            "Age of the oldest event that is due, in seconds; NaN while it cannot be read.",
        OUTBOX_UP "postbox_outbox_up" "1 while the outbox's database answers, else 0.",
        LANE_UP "postbox_lane_up"
            "1 while a lane takes turns, 0 while it rests, waits or is broken.",
        SINK_DURABILITY "postbox_sink_durability"
            "What a sink's receipts are worth: 0 best-effort, 1 durable, 2 replicated.",
        SINK_FINDING "postbox_sink_finding"
            "What a look at a sink found: 1 look at it, 2 it does not work, 0 it is over.",
        BROKER_LAG "postbox_broker_lag"
            "Events that a group has not taken in, by sink, topic and group.",
        BROKER_RETRY "postbox_broker_retry"
            "Events that wait at the broker to be handed out again, by sink, topic and group.",
        BROKER_DEAD "postbox_broker_dead"
            "Events that the broker has given up handing out, by sink, topic and group.",
        BROKER_DISK "postbox_broker_disk"
            "How much of the broker's disk is used, from 0 to 1, by sink and topic.",
    }
    histograms {
        LATENCY "postbox_dispatch_latency_seconds"
            "From the row's creation to the broker's receipt, in seconds.",
        DUE "postbox_due_seconds"
            "From when it could have been claimed to the receipt, in seconds.",
        INBOX_AGE "postbox_inbox_age_seconds"
            "From the row's creation to the consumer's commit, in seconds, by group.",
        ATTEMPTS "postbox_attempts" "How many attempts it took, at each settlement.",
        PUBLISH "postbox_publish_seconds" "How long a sink took for a batch, in seconds.",
        CLAIM "postbox_claim_seconds" "How long a claim took, in seconds.",
        SETTLE "postbox_settle_seconds" "How long a settlement took, in seconds.",
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn the_page_lists_exactly_these_each_under_its_kind() {
        let page = include_str!("../../../docs/operate/metrics.md");
        let mut kind = String::new();
        let mut listed = Vec::new();
        for line in page.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                kind = heading.to_lowercase();
            } else if let Some(row) = line.strip_prefix("| `postbox_") {
                let name = row.split('`').next().unwrap_or_default();
                listed.push((kind.clone(), format!("postbox_{name}")));
            }
        }
        let pairs = |(kind, name): &(&str, &str)| ((*kind).to_owned(), (*name).to_owned());
        assert_eq!(listed, ALL.iter().map(pairs).collect::<Vec<_>>());
    }
}
