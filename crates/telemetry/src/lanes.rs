//! What each lane does, as its seams show it.

use std::sync::Mutex;

use event::{Cause, LaneState, LaneView};
use metrics::gauge;

use crate::names;

#[derive(Default)]
pub(crate) struct Lanes(Mutex<Vec<LaneView>>);

impl Lanes {
    /// Notes what a lane does. A change is a fact, and is logged once; after its end there is none.
    pub(crate) fn set(&self, outbox: &str, sink: &str, state: LaneState, cause: Option<Cause>) {
        let mut lanes = self.0.lock().expect("no lane panics");
        let known = lanes.iter_mut().find(|lane| lane.outbox == outbox && lane.sink == sink);
        let (outbox, sink) = (outbox.to_owned(), sink.to_owned());
        let view = LaneView { outbox, sink, state, cause };
        match known {
            Some(lane) if lane.state == LaneState::Stopped => {}
            Some(lane) => {
                if lane.state != view.state {
                    tell(Some(&lane.state), &view);
                }
                *lane = view;
            }
            None => {
                tell(None, &view);
                lanes.push(view);
            }
        }
    }

    /// Notes that a lane's database answers, and whether it only stands by. What its destination
    /// does is not known by that.
    pub(crate) fn answered(&self, outbox: &str, sink: &str, stands_by: bool) {
        let known = self.0.lock().expect("no lane panics").iter().any(|lane| {
            lane.outbox == outbox && lane.sink == sink && lane.state != LaneState::Resting
        });
        if known {
            let state = if stands_by { LaneState::Standby } else { LaneState::Running };
            self.set(outbox, sink, state, None);
        }
    }

    pub(crate) fn views(&self) -> Vec<LaneView> {
        self.0.lock().expect("no lane panics").clone()
    }
}

fn tell(before: Option<&LaneState>, view: &LaneView) {
    let LaneView { outbox, sink, state, cause } = view;
    let up = if matches!(state, LaneState::Running | LaneState::Standby) { 1.0 } else { 0.0 };
    gauge!(names::LANE_UP, "outbox" => outbox.clone(), "sink" => sink.clone()).set(up);
    match (state, cause) {
        (LaneState::Running, _) => match before {
            Some(LaneState::Resting) => {
                tracing::info!(outbox, sink, "lane runs again: its destination is back");
            }
            Some(LaneState::Waiting) => {
                tracing::info!(outbox, sink, "lane runs again: its database is back");
            }
            Some(LaneState::Standby) => {
                tracing::info!(outbox, sink, "lane runs: it has taken over from another relay");
            }
            _ => tracing::info!(outbox, sink, "lane runs: it claims what no other relay holds"),
        },
        (LaneState::Standby, _) => {
            tracing::info!(outbox, sink, "lane stands by: another relay holds what waits");
        }
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

#[cfg(test)]
mod tests {
    use event::Code;

    use super::*;

    #[test]
    fn a_database_that_answers_tells_who_works_and_nothing_of_the_destination() {
        use LaneState::{Resting, Running, Standby, Waiting};
        let lanes = Lanes::default();
        let down = || Some(Cause::new(Code::StoreDown, "as the test says"));
        for (state, stands_by, then) in [
            (Running, false, Running),
            (Running, true, Standby),
            (Standby, false, Running),
            (Resting, true, Resting),
            (Waiting, false, Running),
            (Waiting, true, Standby),
        ] {
            lanes.set("orders", "stock", state, down());
            lanes.answered("orders", "stock", stands_by);
            assert_eq!(lanes.views()[0].state, then);
        }
    }

    #[test]
    fn why_a_lane_stopped_is_not_forgotten() {
        let lanes = Lanes::default();
        let cause = Cause::new(Code::StoreBroken, "as the test says");
        lanes.set("orders", "stock", LaneState::Stopped, Some(cause.clone()));
        lanes.set("orders", "stock", LaneState::Stopped, None);
        assert_eq!(lanes.views()[0].cause, Some(cause));
    }
}
