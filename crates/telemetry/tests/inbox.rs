//! What a consumer says of the events that come to it is on the page of metrics.

use event::Pulse;
use postbox_telemetry::{TakenIn, Telemetry, taken_in};

#[test]
fn each_event_that_comes_is_counted_under_its_group_and_its_end() {
    let telemetry = Telemetry::install();
    for what in [TakenIn::First, TakenIn::Before, TakenIn::Before, TakenIn::Failed] {
        taken_in("shop", what);
    }
    let page = telemetry.metrics();
    for line in [
        r#"postbox_inbox_taken_in_total{group="shop"} 1"#,
        r#"postbox_inbox_duplicates_total{group="shop"} 2"#,
        r#"postbox_inbox_failed_total{group="shop"} 1"#,
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}
