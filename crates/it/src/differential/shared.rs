//! A trace in several shards: both sides do the same, and each has its own witness. What is left at
//! the end is published, so that nothing may wait for ever.

use event::Millis;
use store::Strategy;

use super::side::{Answer, Side};
use super::trace::{End, LEASE, Op};
use super::witness::Witness;
use crate::ground::{self, Ground};

/// In how many shards a trace may be.
const SHARDS: [u16; 4] = [2, 4, 16, 1];
/// How many rounds the rest may take.
const ROUNDS: usize = 300;
/// How many rows one of them takes at once.
const AT_ONCE: usize = 30;

/// Plays one trace on both sides. Every other one has no surprises of the clock, and claims that
/// last equally long: there it is known how long each row is in hand.
pub(super) async fn play(
    server: &'static str,
    strategy: Strategy,
    seed: u64,
    ops: Vec<Op>,
    every: usize,
) -> Result<(), String> {
    let shards = SHARDS[(seed / 2 % 4) as usize];
    let plain = seed.is_multiple_of(2);
    let ground = ground::on(server, shards, strategy).await;
    let ordered = ground.traits().ordered;
    let model = ground.model().await;
    let mut model = Watched::new(model, "the model", ordered, plain).await;
    let mut real = Watched::new(Box::new(ground), "the store", ordered, plain).await;
    for (at, op) in ops.into_iter().enumerate() {
        let Some(op) = (if plain { plainly(op) } else { Some(op) }) else { continue };
        let (wanted, got) = (model.take(&op).await?, real.take(&op).await?);
        if let Some(difference) = differ(&wanted, &got) {
            return Err(format!("{at}: {op:?}\n{difference}"));
        }
        if (at + 1) % every == 0 {
            model.look().await?;
            real.look().await?;
        }
    }
    model.publish_the_rest().await?;
    real.publish_the_rest().await?;
    real.side.close().await;
    Ok(())
}

fn plainly(op: Op) -> Option<Op> {
    match op {
        Op::Claim { relay, lane, limit, bytes, .. } => {
            Some(Op::Claim { relay, lane, limit, bytes, lease: LEASE })
        }
        Op::SetBack { .. } => None,
        op => Some(op),
    }
}

/// Compares what has nothing to do with shards: the inbox, and who does the upkeep.
fn differ(wanted: &Answer, got: &Answer) -> Option<String> {
    let same = match (wanted, got) {
        (Answer::Begun(_), _) | (Answer::Finished(_), _) => wanted == got,
        (Answer::Swept(one), Answer::Swept(two)) => {
            let sum = |steps: &[event::Swept]| {
                let inbox: u64 = steps.iter().map(|swept| swept.inbox).sum();
                (inbox, steps.iter().any(|swept| swept.elsewhere))
            };
            sum(one) == sum(two)
        }
        _ => true,
    };
    (!same).then(|| format!("  model: {wanted:#?}\n  store: {got:#?}"))
}

/// A side and its witness.
struct Watched {
    side: Side,
    witness: Witness,
    name: &'static str,
}

impl Watched {
    async fn new(
        ground: Box<dyn Ground>,
        name: &'static str,
        ordered: bool,
        plain: bool,
    ) -> Watched {
        Watched { side: Side::new(ground).await, witness: Witness::new(ordered, plain), name }
    }

    async fn take(&mut self, op: &Op) -> Result<Answer, String> {
        let answer = self.side.take(op).await;
        let (told, now) = (self.side.told(), self.side.now());
        let judged = self.witness.judge(op, &answer, &told, now);
        judged.map_err(|broken| format!("{}: {op:?}: {broken}", self.name))?;
        Ok(answer)
    }

    async fn look(&self) -> Result<u64, String> {
        let view = self.side.look().await;
        let judged = self.witness.rows(&view);
        judged.map_err(|broken| format!("{}: {broken}", self.name))?;
        Ok(view.counts.pending())
    }

    /// Publishes all that waits, once everybody else's claims and names are over.
    async fn publish_the_rest(&mut self) -> Result<(), String> {
        self.take(&Op::Advance { millis: 3 * LEASE }).await?;
        for _ in 0..ROUNDS {
            let mut came = 0;
            for lane in 0..2 {
                let (limit, bytes, lease) = (AT_ONCE, 1 << 20, LEASE);
                let claim = Op::Claim { relay: 0, lane, limit, bytes, lease };
                let Answer::Claimed(claims) = self.take(&claim).await? else { continue };
                came += claims.len();
                if !claims.is_empty() {
                    let claims = (0..claims.len()).collect();
                    self.take(&Op::Settle { claims, end: End::Done, through: None }).await?;
                }
            }
            if came == 0 {
                if self.look().await? == 0 {
                    return Ok(());
                }
                self.take(&Op::Advance { millis: LEASE }).await?;
            }
        }
        let (now, view): (Millis, _) = (self.side.now(), self.side.look().await);
        Err(format!("{}: something waits for ever at {now:?}: {:?}", self.name, view.counts))
    }
}
