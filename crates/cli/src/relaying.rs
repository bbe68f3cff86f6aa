//! A whole relay in this process: outboxes, lanes, chores, telemetry and the console.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use event::{Cause, Code, Crowd, Keep, Sink, StoreError};
use relay::{Fleet, Lane, Mending, SystemClock, Unrouted};
use telemetry::Telemetry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config};
use crate::destinations::Destinations;
use crate::failure::Refused;
use crate::outboxes::{Chosen, Opened};
use crate::tended::Tended;
use crate::wire::{self, Planned, Sinks};

/// A relay that is open, and does not run yet.
pub(crate) struct Relaying {
    config: Config,
    outboxes: Vec<Arc<Opened>>,
    /// Why outboxes were broken when they were opened, each at its place.
    broken: Vec<Option<Cause>>,
    telemetry: Telemetry,
    /// The relays at these outboxes.
    crowd: Crowd,
    listener: Option<TcpListener>,
    started: Arc<AtomicBool>,
}

/// A lane that is planned, and its sink.
type Aimed<'a> = (Planned<'a>, Arc<dyn Sink>);

/// How often a destination is looked at, at the most.
const LOOK: Duration = Duration::from_secs(15);

/// What ends on its own: a lane, or the console.
type Ended = Result<(), String>;

impl Relaying {
    /// Opens every outbox and the console's port. A store that is down is waited for later. One
    /// that is broken, or has a schema that this program does not work with, is refused here if
    /// the config is to blame or if no other is left, and else tried again later.
    pub(crate) async fn open(config: Config) -> anyhow::Result<Relaying> {
        let (mut outboxes, mut broken, crowd) = (Vec::new(), Vec::new(), Crowd::default());
        for outbox in &config.outboxes {
            let mut chosen = Chosen::of(outbox);
            chosen.setup.crowd = crowd.at(&outbox.name);
            let opened = chosen.handle().await?;
            broken.push(match opened.ready().await {
                Err(StoreError::Broken(cause)) => Some(cause),
                Ok(()) | Err(StoreError::Down(_)) => None,
            });
            outboxes.push(Arc::new(opened));
        }
        if let Some(cause) = refused(&broken) {
            return Err(StoreError::Broken(cause.clone()).into());
        }
        let listener = match &config.admin {
            admin if admin.off => None,
            admin => {
                Some(TcpListener::bind(admin.listen).await.with_context(|| taken(admin.listen))?)
            }
        };
        let (telemetry, started) = (Telemetry::install(), Arc::default());
        Ok(Relaying { config, outboxes, broken, telemetry, crowd, listener, started })
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
        let (sinks, mut destinations) =
            (Sinks::new(self.crowd.clone(), stop.clone()), Destinations::default());
        let mut plans = Vec::new();
        for outbox in &self.config.outboxes {
            plans.push(self.plan(outbox, &sinks, &mut destinations)?);
        }
        let Some(asked) = stop.run_until_cancelled(destinations.ask()).await else {
            return Ok(());
        };
        asked?;
        self.look(destinations, &mut around, &stop);
        let (mut lanes, mut place) = (JoinSet::new(), 0);
        let fleet = Fleet::of(plans.iter().map(Vec::len).sum());
        let outboxes = self.config.outboxes.iter().zip(&self.outboxes).zip(&self.broken);
        for (((outbox, opened), broken), plan) in outboxes.zip(plans) {
            for lane in self.lanes(outbox, opened, plan) {
                let (opened, sink) = (opened.clone(), lane.sink_name.clone());
                let health = Arc::new(Tended { opened, sink, telemetry: self.telemetry.clone() });
                let mending = Mending { lane, health, fleet: fleet.clone(), place };
                lanes.spawn(run_lane(mending, broken.clone(), stop.clone()));
                place += 1;
            }
            around.spawn(self.chores(outbox, opened, stop.clone()));
        }
        self.started.store(true, Ordering::Relaxed);
        let failed = until_ended(&mut lanes, &mut around, &stop).await;
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
        let console = admin::Console {
            outboxes: catalogs.collect(),
            pulse: Arc::new(self.telemetry.clone()),
            unready: self.unready(stop),
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

    /// Looks at the destinations now and then: for the console, because what is demanded of them
    /// must stay true, and because one that is nearly full gets fewer events at once.
    fn look(&self, all: Destinations, around: &mut JoinSet<Ended>, stop: &CancellationToken) {
        let every = self.config.admin.sample.max(LOOK);
        for (name, sinks) in all.into_looks() {
            let (telemetry, stop) = (self.telemetry.clone(), stop.clone());
            around.spawn(async move {
                telemetry.look(&name, sinks, every, stop).await;
                Ok(())
            });
        }
    }

    /// Says why this relay does not do its work: its lanes are not started, it stops, or a store
    /// is broken or does not answer. A destination that is down is not asked: to start again would
    /// not help.
    fn unready(&self, stop: &CancellationToken) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
        let names: Vec<String> = self.outboxes.iter().map(|opened| opened.name.clone()).collect();
        let (started, stop) = (self.started.clone(), stop.clone());
        let telemetry = self.telemetry.clone();
        Arc::new(move || {
            if stop.is_cancelled() {
                return vec!["the relay stops".into()];
            }
            if !started.load(Ordering::Relaxed) {
                return vec!["the relay starts".into()];
            }
            let trouble = |name: &String| {
                telemetry.answers(name).err().map(|cause| format!("{name}: {}", cause.code))
            };
            names.iter().filter_map(trouble).collect()
        })
    }

    /// Makes the sinks of an outbox's lanes. Nothing is connected yet.
    fn plan<'a>(
        &'a self,
        outbox: &config::Outbox,
        sinks: &Sinks,
        destinations: &mut Destinations,
    ) -> Result<Vec<Aimed<'a>>, Refused> {
        let mut plan: Vec<Aimed<'_>> = Vec::new();
        for planned in wire::plan(&self.config, &outbox.name) {
            let sink = match planned.sink {
                None => Arc::new(Unrouted),
                Some(sink) => {
                    let refused = |cause| Refused::sink(&sink.name, cause);
                    let topics = std::slice::from_ref(&planned.topics);
                    let made = sinks.sink(sink, &outbox.name, topics).map_err(refused)?;
                    destinations.add(&sink.name, made, planned.demand, planned.lag_limit)
                }
            };
            plan.push((planned, sink));
        }
        Ok(plan)
    }

    fn lanes(
        &self,
        outbox: &config::Outbox,
        opened: &Opened,
        plan: Vec<(Planned<'_>, Arc<dyn Sink>)>,
    ) -> Vec<Lane> {
        let mut lanes = Vec::new();
        for (planned, sink) in plan {
            let (name, routed) = (planned.name().to_owned(), planned.sink.is_some());
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
                options: options(outbox, routed),
            });
        }
        lanes
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

/// Waits until every lane has ended. Returns the first thing that ended badly; it stops the rest.
async fn until_ended(
    lanes: &mut JoinSet<Ended>,
    around: &mut JoinSet<Ended>,
    stop: &CancellationToken,
) -> Option<String> {
    let mut failed = None;
    loop {
        let ended = tokio::select! {
            ended = lanes.join_next() => ended,
            Some(ended) = around.join_next() => Some(ended),
        };
        let Some(ended) = ended else { return failed };
        if let Err(text) = ended.unwrap_or_else(|panic| Err(format!("broke down: {panic}"))) {
            failed.get_or_insert(text);
            stop.cancel();
        }
    }
}

/// Runs a lane. One that panics is named, as is one that cannot go on.
async fn run_lane(mending: Mending, broken: Option<Cause>, stop: CancellationToken) -> Ended {
    let lane = &mending.lane;
    let name = format!("the lane from {} to {}", lane.outbox, lane.sink_name);
    match tokio::spawn(async move { mending.run(broken, &stop).await }).await {
        Ok(ended) => ended.map_err(|cause| format!("{name} ended: {cause}")),
        Err(panic) => Err(format!("{name} broke down: {panic}")),
    }
}

fn taken(listen: SocketAddr) -> String {
    format!(
        "cannot listen on {listen}; if another relay runs here, give this one its own `listen` in \
         [admin] (POSTBOX__ADMIN__LISTEN=127.0.0.1:0 takes a free port) or set `off = true` there"
    )
}

/// Returns why a relay does not start: an outbox cannot be worked with as it is configured, or all
/// of them are broken.
fn refused(broken: &[Option<Cause>]) -> Option<&Cause> {
    let config = broken.iter().flatten().find(|cause| cause.code == Code::ConfigInvalid);
    let first = broken.first()?.as_ref();
    config.or_else(|| first.filter(|_| broken.iter().all(Option::is_some)))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use event::{Claim, Settled, Settlement, Source, Want};
    use relay::Health;

    use super::*;

    /// A source that cannot go on: it panics, or it is broken.
    struct Bad {
        panics: bool,
    }

    #[async_trait]
    impl Source for Bad {
        async fn claim(&self, _: &Want) -> Result<Vec<Claim>, StoreError> {
            assert!(!self.panics, "as the test says");
            Err(StoreError::Broken(Cause::new(Code::StoreBroken, "as the test says")))
        }

        async fn settle(&self, _: &[Settlement]) -> Result<Settled, StoreError> {
            unreachable!("nothing was claimed")
        }

        async fn wait(&self, _: Duration) {}

        async fn release(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    /// A store of which nothing more is known.
    struct Unknown;

    #[async_trait]
    impl Health for Unknown {
        async fn ready(&self) -> Result<(), StoreError> {
            Ok(())
        }

        fn broken(&self, _: &Cause) {}

        fn mended(&self) {}
    }

    fn lane(panics: bool) -> Mending {
        let text = "[outbox.orders]\nurl = \"sqlite:nowhere\"\n[sink.out]\nkind = \"stdout\"\n\
                    [[route]]\ntopic = \"*\"\nsink = \"out\"\n";
        let config = config::parse("test", text, []).unwrap();
        let lane = Lane {
            outbox: "orders".into(),
            sink_name: "stock".into(),
            source: Arc::new(Bad { panics }),
            sink: Arc::new(Unrouted),
            clock: Arc::new(SystemClock),
            policy: config.policy.clone(),
            options: options(&config.outboxes[0], true),
        };
        Mending { lane, health: Arc::new(Unknown), fleet: Fleet::of(1), place: 0 }
    }

    #[test]
    fn a_relay_starts_with_a_broken_outbox_beside_another_but_not_with_a_wrong_config() {
        let broken = |code| Some(Cause::new(code, "as the test says"));
        let (table, right) = (broken(Code::SchemaMissing), broken(Code::StoreBroken));
        let refused = |all: &[Option<Cause>]| refused(all).map(|cause| cause.code);
        assert_eq!(refused(&[None, None]), None);
        assert_eq!(refused(&[table.clone(), None]), None);
        assert_eq!(refused(&[right.clone(), table.clone()]), Some(Code::StoreBroken));
        assert_eq!(refused(&[table]), Some(Code::SchemaMissing));
        assert_eq!(refused(&[None, broken(Code::ConfigInvalid)]), Some(Code::ConfigInvalid));
    }

    #[tokio::test]
    async fn a_lane_that_panics_or_cannot_go_on_ends_the_relay_by_name() {
        for (panics, how) in [(true, "broke down"), (false, "ended: store-broken")] {
            let stop = CancellationToken::new();
            let (mut lanes, mut around) = (JoinSet::new(), JoinSet::new());
            lanes.spawn(run_lane(lane(panics), None, stop.clone()));
            let other = stop.clone();
            lanes.spawn(async move {
                other.cancelled().await;
                Ok(())
            });
            let failed = until_ended(&mut lanes, &mut around, &stop).await.unwrap();
            assert!(failed.starts_with("the lane from orders to stock "), "{failed}");
            assert!(failed.contains(how), "{failed}");
        }
    }
}
