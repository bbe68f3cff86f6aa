//! What each lane does, as its seams show it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use event::{Cause, LaneState, LaneView};
use metrics::gauge;

use crate::names;

#[derive(Default)]
pub(crate) struct Lanes(Mutex<BTreeMap<(String, String), (LaneState, Option<Cause>)>>);

impl Lanes {
    /// Notes what a lane does. A change is a fact, and is logged once.
    pub(crate) fn set(&self, outbox: &str, sink: &str, state: LaneState, cause: Option<Cause>) {
        let key = (outbox.to_owned(), sink.to_owned());
        let mut lanes = self.0.lock().expect("no lane panics");
        let before = lanes.insert(key, (state.clone(), cause.clone()));
        if before.as_ref().is_some_and(|(before, _)| *before == state) {
            return;
        }
        let up = if state == LaneState::Running { 1.0 } else { 0.0 };
        let labels = [("outbox", outbox.to_owned()), ("sink", sink.to_owned())];
        gauge!(names::LANE_UP, &labels).set(up);
        match (state, cause) {
            (LaneState::Running, _) => tracing::info!(outbox, sink, "lane runs"),
            (state, Some(cause)) => tracing::warn!(outbox, sink, %cause, "lane is {state:?}"),
            (state, None) => tracing::info!(outbox, sink, "lane is {state:?}"),
        }
    }

    pub(crate) fn views(&self) -> Vec<LaneView> {
        let lanes = self.0.lock().expect("no lane panics");
        let view = |((outbox, sink), (state, cause)): (&(String, String), &(LaneState, _))| {
            let (outbox, sink) = (outbox.clone(), sink.clone());
            LaneView { outbox, sink, state: state.clone(), cause: Clone::clone(cause) }
        };
        lanes.iter().map(view).collect()
    }
}
