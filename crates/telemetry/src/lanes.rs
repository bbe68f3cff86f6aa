//! What each lane does, as its seams show it.

use std::sync::Mutex;

use event::{Cause, LaneState, LaneView};
use metrics::gauge;

use crate::names;

#[derive(Default)]
pub(crate) struct Lanes(Mutex<Vec<LaneView>>);

impl Lanes {
    /// Notes what a lane does. A change is a fact, and is logged once; after its end there is none.
    /// What is broken is so until it is mended, whatever its other turns still do.
    pub(crate) fn set(&self, outbox: &str, sink: &str, state: LaneState, cause: Option<Cause>) {
        self.change(outbox, sink, state, cause, |before, now| match before {
            LaneState::Stopped => false,
            LaneState::Broken => *now == LaneState::Broken,
            _ => true,
        });
    }

    /// Notes that a lane whose database was broken goes on.
    pub(crate) fn mended(&self, outbox: &str, sink: &str) {
        let broken = |before: &LaneState, _: &LaneState| *before == LaneState::Broken;
        self.change(outbox, sink, LaneState::Running, None, broken);
    }

    fn change(
        &self,
        outbox: &str,
        sink: &str,
        state: LaneState,
        cause: Option<Cause>,
        may: impl Fn(&LaneState, &LaneState) -> bool,
    ) {
        let mut lanes = self.0.lock().expect("no lane panics");
        let view = LaneView { outbox: outbox.to_owned(), sink: sink.to_owned(), state, cause };
        let news = view.state != LaneState::Broken || is_news(&lanes, &view);
        let known = lanes.iter_mut().find(|lane| lane.outbox == outbox && lane.sink == sink);
        match known {
            Some(lane) if !may(&lane.state, &view.state) => {}
            Some(lane) => {
                if lane.state != view.state || lane.state == LaneState::Broken {
                    tell(Some(&lane.state), &view, news);
                }
                *lane = view;
            }
            None => {
                tell(None, &view, news);
                lanes.push(view);
            }
        }
    }

    /// Returns why an outbox's database is broken, if one of its lanes says so.
    pub(crate) fn broken(&self, outbox: &str) -> Option<Cause> {
        let lanes = self.0.lock().expect("no lane panics");
        let mut broken = lanes.iter().filter(|lane| lane.state == LaneState::Broken);
        broken.find(|lane| lane.outbox == outbox)?.cause.clone()
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

/// Tells whether no lane of an outbox has said yet that it is broken, and in this way.
fn is_news(lanes: &[LaneView], view: &LaneView) -> bool {
    let code = |view: &LaneView| view.cause.as_ref().map(|cause| cause.code);
    let told = |lane: &LaneView| {
        lane.outbox == view.outbox && lane.state == view.state && code(lane) == code(view)
    };
    !lanes.iter().any(told)
}

fn tell(before: Option<&LaneState>, view: &LaneView, news: bool) {
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
            Some(LaneState::Broken) => {
                tracing::info!(outbox, sink, "lane runs again: its database was mended");
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
        (LaneState::Broken, Some(cause)) if news => {
            tracing::error!(
                outbox,
                sink,
                %cause,
                "outbox is broken: it claims nothing until somebody mends it, and is tried again \
                 now and then; `postbox explain {}` says what to do",
                cause.code
            );
        }
        (LaneState::Broken, _) => {}
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
    fn a_broken_lane_is_so_until_it_is_mended_and_its_outbox_says_so_once() {
        let (lanes, broken) = (Lanes::default(), LaneState::Broken);
        let cause = |code| Some(Cause::new(code, "as the test says"));
        let news = |sink: &str, code| {
            let view = LaneView {
                outbox: "orders".into(),
                sink: sink.into(),
                state: LaneState::Broken,
                cause: cause(code),
            };
            is_news(&lanes.views(), &view)
        };
        assert!(news("stock", Code::StoreBroken));
        lanes.set("orders", "stock", broken, cause(Code::StoreBroken));
        assert!(!news("stock", Code::StoreBroken) && !news("mail", Code::StoreBroken));
        assert!(news("stock", Code::SchemaMissing), "another trouble");
        for state in [LaneState::Running, LaneState::Waiting, LaneState::Stopped] {
            lanes.set("orders", "stock", state, None);
            lanes.answered("orders", "stock", false);
            assert_eq!(lanes.views()[0].state, LaneState::Broken);
        }
        assert_eq!(lanes.broken("orders").map(|cause| cause.code), Some(Code::StoreBroken));
        assert_eq!(lanes.broken("bills"), None);
        lanes.mended("orders", "stock");
        assert_eq!(
            (lanes.views()[0].state.clone(), lanes.broken("orders")),
            (LaneState::Running, None)
        );
        lanes.set("orders", "stock", LaneState::Stopped, None);
        lanes.mended("orders", "stock");
        assert_eq!(lanes.views()[0].state, LaneState::Stopped, "it was not broken");
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
