//! What each lane does, as its seams show it.

use std::sync::Mutex;

use event::{Cause, LaneState, LaneView};
use metrics::gauge;

use crate::names;

#[derive(Default)]
pub(crate) struct Lanes(Mutex<Vec<LaneView>>);

impl Lanes {
    /// Notes what a lane does. A change is a fact, and is logged once.
    pub(crate) fn set(&self, outbox: &str, sink: &str, state: LaneState, cause: Option<Cause>) {
        let mut lanes = self.0.lock().expect("no lane panics");
        let known = lanes.iter_mut().find(|lane| lane.outbox == outbox && lane.sink == sink);
        let (outbox, sink) = (outbox.to_owned(), sink.to_owned());
        let view = LaneView { outbox, sink, state, cause };
        let changed = match known {
            Some(lane) => {
                let changed = lane.state != view.state;
                *lane = view.clone();
                changed
            }
            None => {
                lanes.push(view.clone());
                true
            }
        };
        if changed {
            tell(&view);
        }
    }

    pub(crate) fn views(&self) -> Vec<LaneView> {
        self.0.lock().expect("no lane panics").clone()
    }
}

fn tell(view: &LaneView) {
    let LaneView { outbox, sink, state, cause } = view;
    let up = if *state == LaneState::Running { 1.0 } else { 0.0 };
    gauge!(names::LANE_UP, "outbox" => outbox.clone(), "sink" => sink.clone()).set(up);
    match (state, cause) {
        (LaneState::Running, _) => tracing::info!(outbox, sink, "lane runs"),
        (LaneState::Resting, Some(cause)) => {
            tracing::warn!(outbox, sink, %cause, "lane rests: its destination is down");
        }
        (LaneState::Waiting, Some(cause)) => {
            tracing::warn!(outbox, sink, %cause, "lane waits: its database is down");
        }
        (LaneState::Stopped, Some(cause)) => tracing::error!(outbox, sink, %cause, "lane stopped"),
        (_, None) => tracing::info!(outbox, sink, "lane stopped"),
    }
}
