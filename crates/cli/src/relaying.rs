//! A whole relay in this process: outboxes, lanes, chores, telemetry and the console.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use event::{Cause, Keep, StoreError};
use relay::{Lane, SystemClock, Unrouted};
use telemetry::Telemetry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config};
use crate::outboxes::{Chosen, Opened};
use crate::wire;

/// A relay that is open, and does not run yet.
pub(crate) struct Relaying {
    config: Config,
    outboxes: Vec<Arc<Opened>>,
    telemetry: Telemetry,
    listener: Option<TcpListener>,
    ready: Arc<AtomicBool>,
}

/// What ends on its own: a lane, or the console.
type Ended = Result<(), String>;

impl Relaying {
    /// Opens every outbox and the console's port. A store that is down is waited for later; one
    /// that is broken, or has a schema that this program does not work with, is refused here.
    pub(crate) async fn open(config: Config) -> anyhow::Result<Relaying> {
        let mut outboxes = Vec::new();
        for outbox in &config.outboxes {
            let opened = wait_open(&Chosen::of(outbox)).await?;
            if let Err(broken @ StoreError::Broken(_)) = opened.ready().await {
                return Err(broken.into());
            }
            outboxes.push(Arc::new(opened));
        }
        let listener = match &config.admin {
            admin if admin.off => None,
            admin => Some(TcpListener::bind(admin.listen).await.with_context(|| {
                let listen = admin.listen;
                format!(
                    "cannot listen on {listen}; change `listen` in [admin], or set `off = true`"
                )
            })?),
        };
        let (telemetry, ready) = (Telemetry::install(), Arc::default());
        Ok(Relaying { config, outboxes, telemetry, listener, ready })
    }

    /// Returns where the console listens.
    pub(crate) fn console(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Returns the handle of an outbox.
    pub(crate) fn outbox(&self, name: &str) -> Option<Arc<Opened>> {
        self.outboxes.iter().find(|opened| opened.name == name).cloned()
    }

    /// Relays until told to stop, then drains. Returns the first thing that ended on its own.
    pub(crate) async fn run(mut self, stop: &CancellationToken) -> anyhow::Result<()> {
        let stop = stop.child_token();
        let end = CancellationToken::new();
        let mut around = self.around(&stop, &end);
        let mut lanes = JoinSet::new();
        for (outbox, opened) in self.config.outboxes.iter().zip(&self.outboxes) {
            for lane in self.lanes(outbox, opened)? {
                lanes.spawn(run_lane(lane, opened.clone(), self.config.policy.rest, stop.clone()));
            }
            around.spawn(self.chores(outbox, opened, stop.clone()));
        }
        self.ready.store(true, Ordering::Relaxed);
        let mut failed: Option<String> = None;
        loop {
            let ended = tokio::select! {
                ended = lanes.join_next() => ended,
                Some(ended) = around.join_next() => Some(ended),
            };
            let Some(ended) = ended else { break };
            if let Err(text) = ended.unwrap_or_else(|panic| Err(format!("broke down: {panic}"))) {
                failed.get_or_insert(text);
                stop.cancel();
            }
        }
        end.cancel();
        while around.join_next().await.is_some() {}
        for opened in &self.outboxes {
            opened.outbox.close().await;
        }
        failed.map_or(Ok(()), |text| Err(anyhow::Error::msg(text)))
    }

    /// Starts the console and the counting for it, which outlive the lanes.
    fn around(&mut self, stop: &CancellationToken, end: &CancellationToken) -> JoinSet<Ended> {
        let mut around = JoinSet::new();
        let Some(listener) = self.listener.take() else { return around };
        let catalogs = self.outboxes.iter().map(|o| (o.name.clone(), o.outbox.catalog()));
        let (ready, stop) = (self.ready.clone(), stop.clone());
        let console = admin::Console {
            outboxes: catalogs.collect(),
            pulse: Arc::new(self.telemetry.clone()),
            ready: Arc::new(move || ready.load(Ordering::Relaxed) && !stop.is_cancelled()),
        };
        let options = admin::Options {
            token: self.config.admin.token.as_ref().map(|token| token.value.clone()),
            hosts: self.config.admin.hosts.clone(),
        };
        let ending = end.clone();
        around.spawn(async move {
            let served = admin::serve(listener, console, options, ending).await;
            served.map_err(|error| format!("the console ended: {error}"))
        });
        for opened in &self.outboxes {
            let (telemetry, name) = (self.telemetry.clone(), opened.name.clone());
            let (catalog, every) = (opened.outbox.catalog(), self.config.admin.sample);
            let end = end.clone();
            around.spawn(async move {
                telemetry.sample(name, catalog, every, end).await;
                Ok(())
            });
        }
        around
    }

    fn lanes(&self, outbox: &config::Outbox, opened: &Opened) -> anyhow::Result<Vec<Lane>> {
        let mut lanes = Vec::new();
        for planned in wire::plan(&self.config, &outbox.name) {
            let sink: Arc<dyn event::Sink> = match planned.sink {
                None => Arc::new(Unrouted),
                Some(sink) => wire::sink(sink, &outbox.name)
                    .map_err(|cause| anyhow::anyhow!("[sink.{}]: {cause}", sink.name))?,
            };
            let name = planned.name().to_owned();
            let lane = store::Lane { topics: planned.topics, order: outbox.order };
            let source = opened.outbox.lane(lane);
            let (source, sink) = self.telemetry.watch(&outbox.name, &name, source, sink);
            lanes.push(Lane {
                outbox: outbox.name.clone(),
                sink_name: name,
                source,
                sink,
                clock: Arc::new(SystemClock),
                policy: self.config.policy.clone(),
                options: options(outbox, planned.sink.is_some()),
            });
        }
        Ok(lanes)
    }

    fn chores(
        &self,
        outbox: &config::Outbox,
        opened: &Opened,
        stop: CancellationToken,
    ) -> impl Future<Output = Ended> + Send + 'static {
        let (name, chores) = (outbox.name.clone(), opened.outbox.chores());
        let config::Chores { every, step, lease } = self.config.chores;
        let keep = Keep { sent: outbox.keep_sent, inbox: outbox.keep_inbox, step, lease };
        async move {
            relay::chores::run(&name, chores, keep, every, Arc::new(SystemClock), stop).await;
            Ok(())
        }
    }
}

/// Where no route leads there is nothing to go faster for: one turn is enough.
fn options(outbox: &config::Outbox, routed: bool) -> relay::Options {
    relay::Options {
        batch: outbox.batch,
        bytes: outbox.bytes,
        lease: outbox.lease,
        idle: outbox.idle,
        turns: if routed { outbox.turns } else { 1 },
        drain: outbox.drain,
    }
}

/// Runs a lane once its store answers.
async fn run_lane(
    lane: Lane,
    opened: Arc<Opened>,
    rest: Duration,
    stop: CancellationToken,
) -> Ended {
    let told = |cause: &Cause| {
        let (outbox, sink) = (&lane.outbox, &lane.sink_name);
        Err(format!("the lane from {outbox} to {sink} ended: {cause}"))
    };
    loop {
        match opened.ready().await {
            Ok(()) => break,
            Err(StoreError::Broken(cause)) => return told(&cause),
            Err(StoreError::Down(cause)) => {
                tracing::warn!(outbox = lane.outbox, %cause, "the store is down; waiting for it");
                let waited = stop.run_until_cancelled(tokio::time::sleep(rest)).await;
                if waited.is_none() {
                    return Ok(());
                }
            }
        }
    }
    let ended = lane.run(&stop).await;
    ended.or_else(|cause| told(&cause))
}

/// Opens an outbox, waiting for a store that is down.
async fn wait_open(chosen: &Chosen) -> Result<Opened, StoreError> {
    const PAUSE: Duration = Duration::from_secs(1);
    loop {
        match chosen.open().await {
            Err(StoreError::Down(cause)) => {
                tracing::warn!(outbox = chosen.name, %cause, "the store is down; waiting for it");
                tokio::time::sleep(PAUSE).await;
            }
            answered => return answered,
        }
    }
}
