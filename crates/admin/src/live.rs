//! The live stream: beats, counts, lanes and destinations, once a second, to whoever watches.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::api::{SECONDS, pulse_view};
use crate::app::App;
use crate::problem::Problem;
use crate::view::{OutboxView, PulseView};

/// Seconds after which a stream ends; the browser comes back and proves itself again.
const LASTS: Duration = Duration::from_secs(15 * 60);
/// Seconds that are repeated, so that a late beat is not missed.
const OVERLAP: usize = 5;

#[derive(Serialize)]
struct Tick {
    #[serde(flatten)]
    pulse: PulseView,
    outboxes: Vec<OutboxView>,
}

struct Watcher {
    app: Arc<App>,
    pace: Interval,
    since: Instant,
    first: bool,
    _place: OwnedSemaphorePermit,
}

/// Streams `tick` events: the first with the beats so far, the others with the newest.
pub(crate) async fn live(
    State(app): State<Arc<App>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let place = app.watchers.clone().try_acquire_owned().map_err(|_| {
        let detail = "too many visitors watch at once; close another tab";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many", detail).after(10)
    })?;
    let mut pace = interval(Duration::from_secs(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = Watcher { app, pace, since: Instant::now(), first: true, _place: place };
    Ok(Sse::new(stream::unfold(watcher, |mut watcher| async move {
        let stop = watcher.app.stop.clone();
        let tick = stop.run_until_cancelled(watcher.tick()).await??;
        Some((Ok(tick), watcher))
    })))
}

impl Watcher {
    async fn tick(&mut self) -> Option<Event> {
        if self.since.elapsed() > LASTS {
            return None;
        }
        self.pace.tick().await;
        let seconds = if std::mem::take(&mut self.first) { SECONDS } else { OVERLAP };
        let tallies = self.app.tallies().await;
        let tick = Tick {
            pulse: pulse_view(&self.app, seconds),
            outboxes: tallies.iter().map(OutboxView::from).collect(),
        };
        let data = serde_json::to_string(&tick).expect("a tick of strings and numbers is JSON");
        Some(Event::default().event("tick").data(data))
    }
}
