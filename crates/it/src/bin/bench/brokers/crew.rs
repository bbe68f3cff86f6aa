//! Bare loops side by side: what is sent request by request, and not into one pipe.

use std::future::Future;
use std::sync::Arc;

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;

/// How many loops share the work.
const LOOPS: usize = 4;

/// Offers everything, so many at once. No two of a key are out together as long as more keys come
/// after one another than may be out.
pub(super) async fn side_by_side<T, F>(
    all: Vec<T>,
    at_once: usize,
    offer: impl Fn(T) -> F + Send + Sync + 'static,
) -> Result<()>
where
    T: Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut parts: [Vec<T>; LOOPS] = Default::default();
    for (n, one) in all.into_iter().enumerate() {
        parts[n % LOOPS].push(one);
    }
    let (offer, mut loops) = (Arc::new(offer), JoinSet::new());
    for part in parts {
        let offer = offer.clone();
        loops.spawn(async move {
            let offers = stream::iter(part).map(|one| Ok(offer(one)));
            offers.try_buffer_unordered(at_once / LOOPS).try_for_each(async |()| Ok(())).await
        });
    }
    while let Some(ended) = loops.join_next().await {
        ended??;
    }
    Ok(())
}
