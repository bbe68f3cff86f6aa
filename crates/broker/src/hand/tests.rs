//! The rules of a hand, with its clock moved by hand.

use super::missed::{LONGER, PACE};
use super::*;

const LEASE: Duration = Duration::from_secs(10);

fn arrival(key: &str, until: Instant) -> Arrival<&'static str> {
    let event = Ok(Event::new("t", "T", "{}").key(key));
    Arrival { event, origin: String::new(), attempt: 1, ticket: "ticket", until }
}

fn hand(most: usize) -> Hand<u32, &'static str> {
    Hand::new(most, LEASE)
}

async fn next(hand: &Hand<u32, &'static str>) -> Option<Handle> {
    let next = hand.next(Instant::now()).await.unwrap();
    next.map(|delivery| delivery.handle)
}

#[tokio::test(start_paused = true)]
async fn no_more_are_handed_out_than_may_be_in_hand() {
    let hand = hand(2);
    for (place, key) in [(1, "a"), (2, "b"), (3, "c")] {
        hand.arrive(place, arrival(key, Instant::now() + LEASE));
    }
    let first = next(&hand).await.unwrap();
    assert!(next(&hand).await.is_some());
    assert_eq!(next(&hand).await, None);
    hand.end(first);
    assert!(next(&hand).await.is_some());
    hand.find(first).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_ends_nothing_and_holds_its_key_until_it_comes_again() {
    let hand = hand(8);
    hand.arrive(1, arrival("a", Instant::now() + LEASE));
    hand.arrive(2, arrival("a", Instant::now() + LEASE * 4));
    let first = next(&hand).await.unwrap();
    tokio::time::advance(LEASE).await;
    let stale = hand.find(first).unwrap_err();
    assert!(matches!(stale, Refusal::Reject(_)), "{stale:?}");
    assert_eq!(next(&hand).await, None, "its follower waits for it");
    hand.arrive(1, arrival("a", Instant::now() + LEASE));
    let again = next(&hand).await.unwrap();
    assert_ne!(again, first);
    hand.end(first);
    assert_eq!(next(&hand).await, None, "a stale handle frees nothing");
    hand.end(again);
    assert!(next(&hand).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_renewed_and_what_is_in_hand_only_if_it_shall_be_kept() {
    let hand = hand(8);
    hand.arrive(1, arrival("a", Instant::now() + LEASE));
    hand.arrive(2, arrival("a", Instant::now() + LEASE));
    let first = next(&hand).await.unwrap();
    assert_eq!(hand.due(), []);
    tokio::time::advance(LEASE * 3 / 4).await;
    assert_eq!(hand.due(), [], "nobody has asked for half a lease");
    assert_eq!(next(&hand).await, None);
    let until = Instant::now() + LEASE / 4;
    assert_eq!(hand.due(), [Ours { place: 2, ticket: "ticket", until }]);
    hand.keep(first, LEASE * 2);
    assert_eq!(hand.due().len(), 2);
    hand.renewed(&1, Instant::now());
    hand.renewed(&2, Instant::now());
    assert_eq!(hand.due(), []);
    tokio::time::advance(LEASE * 3 / 4).await;
    hand.find(first).unwrap();
    hand.lost(&1);
    hand.find(first).unwrap_err();
    assert_eq!(hand.clear().into_iter().map(|ours| ours.place).collect::<Vec<_>>(), [2]);
}

#[tokio::test(start_paused = true)]
async fn what_ran_out_while_it_waited_goes_before_what_is_newer_of_its_key() {
    let hand = hand(8);
    let soon = Instant::now() + LEASE;
    hand.arrive(1, arrival("a", soon));
    tokio::time::advance(LEASE).await;
    hand.arrive(2, arrival("a", soon + LEASE * 9));
    hand.arrive(3, arrival("b", soon + LEASE * 9));
    let other = next(&hand).await.unwrap();
    assert_eq!(hand.find(other).unwrap().place, 3);
    assert_eq!(next(&hand).await, None, "the first comes again");
    hand.arrive(1, arrival("a", soon + LEASE * 9));
    let first = next(&hand).await.unwrap();
    assert_eq!(hand.find(first).unwrap().place, 1);
    hand.end(first);
    assert_eq!(hand.find(next(&hand).await.unwrap()).unwrap().place, 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_finds_room_once_it_may_come() {
    let hand = std::sync::Arc::new(hand(1));
    let due = Instant::now() + LEASE;
    hand.miss("a", 1, Missed::new(due, due + LEASE));
    for place in 2..6 {
        hand.arrive(place, arrival("a", due + LEASE));
    }
    let asking = std::sync::Arc::clone(&hand);
    let asking = tokio::spawn(async move { asking.next(due + LEASE / 2).await });
    let one = Room { of: 1, missed_only: true };
    assert_eq!(hand.room().await, one);
    assert_eq!(Instant::now(), due, "those that wait have filled it");
    assert_eq!(hand.room().await, one);
    assert_eq!(Instant::now(), due + PACE);
    hand.arrive(1, arrival("a", due + LEASE));
    let come = asking.await.unwrap().unwrap().unwrap();
    assert_eq!(hand.find(come.handle).unwrap().place, 1);
    assert!(!hand.misses());
}

#[tokio::test(start_paused = true)]
async fn who_did_not_ask_meanwhile_has_not_missed_it_for_good() {
    let hand = hand(8);
    let due = Instant::now() + LEASE;
    let missed = Missed::new(due, due + LEASE);
    hand.miss("a", 1, missed);
    tokio::time::advance(LEASE * 2).await;
    hand.arrive(2, arrival("a", due + LEASE * 9));
    hand.due();
    assert_eq!(next(&hand).await, None, "it may come now");
    tokio::time::advance(LEASE / 4).await;
    assert!(next(&hand).await.is_some(), "not for ever");
    hand.miss("b", 1, missed);
    hand.arrive(3, arrival("b", due + LEASE * 9));
    hand.later(due + LEASE * 2, LEASE * 2, |place| *place == 1);
    assert_eq!(next(&hand).await, None);
    hand.settled(|place| *place == 1);
    assert!(next(&hand).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_comes_instead_of_what_was_missed_fills_the_hand_only_so_far() {
    let hand = std::sync::Arc::new(hand(1));
    let (now, late) = (Instant::now(), Instant::now() + LEASE * 99);
    for place in 1..=100 {
        hand.miss("a", place, Missed::new(now, late));
    }
    let asking = std::sync::Arc::clone(&hand);
    let asking = tokio::spawn(async move { asking.next(late).await });
    let mut place = 1000;
    let more = async {
        loop {
            for _ in 0..hand.room().await.of {
                place += 1;
                hand.arrive(place, arrival("a", late));
            }
        }
    };
    assert!(tokio::time::timeout(LEASE, more).await.is_err());
    assert_eq!(place, 1000 + 8, "twice what may wait");
    hand.arrive(1, arrival("a", late));
    assert!(asking.await.unwrap().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_however_long_what_was_missed_is_asked_for_but_not_for_ever() {
    let hand = hand(8);
    let now = Instant::now();
    hand.miss("a", 1, Missed::new(now, now + LEASE));
    for pause in 0..LONGER {
        tokio::time::advance(LEASE * 20).await;
        hand.arrive(2, arrival("a", Instant::now() + LEASE * 99));
        assert_eq!(next(&hand).await, None, "{pause}");
    }
    tokio::time::advance(LEASE * 20).await;
    assert!(next(&hand).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_goes_astray_again_and_again_is_not_waited_for_for_ever() {
    let hand = hand(8);
    let due = Instant::now() + LEASE;
    hand.miss("a", 1, Missed::new(due, due + LEASE));
    hand.arrive(2, arrival("a", due + LEASE * 99));
    hand.later(due + LEASE * 9, LEASE * 2, |_| true);
    let came = hand.next(due + LEASE * 20).await.unwrap();
    assert_eq!((came.is_some(), Instant::now()), (true, due + LEASE * 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_here_is_unended_until_its_end_is_told() {
    let hand = hand(8);
    for (place, key) in [(1, "a"), (2, "b"), (3, "b"), (9, "c")] {
        hand.arrive(place, arrival(key, Instant::now() + LEASE));
    }
    let first = next(&hand).await.unwrap();
    assert_eq!(hand.unended(|place| *place < 9), HashSet::from([1, 2, 3]));
    hand.find(first).unwrap();
    assert!(hand.unended(|_| true).contains(&1));
    hand.ending(first).unwrap();
    assert_eq!(hand.unended(|place| *place < 9), HashSet::from([2, 3]), "who knows");
}

#[tokio::test(start_paused = true)]
async fn who_asked_a_little_while_ago_counts_as_asking() {
    let hand = hand(8);
    assert_eq!(next(&hand).await, None);
    assert!(hand.is_asked());
    tokio::time::advance(LEASE / 2).await;
    assert!(!hand.is_asked());
    let asking = hand.ask();
    assert!(hand.is_asked());
    drop(asking);
}

#[tokio::test(start_paused = true)]
async fn what_is_let_go_of_is_only_what_is_still_ours() {
    let hand = hand(8);
    let (soon, late) = (Instant::now() + LEASE, Instant::now() + LEASE * 2);
    for (place, key, until) in [(1, "a", soon), (2, "b", late), (3, "a", soon), (4, "b", late)] {
        hand.arrive(place, arrival(key, until));
    }
    let (first, second) = (next(&hand).await.unwrap(), next(&hand).await.unwrap());
    assert_eq!(hand.find(first).unwrap().until, soon);
    tokio::time::advance(LEASE).await;
    let mut left = hand.clear();
    left.sort_by_key(|ours| ours.place);
    let ours = |place| Ours { place, ticket: "ticket", until: late };
    assert_eq!(left, [ours(2), ours(4)]);
    hand.find(second).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_for_nobody() {
    let hand = std::sync::Arc::new(hand(3));
    let soon = Duration::from_millis(10);
    assert!(tokio::time::timeout(soon, hand.room()).await.is_err());
    let asking = std::sync::Arc::clone(&hand);
    let asking = tokio::spawn(async move { asking.next(Instant::now() + LEASE).await });
    assert_eq!(hand.room().await, Room { of: 3, missed_only: false });
    asking.abort();
    let _ = asking.await;
    assert!(tokio::time::timeout(soon, hand.room()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_hears_of_what_comes_what_is_freed_and_what_is_wrong() {
    let hand = std::sync::Arc::new(hand(1));
    let ask = |hand: &std::sync::Arc<Hand<u32, &'static str>>| {
        let hand = std::sync::Arc::clone(hand);
        tokio::spawn(async move { hand.next(Instant::now() + LEASE).await })
    };
    let asked = ask(&hand);
    tokio::task::yield_now().await;
    hand.arrive(1, arrival("a", Instant::now() + LEASE * 9));
    let first = asked.await.unwrap().unwrap().unwrap();
    hand.arrive(2, arrival("a", Instant::now() + LEASE * 9));
    let asked = ask(&hand);
    tokio::task::yield_now().await;
    hand.end(first.handle);
    let second = asked.await.unwrap().unwrap().unwrap();
    hand.again(second.handle, Duration::ZERO);
    let asked = ask(&hand);
    tokio::task::yield_now().await;
    hand.trouble(Refusal::Held);
    assert_eq!(asked.await.unwrap(), Err(Refusal::Held));
}
