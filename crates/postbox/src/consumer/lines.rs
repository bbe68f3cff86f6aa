//! The lines before the work: one for each key, so that its events go one after another.

use std::collections::HashMap;

use tokio::sync::oneshot;

/// The last one in each line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last: HashMap<String, (u64, oneshot::Receiver<()>)>,
    count: u64,
}

/// One place in a line. Whoever is behind it goes on when it is gone.
#[derive(Debug)]
pub(super) struct Turn {
    line: Option<(String, u64)>,
    before: Option<oneshot::Receiver<()>>,
    _after: oneshot::Sender<()>,
}

impl Lines {
    /// Takes the last place of a key's line. Without a key there is no line.
    pub(super) fn enter(&mut self, key: Option<&str>) -> Turn {
        let (after, gone) = oneshot::channel();
        let Some(key) = key else { return Turn { line: None, before: None, _after: after } };
        self.count += 1;
        let before = self.last.insert(key.to_owned(), (self.count, gone));
        let line = Some((key.to_owned(), self.count));
        Turn { line, before: before.map(|(_, gone)| gone), _after: after }
    }

    /// Leaves a line; the next one goes on.
    pub(super) fn leave(&mut self, turn: Turn) {
        if let Some((key, number)) = &turn.line
            && self.last.get(key).is_some_and(|(last, _)| last == number)
        {
            self.last.remove(key);
        }
    }
}

impl Turn {
    /// Waits until nobody is before it.
    pub(super) async fn wait(&mut self) {
        if let Some(before) = &mut self.before {
            // Nothing is ever said: that the other end is gone is the news.
            let _ = before.await;
            self.before = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn those_of_one_key_go_one_after_another_and_nobody_else_waits() {
        let mut lines = Lines::default();
        let mut turns = ["a", "a", "b", "a"].map(|key| lines.enter(Some(key)));
        let free = |turns: &mut [Turn]| -> Vec<bool> {
            turns.iter_mut().map(|turn| turn.wait().now_or_never().is_some()).collect()
        };
        assert_eq!(free(&mut turns), [true, false, true, false]);
        let [first, mut second, third, mut fourth] = turns;
        lines.leave(first);
        assert!(second.wait().now_or_never().is_some() && fourth.wait().now_or_never().is_none());
        drop(second);
        assert!(fourth.wait().now_or_never().is_some(), "it went without a word");
        lines.leave(fourth);
        lines.leave(third);
        assert!(lines.last.is_empty(), "nothing is remembered of those who left");
        assert!(lines.enter(None).wait().now_or_never().is_some());
    }
}
