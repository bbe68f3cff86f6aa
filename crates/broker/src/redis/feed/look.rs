//! Where a feed looks for what others have let go: at which topic first, and from which entry on.
//!
//! Pure: it asks no server anything. It begins with another topic each time, and goes on where the
//! last look ended: the server sees only a part of what is pending at a time, and what others hold
//! may fill that part.

/// Where a topic begins, and what the server says when it has seen the end.
const BEGIN: &str = "0-0";
/// How many times one topic is asked in one look.
const ASKS: usize = 16;

/// What is remembered from one look to the next.
#[derive(Debug)]
pub(super) struct Looks {
    first: usize,
    /// Where each topic goes on.
    cursors: Vec<String>,
}

/// One look at all topics, while there is room.
#[derive(Debug)]
pub(super) struct Look<'a> {
    looks: &'a mut Looks,
    first: usize,
    passed: usize,
    asked: usize,
    room: usize,
}

/// What to ask the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) at: usize,
    pub(super) from: String,
    pub(super) room: usize,
}

impl Looks {
    pub(super) fn new(topics: usize) -> Looks {
        Looks { first: 0, cursors: vec![BEGIN.to_owned(); topics] }
    }

    /// Begins a look for at most so many.
    pub(super) fn begin(&mut self, room: usize) -> Look<'_> {
        let first = self.first;
        self.first = (first + 1) % self.cursors.len().max(1);
        Look { looks: self, first, passed: 0, asked: 0, room }
    }
}

impl Look<'_> {
    /// Returns what to ask next; nothing when there is no room, or all topics were looked at.
    pub(super) fn ask(&self) -> Option<Ask> {
        let cursors = &self.looks.cursors;
        if self.room == 0 || self.passed == cursors.len() {
            return None;
        }
        let at = (self.first + self.passed) % cursors.len();
        Some(Ask { at, from: cursors[at].clone(), room: self.room })
    }

    /// Tells whether there was no room for all that there may be.
    pub(super) fn is_cut(&self) -> bool {
        self.room == 0 && self.passed < self.looks.cursors.len()
    }

    /// Takes the answer: how many came, and where the server would go on.
    pub(super) fn answered(&mut self, ask: &Ask, came: usize, next: Option<&str>) {
        self.room = self.room.saturating_sub(came);
        let next = next.unwrap_or(BEGIN);
        next.clone_into(&mut self.looks.cursors[ask.at]);
        self.asked += 1;
        if next == BEGIN || self.asked == ASKS {
            self.passed += 1;
            self.asked = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once; the answers are told by whoever knows the topic and where it was asked from.
    fn look(
        looks: &mut Looks,
        room: usize,
        answer: impl Fn(usize, &str) -> (usize, &'static str),
    ) -> Vec<Ask> {
        let (mut look, mut asks) = (looks.begin(room), Vec::new());
        while let Some(ask) = look.ask() {
            let (came, next) = answer(ask.at, &ask.from);
            look.answered(&ask, came, Some(next));
            asks.push(ask);
        }
        asks
    }

    fn ask(at: usize, from: &str, room: usize) -> Ask {
        Ask { at, from: from.to_owned(), room }
    }

    #[test]
    fn nothing_is_asked_for_without_room() {
        let mut looks = Looks::new(3);
        assert_eq!(look(&mut looks, 0, |_, _| (0, BEGIN)), []);
        let asks = look(&mut looks, 4, |_, _| (2, BEGIN));
        assert_eq!(asks, [ask(1, BEGIN, 4), ask(2, BEGIN, 2)]);
    }

    #[test]
    fn a_look_whose_room_was_used_up_before_the_end_is_cut() {
        let mut looks = Looks::new(2);
        for (came, next, cut) in [(2, "5-0", true), (2, BEGIN, true), (0, BEGIN, false)] {
            let mut look = looks.begin(2);
            while let Some(ask) = look.ask() {
                look.answered(&ask, came, Some(next));
            }
            assert_eq!(look.is_cut(), cut, "{came} {next}");
        }
        let mut look = looks.begin(1);
        for came in [0, 1] {
            look.answered(&look.ask().unwrap(), came, Some(BEGIN));
        }
        assert!(!look.is_cut(), "it has seen all");
    }

    #[test]
    fn a_topic_that_always_fills_the_room_leaves_the_others_their_turn() {
        let mut looks = Looks::new(3);
        let full = |looks: &mut Looks| look(looks, 1, |at, _| (usize::from(at != 2), BEGIN));
        let firsts = [0, 1, 2, 0].map(|_| full(&mut looks)[0].at);
        assert_eq!(firsts, [0, 1, 2, 0]);
    }

    #[test]
    fn a_topic_goes_on_where_it_ended_and_begins_anew_after_its_end() {
        let mut looks = Looks::new(1);
        let steps = |_, from: &str| match from {
            BEGIN => (0, "5-0"),
            "5-0" => (2, "9-0"),
            _ => (1, BEGIN),
        };
        let asks = look(&mut looks, 2, steps);
        assert_eq!(asks, [ask(0, BEGIN, 2), ask(0, "5-0", 2)]);
        assert_eq!(look(&mut looks, 2, steps), [ask(0, "9-0", 2)]);
        assert_eq!(look(&mut looks, 2, steps)[0], ask(0, BEGIN, 2));
    }

    #[test]
    fn each_topic_has_its_own_place_and_a_long_one_ends_no_look() {
        let mut looks = Looks::new(2);
        let endless = |at, _: &str| if at == 0 { (0, "7-0") } else { (0, BEGIN) };
        let asks = look(&mut looks, 1, endless);
        assert_eq!((asks.len(), &asks[ASKS]), (ASKS + 1, &ask(1, BEGIN, 1)));
        let asks = look(&mut looks, 1, endless);
        assert_eq!(asks[..2], [ask(1, BEGIN, 1), ask(0, "7-0", 1)]);
    }
}
