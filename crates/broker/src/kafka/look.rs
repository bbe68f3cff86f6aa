//! A look at a cluster: what its receipts are worth by its real settings, and what these risk.
//!
//! It asks only for the topics that it is told, and waits no longer than the timeout for each call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event::{Inspection, Refusal};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;

use super::access::Cluster;
use super::kept::{Kept, judge};
use super::lag;
use super::live::{aside, setting};
use super::refusal::refusal;

/// The setting that says how large a batch of a topic may be.
pub(super) const NAMED: &str = "max.message.bytes";

type Admin = AdminClient<DefaultClientContext>;

/// Whoever looks.
pub(super) struct Look {
    config: ClientConfig,
    hosts: String,
    timeout: Duration,
}

impl Look {
    pub(super) fn new(cluster: &Cluster, timeout: Duration) -> Look {
        let mut config = cluster.config(timeout);
        // Who looks makes no topic.
        config.set("allow.auto.create.topics", "false");
        Look { config, hosts: cluster.hosts.clone(), timeout }
    }

    /// Asks how many bytes a batch of a topic may have; `None` if it may not be asked.
    pub(super) async fn largest(&self, topic: &str) -> Option<usize> {
        let admin = self.admin().ok()?;
        let told = self.settings(&admin, &[ResourceSpecifier::Topic(topic)]).await;
        lay_down(admin);
        told.ok()?.first()?.as_ref()?.get(NAMED)?.value.as_ref()?.parse().ok()
    }

    /// Looks at topics; at what a new one would get if there are none.
    pub(super) async fn inspect(&self, topics: Vec<String>) -> Result<Inspection, Refusal> {
        let admin = Arc::new(self.admin()?);
        let (asked, names, timeout) = (Arc::clone(&admin), topics.clone(), self.timeout);
        let shapes = aside(move || shapes(&asked, &names, timeout));
        let shapes = shapes.await.unwrap_or(Err(RDKafkaErrorCode::OperationTimedOut));
        let shapes = shapes.map_err(|error| self.failed(error))?;
        let specifiers: Vec<_> = match topics.is_empty() {
            // Each broker is asked by itself; one stands for all.
            true => {
                shapes.brokers.iter().map(|id| ResourceSpecifier::Broker(*id)).take(1).collect()
            }
            false => topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect(),
        };
        let told = self.settings(&admin, &specifiers).await.map_err(|error| self.failed(error))?;
        let kept: Vec<Kept> = match topics.is_empty() {
            true => told.iter().map(|told| Kept::of_broker(told.as_ref())).collect(),
            false => {
                let each = topics.iter().zip(&told);
                let of = |(topic, told): (&String, &Option<ConfigResource>)| {
                    let replicas = shapes.replicas.get(topic).copied();
                    Kept::of_topic(topic, replicas, told.as_ref())
                };
                each.map(of).collect()
            }
        };
        let mut inspection = judge(&kept);
        let (config, timeout) = (self.config.clone(), self.timeout);
        let levels = aside(move || lag::levels(&config, &topics, &shapes.partitions, timeout));
        inspection.levels = levels.await.unwrap_or_default();
        lay_down(admin);
        Ok(inspection)
    }

    fn admin(&self) -> Result<Admin, Refusal> {
        self.config.create().map_err(|error| Refusal::Down(setting(&error)))
    }

    /// Asks for settings; `None` for each that may not be asked for.
    async fn settings(
        &self,
        admin: &Admin,
        of: &[ResourceSpecifier<'_>],
    ) -> Result<Vec<Option<ConfigResource>>, RDKafkaErrorCode> {
        let options = AdminOptions::new().request_timeout(Some(self.timeout));
        let told = admin.describe_configs(of, &options).await;
        let code = |error: rdkafka::error::KafkaError| {
            error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)
        };
        Ok(told.map_err(code)?.into_iter().map(Result::ok).collect())
    }

    /// A look offers nothing, so nothing of it may have arrived.
    fn failed(&self, error: RDKafkaErrorCode) -> Refusal {
        match refusal(error, &self.hosts) {
            Refusal::Unknown(cause) => Refusal::Down(cause),
            refusal => refusal,
        }
    }
}

/// The library waits for its threads, for which no caller has the time.
fn lay_down(admin: impl Send + 'static) {
    std::thread::spawn(move || drop(admin));
}

/// How topics are laid out over brokers.
struct Shapes {
    brokers: Vec<i32>,
    partitions: HashMap<String, Vec<i32>>,
    /// The fewest replicas of a partition, and the fewest in sync.
    replicas: HashMap<String, (usize, usize)>,
}

fn shapes(admin: &Admin, topics: &[String], timeout: Duration) -> Result<Shapes, RDKafkaErrorCode> {
    let mut shapes =
        Shapes { brokers: Vec::new(), partitions: HashMap::new(), replicas: HashMap::new() };
    let all = topics.iter().map(|topic| Some(topic.as_str()));
    let asked: Vec<_> = if topics.is_empty() { vec![None] } else { all.collect() };
    for topic in asked {
        let metadata = admin.inner().fetch_metadata(topic, timeout);
        let code = |error: rdkafka::error::KafkaError| {
            error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)
        };
        let metadata = metadata.map_err(code)?;
        shapes.brokers = metadata.brokers().iter().map(|broker| broker.id()).collect();
        let found = metadata.topics().iter().filter(|found| Some(found.name()) == topic);
        for found in found.filter(|found| found.error().is_none()) {
            let partitions = found.partitions();
            let fewest = |count: &dyn Fn(&rdkafka::metadata::MetadataPartition) -> usize| {
                partitions.iter().map(count).min().unwrap_or_default()
            };
            let replicas = (fewest(&|it| it.replicas().len()), fewest(&|it| it.isr().len()));
            let name = found.name().to_owned();
            let numbers = partitions.iter().map(|it| it.id()).collect();
            shapes.partitions.insert(name.clone(), numbers);
            shapes.replicas.insert(name, replicas);
        }
    }
    Ok(shapes)
}
