//! Random operations, made from a seed. Every subsequence of a trace is a trace.

use std::time::Duration;

use event::{Cause, Code, Outcome, Receipt};
use fastrand::Rng;

/// How long most claims last.
pub(super) const LEASE: u64 = 10_000;

/// One operation. Numbers that name a claim or an event are taken modulo how many there are.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each field is what its name says")]
pub enum Op {
    Put { key: Option<u8>, topic: u8, delay: Option<u64>, size: usize, count: usize },
    Claim { relay: usize, lane: usize, limit: usize, bytes: usize, lease: u64 },
    Settle { claims: Vec<usize>, end: End, through: Option<usize> },
    Advance { millis: u64 },
    SetBack { millis: u64 },
    Crash { relay: usize },
    Sleep { relay: usize },
    Release { relay: usize, lane: usize },
    Requeue { events: Vec<usize>, filter: Option<u8>, limit: usize },
    Find { filter: u8, limit: usize },
    Begin { relay: usize, group: u8, event: usize },
    Finish { relay: usize, begun: usize, well: bool },
    Sweep { relay: usize, keep: u64, step: usize },
    Elsewhere,
}

/// How a claim ends.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each variant is the outcome of its name")]
pub enum End {
    Done,
    Retry { after: u64 },
    Release { after: u64 },
    Dead,
}

impl End {
    /// Returns the outcome.
    pub fn outcome(self) -> Outcome {
        let cause = |code| Cause::new(code, "so it goes");
        match self {
            End::Done => Outcome::Done(Receipt { broker_id: Some("b-7".into()) }),
            End::Retry { after } => {
                Outcome::Retry { after: Duration::from_millis(after), cause: cause(Code::SinkBusy) }
            }
            End::Release { after } => Outcome::Release { after: Duration::from_millis(after) },
            End::Dead => Outcome::Dead(cause(Code::SinkRefused)),
        }
    }
}

/// Makes the trace of a seed.
pub fn trace(seed: u64) -> Vec<Op> {
    let mut rng = Rng::with_seed(seed);
    let length = rng.usize(10..90);
    let relays = rng.usize(1..=3);
    (0..length).map(|_| op(&mut rng, relays)).collect()
}

fn op(rng: &mut Rng, relays: usize) -> Op {
    let relay = rng.usize(..relays);
    match rng.u8(..108) {
        0..20 => Op::Put {
            key: (rng.u8(..4) > 0).then(|| rng.u8(..3)),
            topic: rng.u8(..3),
            delay: (rng.u8(..5) == 0).then(|| rng.u64(..2 * LEASE)),
            size: if rng.u8(..6) == 0 { rng.usize(..3000) } else { rng.usize(..40) },
            count: rng.usize(1..5),
        },
        20..48 => Op::Claim {
            relay,
            lane: rng.usize(..2),
            limit: rng.usize(1..8),
            bytes: if rng.u8(..4) == 0 { rng.usize(..2000) } else { 1 << 20 },
            lease: if rng.u8(..6) == 0 { rng.u64(1..2 * LEASE) } else { LEASE },
        },
        48..74 => Op::Settle {
            claims: (0..rng.usize(1..6)).map(|_| back(rng)).collect(),
            end: end(rng),
            through: (rng.u8(..12) == 0).then(|| rng.usize(..2 * relays)),
        },
        74..81 => Op::Advance { millis: step(rng) },
        81 => Op::SetBack { millis: step(rng) },
        82..84 => Op::Crash { relay },
        84 => Op::Sleep { relay },
        85..87 => Op::Release { relay, lane: rng.usize(..2) },
        87..90 => Op::Requeue {
            events: (0..rng.usize(..3)).map(|_| rng.usize(..100)).collect(),
            filter: rng.bool().then(|| rng.u8(..FILTERS)),
            limit: rng.usize(..5),
        },
        90..94 => Op::Find { filter: rng.u8(..FILTERS), limit: rng.usize(1..7) },
        94..96 => Op::Begin { relay, group: rng.u8(..2), event: rng.usize(..4) },
        96..98 => Op::Finish { relay, begun: rng.usize(..4), well: rng.bool() },
        98..100 => Op::Sweep { relay, keep: rng.u64(..3 * LEASE), step: rng.usize(1..5) },
        _ => Op::Elsewhere,
    }
}

/// How many filters `side` knows.
pub(super) const FILTERS: u8 = 9;

/// Names a claim, counted back from the newest: mostly live ones, now and then an old one.
fn back(rng: &mut Rng) -> usize {
    if rng.u8(..8) == 0 { rng.usize(..60) } else { rng.usize(..8) }
}

fn end(rng: &mut Rng) -> End {
    match rng.u8(..10) {
        0..4 => End::Done,
        4..7 => End::Retry { after: if rng.bool() { rng.u64(..2 * LEASE) } else { 0 } },
        7..9 => End::Release { after: if rng.bool() { rng.u64(..LEASE) } else { 0 } },
        _ => End::Dead,
    }
}

/// Moves the clock a little, to the edge of a lease, or beyond it.
fn step(rng: &mut Rng) -> u64 {
    match rng.u8(..6) {
        0 => LEASE,
        1 => LEASE - 1,
        2 => rng.u64(LEASE..3 * LEASE),
        _ => rng.u64(1..LEASE / 2),
    }
}
