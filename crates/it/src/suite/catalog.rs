//! The rows as a person sees them, and the new life of dead ones.

use std::collections::HashSet;
use std::slice;

use event::{
    Cause, Code, Event, EventId, Filter, Listed, Moment, Outcome, Page, Receipt, Requeued, Status,
};

use crate::ground::Ground;
use crate::suite::act::{
    LEASE, Relay, SECOND, cause, dead, done, ids, ids_of, keyed, relay, release, retry, unkeyed,
};

/// Each filter finds exactly what it names, alone and together with others.
pub async fn every_filter_finds_its_events_and_no_others(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = [
        Event::new("order.paid", "Paid", "{}").key("1"),
        Event::new("order.paid", "Paid", "{}").key("2"),
        Event::new("order.sent", "Sent", "{}").key("1"),
        Event::new("order.sent", "Late", "{}"),
    ];
    one.put(&events).await;
    let claims = one.claim(10).await;
    one.end(&claims[..1], &done()).await;
    one.end(&claims[1..2], &dead()).await;
    one.end(&claims[2..3], &retry(SECOND)).await;
    let all = || Filter::default();
    let cases = [
        (all(), vec![0, 1, 2, 3]),
        (Filter { id: Some(events[2].id), ..all() }, vec![2]),
        (Filter { id: Some(EventId::new()), ..all() }, vec![]),
        (Filter { key: Some("1".into()), ..all() }, vec![0, 2]),
        (Filter { kind: Some("Paid".into()), ..all() }, vec![0, 1]),
        (Filter { topic: Some("order.sent".into()), ..all() }, vec![2, 3]),
        (Filter { status: Some(Status::Sent), ..all() }, vec![0]),
        (Filter { status: Some(Status::Dead), ..all() }, vec![1]),
        (Filter { status: Some(Status::Retry), ..all() }, vec![2]),
        (Filter { status: Some(Status::Dispatching), ..all() }, vec![3]),
        (Filter { status: Some(Status::New), ..all() }, vec![]),
        (Filter { code: Some(cause().code.as_str().into()), ..all() }, vec![1, 2]),
        (Filter { code: Some("no-such-code".into()), ..all() }, vec![]),
        (Filter { key: Some("1".into()), topic: Some("order.sent".into()), ..all() }, vec![2]),
        (Filter { key: Some("%".into()), ..all() }, vec![]),
    ];
    for (filter, wanted) in cases {
        let found: HashSet<_> = listed_ids(&one.find(&filter).await).into_iter().collect();
        let wanted: HashSet<_> = wanted.into_iter().map(|n: usize| events[n].id).collect();
        assert_eq!(found, wanted, "{filter:?}");
    }
}

/// Page by page, newest first, everything comes once, whatever table it stands in.
pub async fn pages_are_complete_and_without_repeats(ground: &dyn Ground) {
    let one = relay(ground).await;
    let mut wanted = Vec::new();
    for round in 0..6 {
        let events: Vec<_> = (0..5).map(|_| unkeyed()).collect();
        one.put(&events).await;
        one.put_at(&unkeyed(), ground.clock().now() + 100 * LEASE).await;
        wanted.extend(ids_of(&events));
        let claims = one.claim(4).await;
        one.end(&claims[..1], &done()).await;
        one.end(&claims[1..2], &dead()).await;
        one.end(&claims[2..3], &retry(LEASE)).await;
        if round % 2 == 0 {
            ground.clock().advance(SECOND);
        }
    }
    for limit in [1, 7, 36, 100] {
        let mut came: Vec<Listed> = Vec::new();
        let mut page = Page { limit, after: None, payloads: false };
        loop {
            let listing = one.catalog.find(&Filter::default(), &page).await.expect("it lists");
            assert!(listing.events.len() <= limit);
            came.extend(listing.events);
            page.after = listing.next;
            if page.after.is_none() {
                break;
            }
            assert!(came.len() <= 36, "the pages go on for ever");
        }
        let found: HashSet<_> = listed_ids(&came).into_iter().collect();
        assert_eq!((came.len(), found.len()), (36, 36), "pages of {limit}");
        assert!(wanted.iter().all(|id| found.contains(id)));
        assert!(came.is_sorted_by_key(|listed| std::cmp::Reverse(listed.event.created)));
    }
}

/// The status names that people know follow a row through its life, and so do the counts.
pub async fn a_row_is_listed_with_its_status_all_its_life(ground: &dyn Ground) {
    let one = relay(ground).await;
    let event = keyed("1");
    one.put(slice::from_ref(&event)).await;
    is(&one, event.id, Status::New, 0).await;
    let claims = one.claim(1).await;
    is(&one, event.id, Status::Dispatching, 1).await;
    one.end(&claims, &release()).await;
    is(&one, event.id, Status::New, 0).await;
    let claims = one.claim(1).await;
    one.end(&claims, &retry(SECOND)).await;
    is(&one, event.id, Status::Retry, 1).await;
    let due = one.look(event.id).await.next_attempt;
    assert_eq!(due, Some(ground.clock().now() + SECOND));
    ground.clock().advance(2 * SECOND);
    assert_eq!(one.count().await.oldest_due, due);
    let claims = one.claim(1).await;
    is(&one, event.id, Status::Dispatching, 2).await;
    one.end(&claims, &dead()).await;
    is(&one, event.id, Status::Dead, 2).await;
    assert_eq!(one.look(event.id).await.next_attempt, None);
    one.requeue(&[event.id]).await;
    is(&one, event.id, Status::New, 0).await;
    let claims = one.claim(1).await;
    one.end(&claims, &done()).await;
    is(&one, event.id, Status::Sent, 1).await;
}

/// A delayed event that nobody has tried is new, and says when it is due.
pub async fn a_delayed_event_is_new_until_it_is_tried(ground: &dyn Ground) {
    let one = relay(ground).await;
    let (event, due) = (unkeyed(), ground.clock().now() + LEASE);
    one.put_at(&event, due).await;
    is(&one, event.id, Status::New, 0).await;
    assert_eq!(one.look(event.id).await.next_attempt, Some(due));
    assert_eq!(one.count().await.oldest_due, None);
    ground.clock().advance(LEASE);
    is(&one, event.id, Status::New, 0).await;
    assert_eq!(one.count().await.oldest_due, Some(due));
    let claims = one.claim(1).await;
    is(&one, event.id, Status::Dispatching, 1).await;
    one.end(&claims, &release()).await;
    is(&one, event.id, Status::New, 0).await;
    let claims = one.claim(1).await;
    one.end(&claims, &retry(SECOND)).await;
    is(&one, event.id, Status::Retry, 1).await;
}

async fn is(relay: &Relay, id: EventId, status: Status, attempts: u32) {
    let listed = relay.look(id).await;
    assert_eq!((listed.status, listed.attempts), (status, attempts));
    for asked in Status::ALL {
        let found = relay.find(&Filter { status: Some(asked), ..Filter::default() }).await;
        assert_eq!(found.len(), usize::from(asked == status), "{asked} of a row that is {status}");
    }
    let counts = relay.count().await;
    let there = match status {
        Status::New => counts.new,
        Status::Dispatching => counts.dispatching,
        Status::Retry => counts.retry,
        Status::Sent => counts.sent,
        Status::Dead => counts.dead,
    };
    assert_eq!((there, counts.committed()), (1, 1), "{status}: {counts:?}");
}

/// One event's page: what went wrong when, and the broker's id in the end.
pub async fn a_listed_event_tells_its_trail_and_its_receipt(ground: &dyn Ground) {
    let one = relay(ground).await;
    let event = keyed("1");
    one.put(slice::from_ref(&event)).await;
    let mut trail = Vec::new();
    for attempt in 1..4 {
        let claim = one.claim_one().await;
        let cause = Cause::new(Code::SinkBusy, format!("429 for the {attempt}th time, 'quoted'"));
        trail.push(Moment { at: ground.clock().now(), attempt, cause: cause.clone() });
        one.end(&[claim], &Outcome::Retry { after: SECOND, cause }).await;
        let listed = one.look(event.id).await;
        assert_eq!((&listed.trail, listed.updated), (&trail, ground.clock().now()));
        assert_eq!(listed.last_error(), trail.last().map(|moment| &moment.cause));
        ground.clock().advance(SECOND);
    }
    let claim = one.claim_one().await;
    let receipt = Receipt { broker_id: Some("0:42 ü".into()) };
    one.end(&[claim], &Outcome::Done(receipt.clone())).await;
    let listed = one.look(event.id).await;
    assert_eq!((listed.trail, listed.broker_id), (trail, receipt.broker_id));
    assert_eq!(listed.updated, ground.clock().now());
}

/// A row does not grow with its failures.
pub async fn a_trail_keeps_only_the_newest_moments(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed()]).await;
    let most = u32::try_from(Moment::MOST).expect("a small number");
    for _ in 0..most + 5 {
        let claim = one.claim_one().await;
        one.end(&[claim], &retry(SECOND)).await;
        ground.clock().advance(SECOND);
    }
    let listed = one.find(&Filter::default()).await.remove(0);
    assert_eq!(listed.trail.len(), Moment::MOST);
    assert_eq!(listed.trail.last().map(|moment| moment.attempt), Some(most + 5));
}

/// The board shows what a failing event costs.
pub async fn the_head_of_a_waiting_key_tells_how_many_wait_behind_it(ground: &dyn Ground) {
    if !ground.traits().ordered {
        return;
    }
    let one = relay(ground).await;
    let events = ["a", "a", "b", "a"].map(keyed);
    one.put(&events).await;
    let head = one.claim(1).await;
    one.end(&head, &retry(LEASE)).await;
    assert_eq!(one.look(events[0].id).await.behind, 2);
    assert_eq!(one.look(events[2].id).await.behind, 0);
}

/// Puts events and has them given up.
async fn lay_dead(relay: &Relay, events: &[Event]) {
    relay.put(events).await;
    loop {
        let claims = relay.claim(events.len()).await;
        if claims.is_empty() {
            break;
        }
        relay.end(&claims, &dead()).await;
    }
}

/// One or several by name: the same event, all its attempts before it.
pub async fn requeue_gives_the_named_dead_a_new_life(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = [keyed("a"), keyed("b"), keyed("a")];
    lay_dead(&one, &events).await;
    let waiting = unkeyed();
    one.put(slice::from_ref(&waiting)).await;
    let stranger = EventId::new();
    let done_ = one.requeue(&[events[2].id, waiting.id, events[0].id, stranger]).await;
    let Requeued { requeued, skipped } = done_;
    assert_eq!(requeued, [events[0].id, events[2].id], "oldest first");
    assert_eq!(skipped, [waiting.id, stranger]);
    let again = one.requeue(&[events[2].id]).await;
    assert_eq!((again.requeued, again.skipped), (vec![], vec![events[2].id]));
    let claims = one.claim(10).await;
    let came: HashSet<_> = ids(&claims).into_iter().collect();
    assert_eq!(came, HashSet::from([events[2].id, events[0].id, waiting.id]));
    assert!(claims.iter().all(|claim| claim.attempt == 1), "{claims:?}");
    one.end(&claims, &done()).await;
    assert_eq!((one.count().await.sent, one.count().await.dead), (3, 1));
}

/// However an event is named, and however often, it is answered for once.
pub async fn a_requeue_answers_once_for_each_event(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = [keyed("a"), keyed("a"), keyed("b")];
    lay_dead(&one, &events).await;
    let (a, b) = (events[0].id, events[2].id);
    let stranger = EventId::new();
    let filter = Filter { key: Some("a".into()), ..Filter::default() };
    let named = [a, stranger, a, b, stranger];
    let done = one.catalog.requeue(&named, Some(&filter), 10).await.expect("it requeues");
    assert_eq!(done, Requeued { requeued: ids_of(&events), skipped: vec![stranger] });
    assert_eq!((one.count().await.dead, one.count().await.new), (0, 3));
}

/// A filter requeues the dead among what it finds, and no more than was said.
pub async fn requeue_takes_what_a_filter_finds_up_to_its_limit(ground: &dyn Ground) {
    let one = relay(ground).await;
    let mine: Vec<_> = (0..5).map(|_| keyed("a")).collect();
    lay_dead(&one, &mine).await;
    lay_dead(&one, &[keyed("b")]).await;
    one.put(&[keyed("a")]).await;
    let filter = Filter { key: Some("a".into()), ..Filter::default() };
    for (limit, wanted) in [(0, 0), (2, 2), (100, 3), (100, 0)] {
        let done = one.catalog.requeue(&[], Some(&filter), limit).await.expect("it requeues");
        assert_eq!((done.requeued.len(), done.skipped.len()), (wanted, 0), "limit {limit}");
        assert!(done.requeued.iter().all(|id| mine.iter().any(|event| event.id == *id)));
    }
    assert_eq!(one.count().await.dead, 1);
    assert_eq!(one.count().await.committed(), 7);
}

/// However they are found, and however many they are, a key's events come back in their order.
pub async fn requeued_events_of_a_key_keep_their_order(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events: Vec<_> = (0..600).map(|_| keyed("a")).collect();
    lay_dead(&one, &events).await;
    let filter = Filter { key: Some("a".into()), ..Filter::default() };
    let back = one.catalog.requeue(&[events[3].id], Some(&filter), 700).await;
    assert_eq!(back.expect("it requeues").requeued, ids_of(&events));
    let mut came = Vec::new();
    while came.len() < events.len() {
        let claims = one.claim(1000).await;
        assert!(!claims.is_empty(), "{} of them came", came.len());
        came.extend(ids(&claims));
        one.end(&claims, &done()).await;
    }
    assert_eq!(came, ids_of(&events));
}

/// Two people press the button at once: one new life.
pub async fn a_dead_row_is_requeued_once_however_many_ask(ground: &dyn Ground) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    let events: Vec<_> = (0..10).map(|_| unkeyed()).collect();
    lay_dead(&one, &events).await;
    let wanted = ids_of(&events);
    let (x, y) = tokio::join!(one.requeue(&wanted), other.requeue(&wanted));
    assert_eq!(x.requeued.len() + y.requeued.len(), 10);
    assert_eq!(x.skipped.len() + y.skipped.len(), 10);
    assert_eq!((one.count().await.dead, one.count().await.committed()), (0, 10));
}

/// A person requeues while a relay claims, gives up and publishes: all are accounted for.
pub async fn requeue_beside_a_live_relay_loses_nothing(ground: &dyn Ground) {
    let (one, person) = (relay(ground).await, relay(ground).await);
    let events: Vec<_> = (0..30).map(|n| keyed(&(n % 3).to_string())).collect();
    one.put(&events).await;
    let relaying = async {
        for round in 0..20 {
            let claims = one.claim(6).await;
            let outcome = if round % 2 == 0 { dead() } else { done() };
            one.end(&claims, &outcome).await;
        }
    };
    let requeueing = async {
        for _ in 0..20 {
            let all = Filter::default();
            person.catalog.requeue(&[], Some(&all), 5).await.expect("it requeues");
            assert_eq!(person.count().await.committed(), 30);
        }
    };
    tokio::join!(relaying, requeueing);
    person.catalog.requeue(&[], Some(&Filter::default()), 100).await.expect("it requeues");
    loop {
        let claims = one.claim(100).await;
        if claims.is_empty() {
            break;
        }
        one.end(&claims, &done()).await;
    }
    let counts = one.count().await;
    assert_eq!((counts.sent, counts.dead, counts.pending()), (30, 0, 0));
}

fn listed_ids(events: &[Listed]) -> Vec<EventId> {
    events.iter().map(|listed| listed.event.id).collect()
}
