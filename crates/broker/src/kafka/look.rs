//! A look at a cluster: what its receipts are worth by its real settings, and what these risk.
//!
//! It asks only for the topics that it is told, and waits no longer than the timeout for each call.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use event::{Durability, Finding, Grade, Inspection, Refusal};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;

use super::access::Cluster;
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
        let config = cluster.config(timeout);
        Look { config, hosts: cluster.hosts.clone(), timeout }
    }

    /// Asks how many bytes a batch of a topic may have; `None` if it may not be asked.
    pub(super) async fn largest(&self, topic: &str) -> Option<usize> {
        let admin = self.admin().ok()?;
        let told = self.settings(&admin, &[ResourceSpecifier::Topic(topic)]).await.ok()?;
        lay_down(admin);
        told.first()?.as_ref()?.get(NAMED)?.value.as_ref()?.parse().ok()
    }

    /// Looks at topics; at what a new one would get if there are none.
    pub(super) async fn inspect(&self, topics: Vec<String>) -> Result<Inspection, Refusal> {
        let admin = Arc::new(self.admin()?);
        let (asked, names, timeout) = (Arc::clone(&admin), topics.clone(), self.timeout);
        let shapes = aside(move || shapes(&asked, &names, timeout));
        let shapes = shapes.await.unwrap_or(Err(RDKafkaErrorCode::OperationTimedOut));
        let shapes = shapes.map_err(|error| self.failed(error))?;
        let specifiers: Vec<_> = match topics.is_empty() {
            true => shapes.brokers.iter().map(|id| ResourceSpecifier::Broker(*id)).collect(),
            false => topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect(),
        };
        let told = self.settings(&admin, &specifiers).await.map_err(|error| self.failed(error))?;
        let kept: Vec<Kept> = match topics.is_empty() {
            true => told.iter().map(|told| Kept::of_broker(told.as_ref())).collect(),
            false => {
                let each = topics.iter().zip(&told);
                each.map(|(topic, told)| Kept::of_topic(topic, &shapes, told.as_ref())).collect()
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

/// How safely one topic keeps what it acknowledged, or a new one would.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    what: String,
    /// Replicas; none if that is not known.
    replicas: Option<usize>,
    in_sync: Option<usize>,
    least: Option<usize>,
    flushed: bool,
    unclean: bool,
    there: bool,
}

impl Kept {
    fn of_topic(topic: &str, shapes: &Shapes, told: Option<&ConfigResource>) -> Kept {
        let replicas = shapes.replicas.get(topic);
        Kept {
            what: format!("topic {topic}"),
            replicas: replicas.map(|it| it.0),
            in_sync: replicas.map(|it| it.1),
            least: number(told, "min.insync.replicas"),
            flushed: number(told, "flush.messages") == Some(1),
            unclean: value(told, "unclean.leader.election.enable") == Some("true"),
            there: replicas.is_some(),
        }
    }

    fn of_broker(told: Option<&ConfigResource>) -> Kept {
        Kept {
            what: "a new topic".to_owned(),
            replicas: number(told, "default.replication.factor"),
            in_sync: None,
            least: number(told, "min.insync.replicas"),
            flushed: number(told, "log.flush.interval.messages") == Some(1),
            unclean: value(told, "unclean.leader.election.enable") == Some("true"),
            there: true,
        }
    }

    /// With `acks=all` a receipt says that all replicas in sync have it, which are at least `least`.
    fn class(&self) -> Durability {
        match (self.replicas, self.least) {
            (Some(2..), Some(2..)) if !self.unclean => Durability::Replicated,
            _ if self.flushed => Durability::Durable,
            _ => Durability::BestEffort,
        }
    }

    fn finding(&self) -> Finding {
        let Kept { what, replicas, in_sync, least, .. } = self;
        let (has, asks) = (Known(*replicas), Known(*least));
        let (grade, detail) = match (replicas, least) {
            _ if !self.there => (
                Grade::Warn,
                "it is not there; its events back off until it is made, unless the cluster makes \
                 topics by itself"
                    .to_owned(),
            ),
            (_, None) => (
                Grade::Warn,
                "its settings may not be read: grant DescribeConfigs to this user, or nobody can \
                 tell what a receipt is worth"
                    .to_owned(),
            ),
            (Some(2..), Some(2..)) if self.unclean => (
                Grade::Warn,
                "unclean.leader.election.enable = true: a replica that lags may become leader, \
                 and acknowledged events are gone; set it to false"
                    .to_owned(),
            ),
            (Some(2..), Some(2..)) => match in_sync {
                Some(now) if Some(*now) < *least => (
                    Grade::Bad,
                    format!(
                        "{now} of {has} replicas are in sync, {asks} are asked for: it takes nothing"
                    ),
                ),
                _ => (
                    Grade::Good,
                    format!("{has} replicas, a receipt says that at least {asks} have it"),
                ),
            },
            (Some(2..), _) => (
                Grade::Warn,
                format!(
                    "{has} replicas, but min.insync.replicas = {asks}: a receipt may stand for one \
                     machine, whose loss loses the event; set it to 2"
                ),
            ),
            _ if self.flushed => (
                Grade::Good,
                format!(
                    "{has} replica, flushed before each receipt: the loss of its disk loses events"
                ),
            ),
            _ => (
                Grade::Warn,
                format!(
                    "{has} replica, written to its disk when the system likes: a killed broker \
                     loses nothing, but a machine that loses power loses acknowledged events; make it \
                     with a replication factor of 3 and min.insync.replicas = 2"
                ),
            ),
        };
        Finding::new(grade, what.clone(), detail)
    }
}

/// A number, or that nobody tells it.
struct Known(Option<usize>);

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("an unknown number of"),
        }
    }
}

/// The least of its topics is what a sink can promise.
fn judge(kept: &[Kept]) -> Inspection {
    let class = kept.iter().map(Kept::class).min().unwrap_or(Durability::BestEffort);
    let mut inspection = Inspection::of(class);
    inspection.findings = kept.iter().map(Kept::finding).collect();
    inspection.findings.dedup();
    inspection
}

fn value<'a>(told: Option<&'a ConfigResource>, name: &str) -> Option<&'a str> {
    told?.get(name)?.value.as_deref()
}

fn number(told: Option<&ConfigResource>, name: &str) -> Option<usize> {
    value(told, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(replicas: usize, least: usize) -> Kept {
        Kept {
            what: "topic t".to_owned(),
            replicas: Some(replicas),
            in_sync: Some(replicas),
            least: Some(least),
            flushed: false,
            unclean: false,
            there: true,
        }
    }

    #[test]
    fn only_two_replicas_that_must_have_it_are_replicated() {
        assert_eq!(kept(3, 2).class(), Durability::Replicated);
        assert_eq!(kept(3, 1).class(), Durability::BestEffort);
        assert_eq!(kept(1, 1).class(), Durability::BestEffort);
        assert_eq!(Kept { flushed: true, ..kept(1, 1) }.class(), Durability::Durable);
        assert_eq!(Kept { unclean: true, ..kept(3, 2) }.class(), Durability::BestEffort);
        assert_eq!(Kept { least: None, ..kept(3, 2) }.class(), Durability::BestEffort);
    }

    #[test]
    fn a_finding_says_what_to_set() {
        let said = |kept: Kept| (kept.finding().grade, kept.finding().detail);
        assert_eq!(said(kept(3, 2)).0, Grade::Good);
        let (grade, detail) = said(kept(3, 1));
        assert!(grade == Grade::Warn && detail.contains("set it to 2"), "{detail}");
        let (grade, detail) = said(kept(1, 1));
        assert!(grade == Grade::Warn && detail.contains("factor of 3"), "{detail}");
        let (grade, detail) = said(Kept { in_sync: Some(1), ..kept(3, 2) });
        assert!(grade == Grade::Bad && detail.contains("takes nothing"), "{detail}");
        let (grade, detail) = said(Kept { least: None, ..kept(3, 2) });
        assert!(grade == Grade::Warn && detail.contains("DescribeConfigs"), "{detail}");
    }

    #[test]
    fn the_least_of_the_topics_counts() {
        let inspection = judge(&[kept(3, 2), Kept { flushed: true, ..kept(1, 1) }]);
        assert_eq!((inspection.durability, inspection.findings.len()), (Durability::Durable, 2));
        assert_eq!(judge(&[]).durability, Durability::BestEffort);
    }
}
