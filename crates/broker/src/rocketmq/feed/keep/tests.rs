//! Against a broker that does as RocketMQ does: each renewal makes a new receipt, and an ack under
//! an old one answers well and ends nothing.

use tokio::time::advance;

use super::super::shelf::tests::{LEASE, parcel};
use super::*;

#[derive(Debug, Default)]
struct Broker {
    state: Mutex<State>,
    /// Lets a renewal go on, if they are slow.
    go: Notify,
}

#[derive(Debug, Default)]
struct State {
    receipt: String,
    renewals: usize,
    ended: bool,
    slow: bool,
    /// What the next renewals answer, instead of what they do.
    answers: Vec<Refusal>,
}

impl Broker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

#[async_trait]
impl Proxy for Broker {
    async fn acknowledge(&self, parcel: &Parcel) -> Result<(), Refusal> {
        let mut state = self.state();
        state.ended |= state.receipt == parcel.receipt;
        Ok(())
    }

    async fn hide(&self, _parcel: &Parcel, _duration: Duration) -> Result<String, Refusal> {
        let slow = {
            let mut state = self.state();
            if let Some(refusal) = state.answers.pop() {
                if matches!(refusal, Refusal::Unknown(_)) {
                    state.receipt = "lost".to_owned();
                }
                return Err(refusal);
            }
            state.renewals += 1;
            state.receipt = format!("new-{}", state.renewals);
            state.slow
        };
        if slow {
            self.go.notified().await;
        }
        Ok(self.state().receipt.clone())
    }

    async fn bury(&self, _parcel: &Parcel) -> Result<(), Refusal> {
        Ok(())
    }
}

fn keep() -> Arc<Keep<Broker>> {
    let wants = Subscription { lease: LEASE, ..Subscription::new("g", &["t"]) };
    let broker = Broker::default();
    broker.state().receipt = "0".to_owned();
    Arc::new(Keep::new(broker, &wants))
}

fn refused(of: fn(Cause) -> Refusal) -> Refusal {
    of(Cause::new(Code::SinkTimeout, "as the test says"))
}

async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_ack_waits_for_an_extension_that_is_out_and_ends_under_its_receipt() {
    let keep = keep();
    keep.arrive(parcel(0));
    let delivery = keep.take().await.unwrap().unwrap();
    keep.proxy.state().slow = true;
    let extending = Arc::clone(&keep);
    let extending = tokio::spawn(async move { extending.extend(delivery.handle, LEASE).await });
    settle().await;
    // Whoever asked for it works no longer, and does not wait.
    extending.abort();
    let acking = Arc::clone(&keep);
    let acking = tokio::spawn(async move { acking.ack(delivery.handle).await });
    settle().await;
    assert!(!acking.is_finished(), "the receipt is not known yet");
    keep.proxy.go.notify_one();
    assert_eq!(acking.await.unwrap(), Ok(()));
    assert!(keep.proxy.state().ended);
    assert_eq!(keep.proxy.state().renewals, 1, "it was not cut off");
    let again = keep.extend(delivery.handle, LEASE).await;
    assert!(matches!(again, Err(Refusal::Reject(_))), "it was ended: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn after_an_extension_of_which_nothing_is_known_a_new_receipt_is_asked_for() {
    let keep = keep();
    keep.arrive(parcel(0));
    let delivery = keep.take().await.unwrap().unwrap();
    keep.proxy.state().answers.push(refused(Refusal::Unknown));
    let extended = keep.extend(delivery.handle, LEASE).await;
    assert!(matches!(extended, Err(Refusal::Unknown(_))), "{extended:?}");
    // One that went nowhere does not make it surer.
    keep.proxy.state().answers.push(refused(Refusal::Down));
    let acked = keep.ack(delivery.handle).await;
    assert!(matches!(acked, Err(Refusal::Down(_))), "{acked:?}");
    keep.ack(delivery.handle).await.unwrap();
    assert!(keep.proxy.state().ended);
}

#[tokio::test(start_paused = true)]
async fn what_waits_stays_ours_and_is_handed_out_under_its_newest_receipt() {
    let keep = keep();
    keep.arrive(parcel(0));
    for _ in 0..8 {
        advance(LEASE * 5 / 8).await;
        keep.refresh_all().await;
    }
    assert_eq!(keep.proxy.state().renewals, 8);
    advance(LEASE / 4).await;
    let delivery = keep.take().await.unwrap().expect("it is still ours");
    assert_eq!(keep.proxy.state().renewals, 9, "its holder has a whole lease");
    assert_eq!(keep.held(delivery.handle).unwrap().until, Instant::now() + LEASE);
    keep.ack(delivery.handle).await.unwrap();
    assert!(keep.proxy.state().ended);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_renewed_is_told_and_what_is_somebody_elses_is_forgotten() {
    let keep = keep();
    keep.arrive(parcel(0));
    advance(LEASE / 4).await;
    keep.proxy.state().answers = vec![refused(Refusal::Reject), refused(Refusal::Unknown)];
    let taken = keep.take().await;
    assert!(matches!(taken, Err(Refusal::Unknown(_))), "{taken:?}");
    assert_eq!(keep.take().await, Ok(None), "somebody else has it");
    assert_eq!(keep.shelf().reserve(100, Instant::now()), 64);
}

#[tokio::test(start_paused = true)]
async fn room_is_given_back_by_a_poll_that_is_cut_off() {
    let keep = keep();
    let polling = Arc::clone(&keep);
    let polling = tokio::spawn(async move {
        let room = polling.reserve(100).unwrap();
        std::future::pending::<()>().await;
        drop(room);
    });
    settle().await;
    assert!(!keep.is_calm() && keep.reserve(1).is_none());
    let woken = tokio::time::timeout(LEASE, keep.room.notified()).await;
    assert!(woken.is_err(), "where there is no room, nobody is told of any");
    polling.abort();
    keep.calm().await;
    assert_eq!(keep.reserve(100).unwrap().count, 64);
}
