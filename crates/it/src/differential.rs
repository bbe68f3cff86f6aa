//! The model and a real store side by side: the same random operations, the same answers to every
//! one of them, and the same rows every few of them.
//!
//! In one shard every answer of a store is the model's. In several it is not: which rows a claim
//! takes, and which shards a relay has, is up to the store. There both sides do the same, each is
//! judged by itself by what is promised of every answer, and at the end both have brought the
//! events of each key in the same order, and every row is there.
//!
//! A trace is all that its seed says. `POSTBOX_SEED` replays one, `POSTBOX_TRACES` says how many.

mod shared;
mod side;
mod trace;
mod witness;

use std::fmt::Write as _;
use std::future::Future;

use anyhow::{Result, bail};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use store::Strategy;

use crate::ground::Ground;
pub use trace::{End, Op, trace};

/// After how many operations the rows are compared. Looking costs more than most operations do.
const ROWS_EVERY: usize = 10;

/// Which traces to run: `traces` of them, from `seed` on.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first trace's seed; the next one's is one higher.
    pub seed: u64,
    /// How many.
    pub traces: u64,
}

impl Plan {
    /// Reads the environment: other traces on every run, unless one is asked for. Under `CI` it is
    /// `in_ci` of them, else a fifth of that.
    pub fn from_env(in_ci: u64) -> Plan {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("POSTBOX_SEED");
        let usual = match (seed, std::env::var_os("CI")) {
            (Some(_), _) => 1,
            (None, Some(_)) => in_ci,
            (None, None) => in_ci.div_ceil(5),
        };
        let traces = number("POSTBOX_TRACES").unwrap_or(usual);
        Plan { seed: seed.unwrap_or_else(|| fastrand::u64(..1 << 48)), traces }
    }
}

/// Plays operations of the trace of a seed, and compares the rows every so many of them and at the
/// end. Returns the first difference.
type Play = dyn Fn(u64, Vec<Op>, usize) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Compares a store in one shard with the model, answer by answer.
pub async fn compare<F, G>(plan: Plan, make: fn() -> F) -> Result<()>
where
    F: Future<Output = G> + Send + 'static,
    G: Ground + 'static,
{
    run(plan, &move |_, ops, every| play(ops, every, make).boxed()).await
}

/// Compares the tables of a server with the model, in as many shards as each trace says.
pub async fn compare_shared(plan: Plan, server: &'static str, strategy: Strategy) -> Result<()> {
    run(plan, &move |seed, ops, every| shared::play(server, strategy, seed, ops, every).boxed())
        .await
}

/// Runs the traces of a plan, some at once. The first difference ends it, with the shortest trace
/// that shows it.
async fn run(plan: Plan, play: &Play) -> Result<()> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut traces = stream::iter(plan.seed..plan.seed + plan.traces)
        .map(async |seed| (seed, played(play(seed, trace(seed), ROWS_EVERY)).await))
        .buffer_unordered(at_once);
    while let Some((seed, played)) = traces.next().await {
        let Err(first) = played else { continue };
        let (ops, difference) = shrink(seed, first, play).await;
        let count = ops.len();
        let mut told = format!("POSTBOX_SEED={seed} replays this, in {count} operations:\n");
        for op in &ops {
            writeln!(told, "  {op:?}")?;
        }
        bail!("{told}{difference}");
    }
    Ok(())
}

/// Plays by itself: a side that panics differs.
async fn played(play: BoxFuture<'static, Result<(), String>>) -> Result<(), String> {
    let played = tokio::spawn(play).await;
    played.unwrap_or_else(|panic| Err(format!("a side panicked: {panic}")))
}

async fn play<F, G>(ops: Vec<Op>, every: usize, make: fn() -> F) -> Result<(), String>
where
    F: Future<Output = G> + Send + 'static,
    G: Ground + 'static,
{
    let ground = make().await;
    let mut model = side::Side::new(ground.model().await).await;
    let mut real = side::Side::new(Box::new(ground)).await;
    for (at, op) in ops.iter().enumerate() {
        let (wanted, got) = (model.take(op).await, real.take(op).await);
        if wanted != got {
            return Err(format!("{at}: {op:?}\n  model: {wanted:#?}\n  store: {got:#?}"));
        }
        if (at + 1) % every != 0 && at + 1 != ops.len() {
            continue;
        }
        let (wanted, got) = (model.look().await, real.look().await);
        if let Some(difference) = wanted.differs(&got) {
            return Err(format!("rows after {at}: {op:?}\n{difference}"));
        }
    }
    real.close().await;
    Ok(())
}

/// Leaves out whatever the difference does not need. The rows are compared at every step, so that
/// it ends where the two first differ.
async fn shrink(seed: u64, first: String, play: &Play) -> (Vec<Op>, String) {
    let (mut ops, mut difference) = (trace(seed), first);
    let mut chunk = ops.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < ops.len() {
            let mut shorter = ops.clone();
            shorter.drain(at..(at + chunk).min(ops.len()));
            match played(play(seed, shorter.clone(), 1)).await {
                Err(still) => (ops, difference) = (shorter, still),
                Ok(()) => at += chunk,
            }
        }
        chunk /= 2;
    }
    (ops, difference)
}
