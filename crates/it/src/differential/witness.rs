//! What must hold of every answer, whoever has which shard: of each row one claim at a time, only
//! the newest claim is settled, keys keep their order, and every row is somewhere.
//!
//! It never says which rows a claim takes, nor how many.

use std::collections::{HashMap, HashSet};

use event::{Address, Event, EventId, Fence, Millis, Status};

use super::side::{Answer, Told, View};
use super::trace::{End, Op};

pub(super) struct Witness {
    /// Whether order per key is promised.
    ordered: bool,
    /// Whether it is known how long each row is in hand.
    plain: bool,
    /// What was put, in the order of its commits.
    known: Vec<Known>,
    at: HashMap<EventId, usize>,
    /// How many rows the upkeep has trimmed.
    trimmed: usize,
    /// How many claims there were.
    turn: u64,
}

/// What is known of an event.
struct Known {
    event: Event,
    due: Option<Millis>,
    /// Whether it was handed out.
    came: bool,
    /// Whether it was dead, and was requeued.
    again: bool,
    /// Sent or dead.
    end: Option<Status>,
    /// The newest claim.
    hand: Option<Hand>,
}

#[derive(Clone, Copy)]
struct Hand {
    /// The claim: where the row stood, and its fence there.
    claim: (Address, Fence),
    turn: u64,
    lane: usize,
    until: Millis,
    open: bool,
}

type Judged = Result<(), String>;

/// Fails with a text unless something holds.
fn must(holds: bool, text: impl FnOnce() -> String) -> Judged {
    if holds { Ok(()) } else { Err(text()) }
}

impl Witness {
    pub(super) fn new(ordered: bool, plain: bool) -> Witness {
        Witness { ordered, plain, known: Vec::new(), at: HashMap::new(), trimmed: 0, turn: 0 }
    }

    /// Judges what was answered, and remembers it.
    pub(super) fn judge(&mut self, op: &Op, got: &Answer, told: &Told, now: Millis) -> Judged {
        match (op, got) {
            (Op::Put { .. }, _) => self.put(told),
            (Op::Claim { lane, limit, lease, .. }, Answer::Claimed(claims)) => {
                must(claims.len() <= *limit, || format!("{} rows", claims.len()))?;
                let until = Millis(now.0 + i64::try_from(*lease).unwrap_or(i64::MAX / 2));
                self.turn += 1;
                for ((event, ..), (_, claim)) in claims.iter().zip(&told.claims) {
                    let (claim, turn, through) = (*claim, self.turn, told.lane);
                    let hand = Hand { claim, turn, lane: through, until, open: true };
                    self.handed(event, *lane, hand, now)?;
                }
            }
            (Op::Settle { end, .. }, Answer::Settled(settled)) => {
                self.settled(*end, told, &settled.stale, now)?;
                let count = told.claims.len() - settled.stale.len();
                must(settled.settled == count, || format!("{settled:?}"))?;
            }
            (Op::Release { .. }, _) => {
                for hand in self.known.iter_mut().filter_map(|known| known.hand.as_mut()) {
                    hand.open &= hand.lane != told.lane;
                }
            }
            (Op::Requeue { .. }, Answer::Requeued(requeued)) => {
                for id in &requeued.requeued {
                    let known = &mut self.known[self.at[id]];
                    must(known.end == Some(Status::Dead), || format!("{id} was not dead"))?;
                    (known.end, known.again, known.hand) = (None, true, None);
                }
            }
            (_, Answer::Swept(steps)) => {
                self.trimmed += steps.iter().map(|swept| swept.sent as usize).sum::<usize>();
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, told: &Told) {
        for event in &told.put {
            self.at.insert(event.id, self.known.len());
            let (event, due) = (event.clone(), told.due);
            self.known.push(Known { event, due, came: false, again: false, end: None, hand: None });
        }
    }

    /// Judges one row of a claim.
    fn handed(&mut self, event: &Event, lane: usize, hand: Hand, now: Millis) -> Judged {
        let id = event.id;
        let at = *self.at.get(&id).ok_or_else(|| format!("nobody put {id}"))?;
        let known = &self.known[at];
        must(is_same(event, &known.event), || format!("{event:?} was put as {:?}", known.event))?;
        must(lane_of(event) == lane, || format!("{id} is not for this lane"))?;
        must(known.end.is_none(), || format!("{id} was {:?}", known.end))?;
        if let Some(before) = known.hand.filter(|before| before.open) {
            let over = before.until <= now || !self.plain;
            must(over && before.claim != hand.claim, || format!("{id} is in hand"))?;
        }
        if !known.came {
            must(known.due.is_none_or(|due| due <= now), || format!("{id} is not due"))?;
            if self.ordered && known.due.is_none() {
                self.in_line(at, hand.turn)?;
            }
        }
        let known = &mut self.known[at];
        known.came = true;
        known.hand = Some(hand);
        Ok(())
    }

    /// Judges a row that comes for the first time: whoever stands before it in its line has come,
    /// and where followers are held, is sent or dead, or in the same hand.
    fn in_line(&self, at: usize, turn: u64) -> Judged {
        let event = &self.known[at].event;
        let Some(line) = line_of(event) else { return Ok(()) };
        let earlier = self.known[..at].iter().filter(|other| {
            other.due.is_none() && !other.again && line_of(&other.event) == Some(line)
        });
        for other in earlier {
            let id = other.event.id;
            must(other.came, || format!("{} came before {id}", event.id))?;
            let together = other.hand.is_some_and(|hand| hand.turn == turn);
            let held = lane_of(event) == 0 && other.end.is_none();
            must(!held || together, || format!("{} came while {id} waits", event.id))?;
        }
        Ok(())
    }

    /// Judges a settlement: it is of the newest claims, through their own lane, and of each once;
    /// what is in hand is never refused.
    fn settled(&mut self, end: End, told: &Told, stale: &[EventId], now: Millis) -> Judged {
        let own = told.lane == told.of;
        let names: HashSet<EventId> = told.claims.iter().map(|(id, _)| *id).collect();
        for id in names {
            let named = told.claims.iter().filter(|(it, _)| *it == id);
            let done = named.clone().count() - stale.iter().filter(|it| **it == id).count();
            let known = &mut self.known[self.at[&id]];
            let hand = known.hand.filter(|hand| hand.open && own && hand.lane == told.of);
            let newest = hand.filter(|hand| named.clone().any(|(_, claim)| *claim == hand.claim));
            let live = newest.is_some_and(|hand| self.plain && hand.until > now);
            must(done == 1 || !live, || format!("{id} is in hand, and was refused"))?;
            if done == 0 {
                continue;
            }
            must(done == 1 && newest.is_some(), || format!("{id} was settled {done} times"))?;
            known.hand = newest.map(|hand| Hand { open: false, ..hand });
            known.end = match end {
                End::Done => Some(Status::Sent),
                End::Dead => Some(Status::Dead),
                End::Retry { .. } | End::Release { .. } => None,
            };
        }
        Ok(())
    }

    /// Judges what a side shows: every row is there once, as what it became; what the upkeep has
    /// trimmed was sent, and stays counted.
    pub(super) fn rows(&self, view: &View) -> Judged {
        let mut seen = HashSet::new();
        for row in &view.rows {
            let id = row.event.id;
            must(seen.insert(id), || format!("{id} stands in two places"))?;
            let known = self.at.get(&id).map(|at| &self.known[*at]);
            let known = known.ok_or_else(|| format!("nobody put {id}"))?;
            must(is_same(&row.event, &known.event), || format!("{id} is not what was put"))?;
            let ended = Some(row.status).filter(|it| matches!(it, Status::Sent | Status::Dead));
            must(ended == known.end, || format!("{row:?} was {:?}", known.end))?;
        }
        let gone = self.known.iter().filter(|known| !seen.contains(&known.event.id));
        for known in gone.clone() {
            must(known.end == Some(Status::Sent), || format!("{} is lost", known.event.id))?;
        }
        let count = |end| self.known.iter().filter(|known| known.end == Some(end)).count() as u64;
        let wanted = (count(Status::Sent), count(Status::Dead), self.known.len() as u64);
        let got = (view.counts.sent, view.counts.dead, view.counts.committed());
        must(gone.count() == self.trimmed, || format!("{} were trimmed", self.trimmed))?;
        must(got == wanted, || format!("(sent, dead, committed) are {got:?}, not {wanted:?}"))
    }
}

fn is_same(one: &Event, two: &Event) -> bool {
    let told = |it: &Event| (it.id, it.topic.clone(), it.kind.clone(), it.key.clone());
    told(one) == told(two) && one.payload == two.payload
}

fn lane_of(event: &Event) -> usize {
    usize::from(!event.topic.starts_with("a."))
}

/// Returns the line in which an event stands: that of its key, in its lane.
fn line_of(event: &Event) -> Option<(usize, &str)> {
    Some((lane_of(event), event.key.as_deref()?))
}
