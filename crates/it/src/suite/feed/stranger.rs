//! What a feed with a wrong password is told: that, and nothing else.

use std::time::{Duration, Instant};

use broker::manner::Subscription;
use event::{Code, Feed, Refusal};

use crate::quay::Quay;
use crate::suite::passage::{Bringer, PATIENCE, Passage, TIMEOUT, ack, id_of, ids, next_of};

/// How long one asks a feed at once.
const ASK: Duration = Duration::from_millis(500);
/// How often it is asked on once it has said what is wrong: clients try anew by themselves, and may
/// then say something else.
const ON: usize = 8;
/// How a cause says what to do.
const ADVICE: [&str; 3] = ["correct ", "check ", "look at "];

/// A feed with a wrong password says so and what to do, tells no secret, and takes nothing from
/// anybody. When that password is right, the same feed goes on by itself.
pub async fn a_feed_with_a_wrong_password_says_so_and_goes_on_when_it_is_let_in(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let wants =
        Subscription { timeout: TIMEOUT, ..Subscription::new(&*passage.group, &[&passage.topic]) };
    let stray = quay.strange_feed(wants).await.expect("the options are right");
    let Some((_line, feed)) = stray else { return };
    let told = troubles(&*feed).await;
    for refusal in &told {
        let Refusal::Down(cause) = refusal else { panic!("{told:?}") };
        assert_eq!(cause.code, Code::AuthRefused, "{told:?}");
        assert!(ADVICE.iter().any(|word| cause.detail.contains(word)), "what to do? {cause}");
        passage.clean(cause);
    }

    let (sink, reader) = (passage.sink().await, passage.reader().await);
    let (events, marker) = (passage.events(2, 5), passage.marker());
    assert_eq!(Bringer::start(sink.clone(), events.clone()).done().await, []);
    reader.until_ended(&ids(&events)).await;
    reader.close().await;
    assert_eq!(Bringer::start(sink, vec![marker.clone()]).done().await, []);
    for refusal in troubles(&*feed).await {
        let code = refusal.cause().map(|cause| cause.code);
        assert_eq!(code, Some(Code::AuthRefused), "{refusal:?}");
    }

    quay.admit().await.expect("the password can be changed");
    let come = next_of(&feed, marker.id).await;
    assert_eq!(id_of(&come), Some(marker.id));
    ack(&feed, &come).await;
    feed.close().await;
}

/// Asks until it is told what is wrong, and on for a while; returns all that was told.
async fn troubles(feed: &dyn Feed) -> Vec<Refusal> {
    let (until, mut told) = (Instant::now() + PATIENCE, Vec::new());
    let mut on = 0;
    while on < ON {
        assert!(Instant::now() < until, "it does not say what is wrong");
        match feed.next(ASK).await {
            Ok(None) => {}
            Ok(Some(delivery)) => panic!("a stranger got {delivery:?}"),
            Err(refusal) => told.push(refusal),
        }
        on += usize::from(!told.is_empty());
    }
    told
}
