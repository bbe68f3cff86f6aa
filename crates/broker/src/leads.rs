//! Where events of a sink can go: which of a broker's own names its routes lead to.
//!
//! It knows patterns and names only. What is there, the broker is asked.

use std::collections::BTreeSet;

use event::{Pattern, Topics};

use crate::manner::Naming;

/// The names that events of a sink can get.
#[derive(Clone, Debug)]
pub(crate) struct Leads {
    topics: Vec<Topics>,
    naming: Naming,
    patterns: Vec<Pattern>,
    /// How the broker writes a name; `None` if as it is.
    spelling: Option<fn(&str) -> String>,
}

impl Leads {
    /// Finds the names of topics.
    #[cfg(any(test, feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
    pub(crate) fn new(naming: &Naming, topics: &[Topics]) -> Leads {
        Leads::spelled(naming, topics, None)
    }

    /// Finds the names of topics for a broker that does not take every character; it is told one
    /// part of a name at a time.
    pub(crate) fn spelled(
        naming: &Naming,
        topics: &[Topics],
        spelling: Option<fn(&str) -> String>,
    ) -> Leads {
        let spell = |pattern: Pattern| match spelling {
            None => pattern,
            Some(spelling) => {
                let text = pattern.to_string();
                let parts: Vec<String> = text.split('*').map(spelling).collect();
                parts.join("*").parse().expect("a pattern was spelled")
            }
        };
        let named = topics.iter().flat_map(Topics::patterns);
        let mut patterns: Vec<Pattern> = Vec::new();
        let any: Pattern = "*".parse().expect("a star is a pattern");
        // A name that is the same for every event is known without any route.
        let fixed = Some(naming.pattern(&any)).filter(|name| name.exact().is_some());
        for pattern in named.map(|pattern| naming.pattern(&pattern)).chain(fixed).map(spell) {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Leads { topics: topics.to_vec(), naming: naming.clone(), patterns, spelling }
    }

    /// Tells whether an event can get a name. Where it says which topic it is of, the first route
    /// of that topic decides.
    pub(crate) fn has(&self, name: &str) -> bool {
        if !self.patterns.iter().any(|pattern| pattern.matches(name)) {
            return false;
        }
        let Some((before, behind)) = self.naming.around().filter(|_| self.spelling.is_none())
        else {
            return true;
        };
        let topic = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
        topic.is_some_and(|topic| self.topics.iter().any(|topics| topics.take(topic)))
    }

    /// Returns the names that are known in full.
    pub(crate) fn exact(&self) -> BTreeSet<String> {
        let exact = self.patterns.iter().filter_map(Pattern::exact).map(str::to_owned);
        exact.filter(|name| self.has(name)).collect()
    }

    /// Tells whether there are others, which only the broker knows.
    #[cfg(any(test, feature = "nats", feature = "rabbitmq", feature = "redis"))]
    pub(crate) fn open(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.exact().is_none())
    }

    /// Tells whether it leads nowhere that is known yet.
    #[cfg(any(test, feature = "nats", feature = "rabbitmq"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Tells whether an event can get a name of a pattern, those that are known in full aside.
    #[cfg(feature = "nats")]
    pub(crate) fn meets(&self, pattern: &Pattern) -> bool {
        let mut open = self.patterns.iter().filter(|mine| mine.exact().is_none());
        match pattern.exact() {
            Some(name) => self.has(name),
            None => open.any(|mine| mine.meets(pattern)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(naming: &str, routes: &[(&str, bool)]) -> Leads {
        Leads::new(&Naming::new(naming).unwrap(), &[topics(routes)])
    }

    fn topics(routes: &[(&str, bool)]) -> Topics {
        let routes = routes.iter().map(|(pattern, mine)| (pattern.parse().unwrap(), *mine));
        Topics::of(routes.collect())
    }

    #[test]
    fn a_name_of_a_topic_that_an_earlier_route_takes_elsewhere_is_not_led_to() {
        let routes = [("order.paid", false), ("order.*", true), ("bill", true)];
        let own = leads("{topic}", &routes);
        assert!(own.has("order.sent") && own.has("bill") && own.open());
        assert!(!own.has("order.paid") && !own.has("stranger"));
        assert_eq!(own.exact(), ["bill".to_owned()].into());
        let shop = leads("shop.{topic}.v1", &routes);
        assert!(shop.has("shop.order.sent.v1") && !shop.has("shop.order.paid.v1"));
        assert!(!shop.has("order.sent"));
    }

    #[test]
    fn a_type_is_anything_and_a_fixed_name_is_known_without_routes() {
        let typed = leads("{topic}.{type}", &[("bill", true)]);
        assert!(typed.has("bill.Paid") && typed.open() && !typed.has("bill"));
        assert_eq!(typed.exact(), BTreeSet::new());
        let fixed = Leads::new(&Naming::new("all").unwrap(), &[]);
        assert!(fixed.has("all") && !fixed.has("any") && !fixed.open());
        assert_eq!(fixed.exact(), ["all".to_owned()].into());
        assert!(leads("{topic}", &[("a", false)]).is_empty());
    }

    #[test]
    fn a_name_is_spelled_as_the_broker_does() {
        let spell = |text: &str| text.replace('.', "_");
        let routes = [topics(&[("order.*", true), ("bill.paid", true)])];
        let spelled = Leads::spelled(&Naming::default(), &routes, Some(spell));
        assert!(spelled.has("order_sent") && !spelled.has("order.sent"));
        assert_eq!(spelled.exact(), ["bill_paid".to_owned()].into());
    }

    #[test]
    fn several_outboxes_lead_to_what_one_of_them_does() {
        let both = [topics(&[("a", true), ("*", false)]), topics(&[("b.*", true)])];
        let both = Leads::new(&Naming::default(), &both);
        assert!(both.has("a") && both.has("b.x") && !both.has("c"));
    }
}
