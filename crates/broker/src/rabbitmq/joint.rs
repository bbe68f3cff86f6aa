//! Something that takes a while to make, is used by many until it breaks, and is then made again.
//!
//! One at a time is being made, in a task of its own: whoever has waited long enough goes away
//! without ending it, so short waits end in something too. Nothing is made before it is asked for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use event::Refusal;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::refusal;

/// How long one is being made before another try takes its place: it may be stuck with a host that
/// accepts and never speaks.
const STUCK: Duration = Duration::from_secs(60);

type Make<T> = Box<dyn Fn() -> BoxFuture<'static, Result<T, Refusal>> + Send + Sync>;

/// The one place where a `T` is found, or made.
pub(super) struct Joint<T> {
    host: String,
    make: Make<T>,
    lives: fn(&T) -> bool,
    /// How often making one has failed.
    failures: AtomicU64,
    state: Mutex<State<T>>,
}

struct State<T> {
    made: Option<Arc<T>>,
    making: Option<(Instant, JoinHandle<Result<T, Refusal>>)>,
    failed: Option<Refusal>,
}

impl<T: Send + Sync + 'static> Joint<T> {
    pub(super) fn new(host: &str, make: Make<T>, lives: fn(&T) -> bool) -> Joint<T> {
        let state = Mutex::new(State { made: None, making: None, failed: None });
        Joint { host: host.to_owned(), make, lives, failures: AtomicU64::new(0), state }
    }

    /// Returns what is there, or waits until it is made. A failure that came about while one waited
    /// is one's own: nobody tries a second time in its place.
    pub(super) async fn get(&self, until: Instant) -> Result<Arc<T>, Refusal> {
        let before = self.failures();
        let late = || refusal::down(&self.host, "no connection in time");
        let mut state = timeout_at(until, self.state.lock()).await.map_err(|_| late())?;
        state.made = state.made.take().filter(|made| (self.lives)(made));
        if let Some(made) = &state.made {
            return Ok(Arc::clone(made));
        }
        if let Some(refusal) = state.failed.as_ref().filter(|_| self.failures() > before) {
            return Err(refusal.clone());
        }
        if let Some((_, stuck)) = state.making.take_if(|(since, _)| since.elapsed() > STUCK) {
            stuck.abort();
        }
        let start = || (Instant::now(), tokio::spawn((self.make)()));
        let (_, making) = state.making.get_or_insert_with(start);
        let made = timeout_at(until, making).await.map_err(|_| late())?;
        state.making = None;
        let broken = |error| refusal::down(&self.host, error);
        match made.map_err(broken).and_then(|made| made) {
            Ok(made) => Ok(Arc::clone(state.made.insert(Arc::new(made)))),
            Err(refusal) => {
                state.failed = Some(refusal.clone());
                self.failures.fetch_add(1, Ordering::SeqCst);
                Err(refusal)
            }
        }
    }

    fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    /// Gives one up that is of no use; the next who asks gets another. Only the first to say so of
    /// this one changes anything.
    pub(super) async fn drop_this(&self, this: &Arc<T>) {
        self.state.lock().await.made.take_if(|made| Arc::ptr_eq(made, this));
    }

    /// Gives up whatever there is.
    pub(super) async fn part(&self) -> Option<Arc<T>> {
        let mut state = self.state.lock().await;
        if let Some((_, making)) = state.making.take() {
            making.abort();
        }
        state.made.take()
    }
}

impl<T> fmt::Debug for Joint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joint").field("host", &self.host).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    struct Thing(AtomicBool);

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn joint(made: &Arc<AtomicUsize>, leave: &Arc<Notify>, fails: bool) -> Arc<Joint<Thing>> {
        let (made, leave) = (Arc::clone(made), Arc::clone(leave));
        let make = move || {
            let (made, leave) = (Arc::clone(&made), Arc::clone(&leave));
            let making: BoxFuture<'static, _> = Box::pin(async move {
                made.fetch_add(1, Ordering::SeqCst);
                leave.notified().await;
                if fails { Err(refusal::down("h", "no")) } else { Ok(Thing(true.into())) }
            });
            making
        };
        Arc::new(Joint::new("h", Box::new(make), |thing| thing.0.load(Ordering::SeqCst)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_made_for_all_and_again_when_it_is_broken() {
        let (made, leave) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let joint = joint(&made, &leave, false);
        leave.notify_one();
        let all = join_all((0..10).map(|_| joint.get(soon()))).await;
        assert_eq!(made.load(Ordering::SeqCst), 1);
        all[0].as_ref().unwrap().0.store(false, Ordering::SeqCst);
        leave.notify_one();
        joint.get(soon()).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_by_all_who_waited_for_it() {
        let (made, leave) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let joint = joint(&made, &leave, true);
        leave.notify_one();
        let all = join_all((0..10).map(|_| joint.get(soon()))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(made.load(Ordering::SeqCst), 1);
        leave.notify_one();
        assert!(joint.get(soon()).await.is_err());
        assert_eq!(made.load(Ordering::SeqCst), 2, "whoever comes later tries again");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_waiting_ends_nothing_and_one_that_is_stuck_is_given_up() {
        let (made, leave) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let joint = joint(&made, &leave, false);
        for _ in 0..3 {
            assert!(joint.get(soon()).await.is_err());
        }
        assert_eq!(made.load(Ordering::SeqCst), 1);
        leave.notify_one();
        joint.get(soon()).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), 1);

        let stuck = self::joint(&made, &leave, false);
        assert!(stuck.get(soon()).await.is_err());
        tokio::time::advance(STUCK).await;
        leave.notify_one();
        assert!(stuck.get(soon()).await.is_err() || made.load(Ordering::SeqCst) == 3);
        assert_eq!(made.load(Ordering::SeqCst), 3, "another takes its place");
    }
}
