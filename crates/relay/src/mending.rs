//! A lane whose store is broken stops, and is tried again by itself: somebody may have mended it.
//!
//! The other lanes of the process go on. It ends only where nothing in the process works: at once
//! if nothing ever did, as after a typo in the config, and else after a while. A lane that pauses
//! asks its store nothing, and keeps no lease but that of what it could not write down.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Millis, StoreError};
use tokio_util::sync::CancellationToken;

use crate::lane::{Again, Break, Lane};

/// The first pause after a break and the longest, each about twice the one before. A lane that went
/// on for as long as the longest begins with the first again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long a process is tried in which nothing works any more. A new one reads its config and its
/// secrets anew, and whoever started this one sees it end.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is known of a lane's store beside its source.
#[async_trait]
pub trait Health: Send + Sync {
    /// Asks whether the store is one to work with at all, before anything is claimed from it again.
    async fn ready(&self) -> Result<(), StoreError>;
    /// Learns that the lane has stopped because its store is broken, or is so still.
    fn broken(&self, cause: &Cause);
    /// Learns that the lane goes on.
    fn mended(&self);
}

/// All lanes of a process, as far as they are broken.
pub struct Fleet(Mutex<Vec<Standing>>);

/// How one lane stands.
#[derive(Clone, Copy, Default)]
struct Standing {
    /// Whether it has ever claimed well.
    worked: bool,
    /// Since when it is broken.
    broken: Option<Millis>,
}

/// One lane of a fleet.
pub struct Mending {
    /// The lane.
    pub lane: Lane,
    /// What is known of its store.
    pub health: Arc<dyn Health>,
    /// With whom it runs.
    pub fleet: Arc<Fleet>,
    /// Its place among them.
    pub place: usize,
}

impl Fleet {
    /// Counts the lanes of a process.
    pub fn of(lanes: usize) -> Arc<Fleet> {
        Arc::new(Fleet(Mutex::new(vec![Standing::default(); lanes])))
    }

    fn standings(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mends(&self, place: usize) {
        self.standings()[place] = Standing { worked: true, broken: None };
    }

    /// Notes a break, and tells whether nothing is left that is worth waiting for.
    fn breaks(&self, place: usize, worked: bool, now: Millis) -> bool {
        let mut all = self.standings();
        let lane = &mut all[place];
        lane.worked |= worked;
        lane.broken.get_or_insert(now);
        let first = Millis(i64::MIN);
        let newest = all.iter().try_fold(first, |newest, lane| Some(newest.max(lane.broken?)));
        let never = all.iter().all(|lane| !lane.worked);
        newest.is_some_and(|newest| never || now.since(newest) >= PATIENCE)
    }
}

impl Mending {
    /// Takes turns until told to stop, and pauses where the store is broken: from the start, if
    /// that is `known`. Returns the cause when nothing in the process works.
    pub async fn run(&self, known: Option<Cause>, stop: &CancellationToken) -> Result<(), Cause> {
        let ended = self.go_on(known, stop).await;
        self.lane.sink.close().await;
        ended
    }

    async fn go_on(&self, known: Option<Cause>, stop: &CancellationToken) -> Result<(), Cause> {
        let clock = &self.lane.clock;
        let mut ended = match known {
            Some(cause) => Err(Break { cause, worked: false, owed: Millis(0) }),
            None => self.lane.run_once(None, stop).await,
        };
        let mut pause = PAUSES.0;
        while let Err(Break { cause, worked, owed }) = ended {
            self.health.broken(&cause);
            if self.fleet.breaks(self.place, worked, clock.now()) {
                return Err(cause);
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                // Not all at once: what they share may be what broke.
                () = clock.sleep(pause.mul_f64(0.5 + fastrand::f64())) => {}
            }
            let began = clock.now();
            ended = self.again(owed, stop).await;
            let lasted = clock.now().since(began) >= PAUSES.1;
            pause = if lasted { PAUSES.0 } else { (2 * pause).min(PAUSES.1) };
        }
        Ok(())
    }

    /// Begins again, if the store is one to work with.
    async fn again(&self, owed: Millis, stop: &CancellationToken) -> Result<(), Break> {
        match stop.run_until_cancelled(self.health.ready()).await {
            None => return Ok(()),
            Some(Err(StoreError::Broken(cause))) => {
                return Err(Break { cause, worked: false, owed });
            }
            Some(Ok(()) | Err(StoreError::Down(_))) => {}
        }
        let mended = || {
            self.fleet.mends(self.place);
            self.health.mended();
        };
        self.lane.run_once(Some(&Again { owed, mended: &mended }), stop).await
    }
}
