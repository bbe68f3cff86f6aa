//! What a consumer says of the events that come to it is on the page of metrics.

use std::time::Duration;

use event::{Cause, Code, Consumed, Pulse, Witness};
use postbox_telemetry::{TakenIn, Telemetry, taken_in};

#[test]
fn each_event_that_comes_is_counted_under_its_group_and_its_end() {
    let telemetry = Telemetry::install();
    for what in [TakenIn::First, TakenIn::Before, TakenIn::Before, TakenIn::Failed] {
        taken_in("shop", what);
    }
    let (work, age) = (Duration::from_millis(3), Duration::from_secs(2));
    let cause = Cause::new(Code::ConsumerFailed, "no stock");
    for what in [
        Consumed::First { work, age },
        Consumed::Before,
        Consumed::Again(cause.clone()),
        Consumed::Dead(cause.clone()),
        Consumed::Away(cause),
    ] {
        telemetry.consumed("stock", &what);
    }
    let page = telemetry.metrics();
    for line in [
        r#"postbox_inbox_taken_in_total{group="shop"} 1"#,
        r#"postbox_inbox_duplicates_total{group="shop"} 2"#,
        r#"postbox_inbox_failed_total{group="shop"} 1"#,
        r#"postbox_inbox_taken_in_total{group="stock"} 1"#,
        r#"postbox_inbox_duplicates_total{group="stock"} 1"#,
        r#"postbox_inbox_failed_total{group="stock"} 2"#,
        r#"postbox_inbox_age_seconds_sum{group="stock"} 2"#,
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}
