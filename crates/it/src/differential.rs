//! The model and a real store side by side: the same random operations, the same answers to every
//! one of them, and the same rows every few of them.
//!
//! A trace is all that its seed says. `POSTBOX_SEED` replays one, `POSTBOX_TRACES` says how many.

mod side;
mod trace;

use std::fmt::Write as _;
use std::future::Future;

use anyhow::{Result, bail};
use futures_util::{StreamExt, stream};

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

/// Runs the traces of a plan, some at once. The first difference ends it, with the shortest trace
/// that shows it.
pub async fn compare<F, G>(plan: Plan, make: fn() -> F) -> Result<()>
where
    F: Future<Output = G> + Send + 'static,
    G: Ground + 'static,
{
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut played = stream::iter(plan.seed..plan.seed + plan.traces)
        .map(async |seed| (seed, play(trace(seed), ROWS_EVERY, make).await))
        .buffer_unordered(at_once);
    while let Some((seed, played)) = played.next().await {
        let Err(first) = played else { continue };
        let (ops, difference) = shrink(trace(seed), first, make).await;
        let count = ops.len();
        let mut told = format!("POSTBOX_SEED={seed} replays this, in {count} operations:\n");
        for op in &ops {
            writeln!(told, "  {op:?}")?;
        }
        bail!("{told}{difference}");
    }
    Ok(())
}

/// Plays one trace on both sides, and compares the rows every so many operations and at the end.
/// Returns the first difference.
async fn play<F, G>(ops: Vec<Op>, every: usize, make: fn() -> F) -> Result<(), String>
where
    F: Future<Output = G> + Send + 'static,
    G: Ground + 'static,
{
    let played = tokio::spawn(async move {
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
    });
    played.await.unwrap_or_else(|panic| Err(format!("a side panicked: {panic}")))
}

/// Leaves out whatever the difference does not need. The rows are compared at every step, so that
/// it ends where the two first differ.
async fn shrink<F, G>(mut ops: Vec<Op>, first: String, make: fn() -> F) -> (Vec<Op>, String)
where
    F: Future<Output = G> + Send + 'static,
    G: Ground + 'static,
{
    let mut difference = first;
    let mut chunk = ops.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < ops.len() {
            let mut shorter = ops.clone();
            shorter.drain(at..(at + chunk).min(ops.len()));
            match play(shorter.clone(), 1, make).await {
                Err(still) => (ops, difference) = (shorter, still),
                Ok(()) => at += chunk,
            }
        }
        chunk /= 2;
    }
    (ops, difference)
}
