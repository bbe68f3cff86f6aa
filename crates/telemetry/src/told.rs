//! What the log was told of a destination already, so that it is told each thing once.

use std::collections::BTreeMap;

use event::{Finding, Grade};

/// By what was found: how bad the worst of it was, and how many there were of it.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<String, (Grade, usize)>);

/// What is new since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News<'a> {
    /// What did not work, and does again.
    pub(crate) over: Vec<String>,
    /// What was not told, or was less bad, or of fewer brokers or topics.
    pub(crate) fresh: Vec<&'a Finding>,
}

impl Told {
    /// Takes in what a look found. A weak setting is told once, and what does not work whenever
    /// that begins and ends.
    pub(crate) fn news<'a>(&mut self, findings: &'a [Finding]) -> News<'a> {
        let mut now: BTreeMap<&str, (Grade, usize)> = BTreeMap::new();
        for Finding { grade, what, .. } in findings {
            let (worst, count) = now.entry(what).or_insert((*grade, 0));
            (*worst, *count) = ((*worst).max(*grade), *count + 1);
        }
        let mut over = Vec::new();
        self.0.retain(|what, (known, _)| {
            let lasts = now.get(&**what).is_some_and(|(worst, _)| *worst == Grade::Bad);
            let ends = *known == Grade::Bad && !lasts;
            over.extend(ends.then(|| what.clone()));
            !ends
        });
        now.retain(|what, told| self.0.get(*what).is_none_or(|known| *known < *told));
        self.0.extend(now.iter().map(|(what, told)| ((*what).to_owned(), *told)));
        let fresh = findings.iter().filter(|finding| now.contains_key(&*finding.what)).collect();
        News { over, fresh }
    }
}

#[cfg(test)]
mod tests {
    use Grade::{Bad, Warn};

    use super::*;

    fn found(all: &[(Grade, &str, &str)]) -> Vec<Finding> {
        all.iter().map(|(grade, what, detail)| Finding::new(*grade, *what, *detail)).collect()
    }

    #[test]
    fn all_warnings_of_one_look_are_told_and_each_once() {
        let mut told = Told::default();
        let both = found(&[(Warn, "flush", "broker-a"), (Warn, "flush", "broker-b")]);
        assert_eq!(told.news(&both).fresh.len(), 2);
        assert_eq!(told.news(&both), News::default());
        assert_eq!(told.news(&both[..1]), News::default(), "one less is no news");
        assert_eq!(told.news(&both), News::default(), "nor is the same one again");
        let more = [both, found(&[(Warn, "flush", "broker-c")])].concat();
        assert_eq!(told.news(&more).fresh.len(), 3, "one more is");
    }

    #[test]
    fn what_does_not_work_is_told_when_it_begins_and_when_it_ends() {
        let mut told = Told::default();
        let weak = found(&[(Warn, "copies", "one may be lost")]);
        let bad = found(&[(Bad, "copies", "a slave is away"), (Warn, "copies", "another")]);
        assert_eq!(told.news(&weak).fresh.len(), 1);
        assert_eq!(told.news(&bad).fresh.len(), 2, "it got worse");
        assert_eq!(told.news(&bad), News::default());
        let news = told.news(&[]);
        assert_eq!((news.over, news.fresh), (vec!["copies".to_owned()], vec![]));
        assert_eq!(told.news(&[]), News::default());
        assert_eq!(told.news(&bad).fresh.len(), 2, "it begins again");
    }
}
