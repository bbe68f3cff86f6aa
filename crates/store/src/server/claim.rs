//! A claim: look, take or keep the leases, then hand out later rows that are due, then hot rows.
//! Those who ask at the same time are answered together.

use std::time::{Duration, Instant};

use event::{Claim, Millis, StoreError, Want};

use super::base::{Base, another_server};
use super::claiming::Claiming;
use super::compete::adopt;
use super::dialect::Dialect;
use super::glance::Glancing;
use super::informing::inform;
use super::lane::{Asks, KeptGlance};
use super::settle::take_in;
use super::sharing::share;
use super::together::{ROWS, Turn};

/// How long claims that fill up go by the same glance at the most. What was not there to be seen, a
/// retry that falls due or a shard that was empty, waits that long.
pub(super) const STILL: Duration = Duration::from_millis(40);

/// Claims for one lane, together with the others who wait to; maybe beside a settlement.
pub(super) async fn claim<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    want: Want,
    beside: bool,
) -> Result<Vec<Claim>, StoreError> {
    let mut lead = match asks.claims.ask(want, &base.turn).await {
        Turn::Told(claims) => return claims,
        Turn::Lead(lead) => lead,
    };
    lead.gather().await;
    loop {
        let welcome = welcome(base.holding().desks[lane].weight);
        let wants: Vec<Want> = lead.questions(welcome).into_iter().map(|want| *want).collect();
        // After the questions, so that whoever asks has its own outcomes taken in.
        take_in(base, &lead.turn);
        let since = if beside { None } else { Some(lead.since) };
        let claims = claim_all(base, lane, asks, since, &wants).await;
        let all = |(claims, want): (&Vec<Claim>, &Want)| claims.len() >= want.limit;
        let told = claims.iter().flatten().zip(&wants);
        lead.expect(told.filter(|told| all(*told)).count());
        if let Some(claims) = lead.tell(claims) {
            return claims;
        }
    }
}

/// Returns which claims are made together, where a row has so many bytes: as many as one may have.
pub(super) fn welcome(weight: usize) -> impl FnMut(&Want) -> bool {
    let (mut rows, mut lease) = (0, None);
    move |want| {
        rows = want.limit.saturating_add(rows);
        let lasts_as_long = *lease.get_or_insert(want.lease) == want.lease;
        lasts_as_long && rows <= ROWS && weight.saturating_mul(rows) <= want.bytes
    }
}

/// Makes the first of these claims, and those that follow if only hot rows wait.
async fn claim_all<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    since: Option<Instant>,
    wants: &[Want],
) -> Result<Vec<Vec<Claim>>, StoreError> {
    let (era, lease) = (base.holding().era, wants[0].lease);
    adopt(base, lease).await?;
    let changes = base.holding().changes;
    // Whoever asked while the last claim was made, or whose outcomes are being written down, may be
    // told what that one saw.
    let still = |kept: &KeptGlance<D>| {
        let in_time = since.is_none_or(|since| since < kept.used);
        in_time && kept.made.elapsed() < STILL && kept.changes == changes
    };
    let kept = asks.kept().take().filter(still);
    let is_fresh = kept.is_none();
    let (made, glance) = match kept {
        Some(kept) => (kept.made, kept.glance),
        None => {
            let made = Instant::now();
            (made, base.work(&mut Glancing { lane, seen: Millis(i64::MIN) }).await?)
        }
    };
    share(base, glance.looks.len(), glance.now, lease).await?;
    let claiming = match Claiming::new(base, era, lane, wants, glance, is_fresh) {
        Some(claiming) => claiming.prepared(base).await,
        None => Ok(None),
    };
    let Some(mut claiming) = claiming.inspect_err(|_| asks.claimed(false))? else {
        asks.claimed(false);
        return Ok(vec![Vec::new(); wants.len()]);
    };
    let told = inform(base, (era, lane), &claiming.stages).await;
    told.inspect_err(|_| asks.claimed(false))?;
    let claims = base.work(&mut claiming).await;
    if base.holding().era != era {
        // It went on while everything was let go.
        base.holding().forget();
        return Err(another_server());
    }
    asks.claimed(claims.is_ok() && claiming.full);
    if claims.is_err() {
        claiming.give_up(base);
    } else if claiming.full && !claiming.writes {
        let (glance, used) = (claiming.into_glance(), Instant::now());
        *asks.kept() = Some(KeptGlance { glance, made, used, changes });
    }
    claims
}
