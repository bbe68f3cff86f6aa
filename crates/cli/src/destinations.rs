//! The destinations of one process: what routes demand of them, and what they say of themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Code, Durability, Refusal, Sink};
use futures_util::future::join_all;
use relay::{Braked, Demanding};
use tokio::time::timeout;

use crate::failure::Refused;

/// How long a destination may take to say what it is worth.
const PATIENCE: Duration = Duration::from_secs(10);

/// The destinations of one process, by the names of their sinks. Each lane has a sink of its own.
#[derive(Default)]
pub(crate) struct Destinations(BTreeMap<String, Vec<Lane>>);

struct Lane {
    sink: Arc<dyn Sink>,
    demand: Option<Durability>,
}

impl Destinations {
    /// Adds the sink of a lane. Returns one that publishes only what is kept as safely as is
    /// demanded, and only while consumers keep up.
    pub(crate) fn add(
        &mut self,
        name: &str,
        sink: Arc<dyn Sink>,
        demand: Option<Durability>,
        lag_limit: Option<usize>,
    ) -> Arc<dyn Sink> {
        let sink = match lag_limit {
            Some(limit) => Arc::new(Braked::new(sink, limit)),
            None => sink,
        };
        let sink = match demand {
            Some(demand) => Arc::new(Demanding::new(sink, demand)),
            None => sink,
        };
        let lanes = self.0.entry(name.to_owned()).or_default();
        lanes.push(Lane { sink: sink.clone(), demand });
        sink
    }

    /// Asks every destination of which something is demanded. One that is worth less is refused;
    /// one that does not answer is asked again by its lanes, before they publish.
    pub(crate) async fn ask(&self) -> Result<(), Refused> {
        let all = self.0.iter().flat_map(|(name, lanes)| lanes.iter().map(move |it| (name, it)));
        let demanded = all.filter_map(|(name, lane)| Some((name, &lane.sink, lane.demand?)));
        let asked = demanded.map(|(name, sink, demand)| async move {
            match timeout(PATIENCE, sink.worth()).await.unwrap_or_else(|_| Err(silent())) {
                Ok(seen) => seen.meets(demand).map_err(|cause| Refused::sink(name, cause)),
                Err(refusal) => {
                    let cause = refusal.cause().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(sink = name, cause, "cannot be asked yet what it is worth");
                    Ok(())
                }
            }
        });
        join_all(asked).await.into_iter().collect()
    }

    /// Hands out what to look at now and then.
    pub(crate) fn into_looks(self) -> Vec<(String, Vec<Arc<dyn Sink>>)> {
        let sinks = |lanes: Vec<Lane>| lanes.into_iter().map(|lane| lane.sink).collect();
        self.0.into_iter().map(|(name, lanes)| (name, sinks(lanes))).collect()
    }
}

fn silent() -> Refusal {
    let detail = format!("no answer within {} s", PATIENCE.as_secs());
    Refusal::Unknown(Cause::new(Code::SinkTimeout, detail))
}
