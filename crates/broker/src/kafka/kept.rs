//! How safely a topic keeps what it acknowledged, by its settings, and what to set instead.
//!
//! Pure: the settings were asked for elsewhere.

use event::{Durability, Finding, Grade, Inspection};
use rdkafka::admin::ConfigResource;

/// Topics that findings are told of: more than this nobody reads. All are judged.
const TOLD: usize = 100;

/// How safely one topic keeps what it acknowledged, or a new one would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    what: String,
    /// Replicas; none if that is not known.
    replicas: Option<usize>,
    in_sync: Option<usize>,
    least: Option<usize>,
    flushed: bool,
    unclean: bool,
}

impl Kept {
    /// Reads a topic's settings; `replicas` are the fewest of a partition, and the fewest in sync.
    pub(super) fn of_topic(
        topic: &str,
        replicas: (usize, usize),
        told: Option<&ConfigResource>,
    ) -> Kept {
        Kept {
            what: format!("topic {topic}"),
            replicas: Some(replicas.0),
            in_sync: Some(replicas.1),
            least: number(told, "min.insync.replicas"),
            flushed: number(told, "flush.messages") == Some(1),
            unclean: value(told, "unclean.leader.election.enable") == Some("true"),
        }
    }

    /// Reads what a broker gives a new topic.
    pub(super) fn of_broker(told: Option<&ConfigResource>) -> Kept {
        Kept {
            what: "a new topic".to_owned(),
            replicas: number(told, "default.replication.factor"),
            in_sync: None,
            least: number(told, "min.insync.replicas"),
            flushed: number(told, "log.flush.interval.messages") == Some(1),
            unclean: value(told, "unclean.leader.election.enable") == Some("true"),
        }
    }

    /// With `acks=all` a receipt says that all replicas in sync have it: at least `least`.
    fn class(&self) -> Durability {
        match (self.replicas, self.least) {
            (Some(2..), Some(2..)) if !self.unclean => Durability::Replicated,
            _ if self.flushed => Durability::Durable,
            _ => Durability::BestEffort,
        }
    }

    fn finding(&self) -> Finding {
        let (grade, detail) = match (self.replicas, self.least) {
            (_, None) => (Grade::Warn, CLOSED.to_owned()),
            (Some(2..), Some(2..)) if self.unclean => (Grade::Warn, UNCLEAN.to_owned()),
            (Some(has @ 2..), Some(asks @ 2..)) => match self.in_sync {
                Some(now) if now < asks => (Grade::Bad, too_few(now, has, asks)),
                _ => (Grade::Good, format!("{has} replicas, of which {asks} have it by a receipt")),
            },
            (Some(has @ 2..), Some(asks)) => (Grade::Warn, one_may_do(has, asks)),
            _ if self.flushed => (Grade::Good, FLUSHED.to_owned()),
            _ => (Grade::Warn, ALONE.to_owned()),
        };
        Finding::new(grade, self.what.clone(), detail)
    }
}

const CLOSED: &str = "its settings may not be read: grant DescribeConfigs to this user, or nobody \
                      can tell what a receipt is worth";
const UNCLEAN: &str = "unclean.leader.election.enable = true: a replica that lags may become \
                       leader, and acknowledged events are gone; set it to false";
const FLUSHED: &str = "one replica, on its disk before each receipt: only the loss of the disk \
                       loses events";
const ALONE: &str = "one replica, written to its disk when the system likes: a killed broker loses \
                     nothing, but a machine that loses power loses acknowledged events; make it \
                     with a replication factor of 3 and min.insync.replicas = 2";

fn too_few(now: usize, has: usize, asks: usize) -> String {
    format!("{now} of {has} replicas are in sync, and {asks} must be: it takes nothing")
}

fn one_may_do(has: usize, asks: usize) -> String {
    format!(
        "{has} replicas, but min.insync.replicas = {asks}: a receipt may stand for one machine, \
         whose loss loses the event; set it to 2"
    )
}

/// Judges topics, all of them: the least is what a sink can promise. Says what to know of the
/// weakest, and which are missing at these `hosts`.
pub(super) fn judge(mut kept: Vec<Kept>, missing: &[&String], hosts: &str) -> Inspection {
    let grade = |kept: &Kept| std::cmp::Reverse(kept.finding().grade);
    kept.sort_by_key(|kept| (kept.class(), grade(kept)));
    let class = kept.first().map_or(Durability::BestEffort, Kept::class);
    let mut inspection = Inspection::of(class);
    let findings = &mut inspection.findings;
    findings.extend(missing.iter().take(TOLD).map(|topic| absent(topic, hosts)));
    findings.extend(kept.iter().take(TOLD).map(Kept::finding));
    let more = missing.len().saturating_sub(TOLD);
    if more > 0 {
        let detail = format!("{more} more are not there");
        findings.push(Finding::new(Grade::Warn, "missing topics", detail));
    }
    let more = kept.len().saturating_sub(TOLD);
    if more > 0 {
        let detail = format!("{more} more, of which none is worth less than these");
        findings.push(Finding::new(Grade::Good, "topics", detail));
    }
    inspection
}

fn absent(topic: &str, hosts: &str) -> Finding {
    let detail = format!(
        "it is not there; its events back off until it is made, unless the cluster makes topics by \
         itself: kafka-topics.sh --bootstrap-server {hosts} --create --topic {topic} \
         --replication-factor 3 --config min.insync.replicas=2"
    );
    Finding::new(Grade::Warn, format!("topic {topic}"), detail)
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
    fn the_least_of_the_topics_counts_however_many_there_are() {
        let flushed = || Kept { flushed: true, ..kept(1, 1) };
        let inspection = judge(vec![kept(3, 2), flushed()], &[], "a:1");
        assert_eq!((inspection.durability, inspection.findings.len()), (Durability::Durable, 2));
        assert_eq!(judge(vec![], &[], "a:1").durability, Durability::BestEffort);
        let mut many = vec![kept(3, 2); TOLD + 20];
        many.push(flushed());
        let inspection = judge(many, &[], "a:1");
        assert_eq!(inspection.durability, Durability::Durable, "the last of them is judged");
        assert_eq!(inspection.findings[0].detail, FLUSHED, "and told first");
        let rest = inspection.findings.last().unwrap();
        assert!(rest.detail.starts_with("21 more"), "{rest:?}");
    }

    #[test]
    fn a_topic_that_is_not_there_is_told_with_how_to_make_it() {
        let inspection = judge(vec![kept(3, 2)], &[&"bill".to_owned()], "a:1,b:2");
        assert_eq!(inspection.durability, Durability::Replicated, "it has taken nothing");
        let found = &inspection.findings[0];
        let command = "kafka-topics.sh --bootstrap-server a:1,b:2 --create --topic bill ";
        assert!(found.grade == Grade::Warn && found.detail.contains(command), "{found:?}");
        let many: Vec<String> = (0..TOLD + 2).map(|n| n.to_string()).collect();
        let inspection = judge(vec![kept(3, 2)], &many.iter().collect::<Vec<_>>(), "a:1");
        let said = inspection.findings.iter().filter(|found| found.what.ends_with("topics"));
        let said: Vec<&str> = said.map(|found| found.detail.as_str()).collect();
        assert_eq!(said, ["2 more are not there"]);
    }
}
