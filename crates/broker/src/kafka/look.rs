//! A look at a cluster: what its receipts are worth by its real settings, and what these risk.
//!
//! One client looks, for as long as the sink lives, and makes no topic. It waits no longer than the
//! timeout for each call.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Inspection, Refusal};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::access::Cluster;
use super::disk;
use super::kept::{Kept, judge};
use super::lag;
use super::live::{aside, setting};
use super::refusal::refusal;
use super::shape::Shapes;
use crate::leads::Leads;
use crate::rounds::Rounds;

/// The setting that says how large a batch of a topic may be.
pub(super) const NAMED: &str = "max.message.bytes";

/// Topics whose settings are asked for at once, at the most.
const PAGE: usize = 500;
/// How long a broker may take to tell of its groups and of the ends of its partitions, and of its
/// disks.
const TELL: Duration = Duration::from_secs(3);

type Admin = AdminClient<DefaultClientContext>;

/// Whoever looks.
pub(super) struct Look {
    cluster: Cluster,
    config: ClientConfig,
    timeout: Duration,
    admin: Mutex<Option<Arc<Admin>>>,
    rounds: Rounds,
}

impl Look {
    pub(super) fn new(cluster: &Cluster, timeout: Duration) -> Look {
        let mut config = cluster.config(timeout);
        config.set("allow.auto.create.topics", "false");
        let (admin, rounds) = (Mutex::default(), Rounds::default());
        Look { cluster: cluster.clone(), config, timeout, admin, rounds }
    }

    /// Asks how many bytes a batch of a topic may have; `None` if it may not be asked.
    pub(super) async fn largest(&self, topic: &str) -> Option<usize> {
        let admin = self.admin().ok()?;
        let told = self.settings(&admin, &[ResourceSpecifier::Topic(topic)]).await;
        told.ok()?.first()?.as_ref()?.get(NAMED)?.value.as_ref()?.parse().ok()
    }

    /// Looks at the settings of every topic that events go to, and at what a new one would get if
    /// one of them is not there.
    pub(super) async fn worth(
        &self,
        leads: &Leads,
        published: &[String],
    ) -> Result<Inspection, Refusal> {
        Ok(self.judged(leads, published).await?.0)
    }

    /// Looks at their settings, and at what they tell of their load.
    pub(super) async fn inspect(
        &self,
        leads: &Leads,
        published: &[String],
    ) -> Result<Inspection, Refusal> {
        let (mut seen, shapes, topics) = self.judged(leads, published).await?;
        let (way, patience) = (&self.cluster.way, self.timeout.min(TELL));
        let asking = lag::levels(&shapes, &topics, way, &self.rounds, patience, &mut seen);
        // Each on connections of its own: whoever is silent about one still tells the other.
        let ((), (level, findings)) =
            tokio::join!(asking, disk::look(&shapes.brokers, way, patience));
        seen.levels.extend(level);
        seen.findings.extend(findings);
        Ok(seen)
    }

    async fn judged(
        &self,
        leads: &Leads,
        published: &[String],
    ) -> Result<(Inspection, Shapes, BTreeSet<String>), Refusal> {
        let admin = self.admin()?;
        let judged = self.judged_by(&admin, leads, published).await;
        judged.map_err(|error| {
            // It may not find back to its cluster: the next look is by another.
            self.let_go(admin);
            self.failed(error)
        })
    }

    async fn judged_by(
        &self,
        admin: &Arc<Admin>,
        leads: &Leads,
        published: &[String],
    ) -> Result<(Inspection, Shapes, BTreeSet<String>), RDKafkaErrorCode> {
        let (asked, timeout) = (Arc::clone(admin), self.timeout);
        let told = aside(move || asked.inner().fetch_metadata(None, timeout));
        let told = told.await.unwrap_or(Err(KafkaError::Canceled)).map_err(|error| code(&error));
        let shapes = Shapes::read(&told?);
        let topics = shapes.led_to(leads, published);
        let (there, missing): (Vec<_>, Vec<_>) =
            topics.iter().partition(|topic| shapes.replicas(topic).is_some());
        let mut kept = Vec::new();
        for page in there.chunks(PAGE) {
            let asked: Vec<_> = page.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
            let told = self.settings(admin, &asked).await?;
            let each = page.iter().zip(&told);
            kept.extend(each.map(|(topic, told)| {
                Kept::of_topic(topic, shapes.replicas(topic).unwrap_or_default(), told.as_ref())
            }));
        }
        if there.is_empty() || !missing.is_empty() {
            // Each broker is asked by itself; one stands for all.
            let asked = shapes.brokers.keys().map(|id| ResourceSpecifier::Broker(*id));
            let asked: Vec<_> = asked.take(1).collect();
            let told = self.settings(admin, &asked).await?;
            kept.extend(told.iter().map(|told| Kept::of_broker(told.as_ref())));
        }
        Ok((judge(kept, &missing, &self.cluster.hosts), shapes, topics))
    }

    /// Ends the client that looks.
    pub(super) fn close(&self) {
        if let Some(admin) = self.kept().take() {
            end(admin);
        }
    }

    /// Ends a client, and keeps it no longer.
    fn let_go(&self, admin: Arc<Admin>) {
        drop(self.kept().take_if(|kept| Arc::ptr_eq(kept, &admin)));
        end(admin);
    }

    fn admin(&self) -> Result<Arc<Admin>, Refusal> {
        let mut kept = self.kept();
        if let Some(admin) = &*kept {
            return Ok(Arc::clone(admin));
        }
        let made: Admin = self.config.create().map_err(|error| Refusal::Down(setting(&error)))?;
        Ok(Arc::clone(kept.insert(Arc::new(made))))
    }

    fn kept(&self) -> MutexGuard<'_, Option<Arc<Admin>>> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for settings; `None` for each that may not be asked for.
    async fn settings(
        &self,
        admin: &Admin,
        of: &[ResourceSpecifier<'_>],
    ) -> Result<Vec<Option<ConfigResource>>, RDKafkaErrorCode> {
        let options = AdminOptions::new().request_timeout(Some(self.timeout));
        let told = admin.describe_configs(of, &options).await.map_err(|error| code(&error))?;
        Ok(told.into_iter().map(Result::ok).collect())
    }

    /// A look offers nothing, so nothing of it may have arrived.
    fn failed(&self, error: RDKafkaErrorCode) -> Refusal {
        match refusal(error, &self.cluster.hosts) {
            Refusal::Unknown(cause) => Refusal::Down(cause),
            refusal => refusal,
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.close();
    }
}

/// Ends a client. The library waits for its threads, for which no caller has the time.
fn end(admin: Arc<Admin>) {
    std::thread::spawn(move || drop(admin));
}

fn code(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)
}
