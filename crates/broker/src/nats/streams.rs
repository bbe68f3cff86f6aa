//! Which streams take the events: the one that is named, or those with a subject that routes lead
//! to. Nobody tells what has no such stream.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::jetstream::stream::Info;
use event::{Finding, Grade, Inspection, Pattern};

use super::dead_subject;
use crate::leads::Leads;

/// Where events go.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    /// The stream that must take them; any stream if there is none.
    pub(super) stream: Option<&'a str>,
    pub(super) leads: &'a Leads,
    /// Subjects that had events.
    pub(super) published: BTreeSet<String>,
}

impl Ways<'_> {
    /// Returns the subjects that are known in full.
    pub(super) fn subjects(&self) -> BTreeSet<String> {
        self.published.union(&self.leads.exact()).cloned().collect()
    }

    /// Tells whether events can go to a subject.
    pub(super) fn have(&self, subject: &str) -> bool {
        self.published.contains(subject) || self.leads.has(subject)
    }

    /// Returns the subjects that none of these streams takes.
    pub(super) fn untaken(&self, all: &BTreeMap<String, Info>) -> BTreeSet<String> {
        let filters = || all.values().flat_map(|info| &info.config.subjects);
        let mut subjects = self.subjects();
        subjects.retain(|subject| !filters().any(|filter| takes(filter, subject)));
        subjects
    }

    /// Picks the streams that take the events out of all that tell, and says what is missing, and
    /// what is `away`: streams that do not tell, by their names or by the subjects that they take.
    pub(super) fn pick<'a>(
        &self,
        all: &'a BTreeMap<String, Info>,
        away: &BTreeMap<String, String>,
        seeing: &mut Inspection,
    ) -> BTreeMap<&'a str, &'a Info> {
        let named = |(name, info): (&'a String, &'a Info)| (name.as_str(), info);
        let mut say = |grade, what: &str, missing: &str| {
            let detail = match away.get(what) {
                Some(stream) => gone(stream),
                None => missing.to_owned(),
            };
            seeing.findings.push(Finding::new(grade, what, detail));
        };
        if let Some(stream) = self.stream {
            if !all.contains_key(stream) {
                let detail = "this stream is not there: make it, or mend `stream` of the sink";
                say(Grade::Bad, stream, detail);
            }
            return all.iter().filter(|(name, _)| *name == stream).map(named).collect();
        }
        let subjects = self.subjects();
        for subject in &self.untaken(all) {
            let went = self.published.contains(subject) || away.contains_key(subject);
            let grade = if went { Grade::Bad } else { Grade::Warn };
            let detail =
                "no stream takes this subject, and its events back off: make one that does";
            say(grade, subject, detail);
        }
        let unknown = self.leads.is_empty() && self.published.is_empty();
        let taken = |(name, info): &(&String, &Info)| {
            !is_own(name) && (unknown || self.lead_to(&subjects, &info.config.subjects))
        };
        all.iter().filter(taken).map(named).collect()
    }

    /// Tells whether a stream is named, or takes a subject that is known in full. Another may be
    /// that of others, who have subjects of the same pattern.
    pub(super) fn name(&self, filters: &[String]) -> bool {
        let subjects = self.subjects();
        let known = |filter: &String| subjects.iter().any(|subject| takes(filter, subject));
        self.stream.is_some() || filters.iter().any(known)
    }

    fn lead_to(&self, subjects: &BTreeSet<String>, filters: &[String]) -> bool {
        let of = |filter: &String| {
            let dead = filter == "dead" || filter.ends_with(".dead");
            let known = subjects.iter().any(|subject| takes(filter, subject));
            // The place of the dead takes what groups give up.
            known || !dead && self.leads.meets(&pattern(filter))
        };
        filters.iter().any(of)
    }
}

/// Says that a stream is away.
pub(super) fn gone(stream: &str) -> String {
    format!("none of the servers of its stream {stream} answers: bring them back")
}

/// Tells whether the server or a library keeps its own things there, such as buckets of keys.
pub(super) fn is_own(stream: &str) -> bool {
    ["KV_", "OBJ_", "$"].iter().any(|start| stream.starts_with(start))
}

/// Returns by which subjects the dead of a stream can be asked for, each of which is a place or a
/// star; a stream that takes no dead has none.
pub(super) fn graves(filters: &[String]) -> BTreeSet<String> {
    /// Words that a subject has at the most.
    const DEEPEST: usize = 8;
    let any: Pattern = dead_subject("*").parse().expect("it is a pattern");
    let mut asked = BTreeSet::new();
    for filter in filters.iter().filter(|filter| pattern(filter).meets(&any)) {
        let words = filter.split('.').count();
        let deepest = if filter.ends_with('>') { DEEPEST.max(words) } else { words };
        asked.extend((words.max(2)..=deepest.max(2)).map(|words| {
            let stars = vec!["*"; words - 1];
            dead_subject(&stars.join("."))
        }));
    }
    asked
}

/// Tells whether a stream with such a subject takes a subject.
pub(super) fn takes(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some(word), Some(other)) if word == "*" || word == other => {}
            _ => return false,
        }
    }
}

/// Returns the pattern of the subjects, or of a few more: here a star goes over words, too.
fn pattern(filter: &str) -> Pattern {
    let words = filter.split('.').map(|word| if word == ">" { "*" } else { word });
    let text = words.collect::<Vec<_>>().join(".");
    text.parse().unwrap_or_else(|_| "*".parse().expect("a star is a pattern"))
}

#[cfg(test)]
mod tests {
    use event::Topics;

    use super::*;
    use crate::manner::Naming;

    #[test]
    fn a_stream_takes_what_its_subjects_say() {
        for (filter, fits, not) in [
            ("order.*", "order.paid", "order.paid.late"),
            ("order.>", "order.paid.late", "order"),
            ("*.dead", "order.dead", "order.paid.dead"),
            ("order", "order", "orders"),
        ] {
            assert!(takes(filter, fits) && !takes(filter, not), "{filter}");
        }
    }

    #[test]
    fn events_go_to_streams_that_routes_meet_and_not_to_the_place_of_the_dead() {
        let routes = ["order.*", "bill"].map(|route| (route.parse().unwrap(), true));
        let leads = Leads::new(&Naming::default(), &[Topics::of(routes.into())]);
        let ways = Ways { stream: None, leads: &leads, published: ["old".to_owned()].into() };
        let lead = |filter: &str| ways.lead_to(&ways.subjects(), &[filter.to_owned()]);
        assert!(lead("order.>") && lead("*.paid") && lead("bill") && lead("old") && lead(">"));
        assert!(!lead("*.dead") && !lead("stock.*") && !lead("bill.*"));
        assert!(ways.have("order.paid") && ways.have("old") && !ways.have("stock"));
        let name = |filter: &str| ways.name(&[filter.to_owned()]);
        assert!(name("bill") && name("old") && !name("order.>"), "that may be of others");
        let exactly = Ways { stream: Some("ORDERS"), published: BTreeSet::new(), ..ways };
        assert!(exactly.name(&["order.>".to_owned()]));
    }

    #[test]
    fn the_dead_are_asked_for_as_deep_as_a_stream_has_them() {
        let asked = |filter: &str| Vec::from_iter(graves(&[filter.to_owned()]));
        assert_eq!(asked("order.dead"), ["*.dead"]);
        assert_eq!(asked("*.*.dead"), ["*.*.dead"]);
        assert_eq!(asked("order.*"), ["*.dead"]);
        assert_eq!(asked("order.paid"), [""; 0]);
        assert_eq!(asked("order.>").len(), 7);
    }
}
