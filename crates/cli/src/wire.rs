//! From the config to the rooms: sinks, and which topics go to which of them.

use std::sync::Arc;

use broker::gate::Gates;
use broker::stdout::Stdout;
use event::{Cause, Crowd, Durability, Sink, Topics};
use tokio_util::sync::CancellationToken;

use crate::config::sinks::Wiring;
use crate::config::{self, Config, Route};

/// Makes the sinks of one process. All that lead to one destination share its gate, and all that
/// write to standard output write to the same one, whichever outboxes they serve.
pub(crate) struct Sinks {
    gates: Gates,
    stdout: Stdout,
    stop: CancellationToken,
}

impl Sinks {
    /// Starts with none. They leave other relays their part, and offer nothing new after the stop.
    pub(crate) fn new(crowd: Crowd, stop: CancellationToken) -> Sinks {
        Sinks { gates: Gates::among(crowd), stdout: Stdout::new("", stop.clone()), stop }
    }

    /// Makes a sink for some topics of one outbox. Nothing is connected yet.
    pub(crate) fn sink(
        &self,
        sink: &config::Sink,
        outbox: &str,
        topics: &[Topics],
    ) -> Result<Arc<dyn Sink>, Cause> {
        let Sinks { gates, stdout, stop } = self;
        let gates = &gates.at(outbox);
        sink.kind.sink(&Wiring { gates, stdout, stop, outbox, topics })
    }
}

/// Makes a sink by itself, to look at it with all that leads there from an outbox, or from all of
/// them.
pub(crate) fn lone(
    config: &Config,
    sink: &config::Sink,
    outbox: Option<&str>,
) -> Result<Arc<dyn Sink>, Cause> {
    let outboxes = config.outboxes.iter().map(|outbox| outbox.name.as_str());
    let mut topics: Vec<Topics> = Vec::new();
    for name in outboxes.filter(|name| outbox.is_none_or(|outbox| outbox == *name)) {
        for planned in plan(config, name) {
            if planned.name() == sink.name && !topics.contains(&planned.topics) {
                topics.push(planned.topics);
            }
        }
    }
    Sinks::new(Crowd::default(), CancellationToken::new()).sink(sink, "look", &topics)
}

/// One lane: the sink, or none for what no route takes, and its topics.
pub(crate) struct Planned<'a> {
    /// The sink.
    pub(crate) sink: Option<&'a config::Sink>,
    /// What it takes.
    pub(crate) topics: Topics,
    /// What a receipt of the sink must be worth.
    pub(crate) demand: Option<Durability>,
    /// How many events a consumer group of the sink may be behind.
    pub(crate) lag_limit: Option<usize>,
}

impl Planned<'_> {
    /// Returns the sink's name, as the console shows it.
    pub(crate) fn name(&self) -> &str {
        self.sink.map_or("unrouted", |sink| &sink.name)
    }
}

/// Plans the lanes of an outbox: one for each sink that its routes name, and one for the rest.
pub(crate) fn plan<'a>(config: &'a Config, outbox: &str) -> Vec<Planned<'a>> {
    let fits = |route: &&Route| route.outbox.as_deref().is_none_or(|name| name == outbox);
    let routes: Vec<&Route> = config.routes.iter().filter(fits).collect();
    let named = |sink: &&config::Sink| routes.iter().any(|route| route.sink == sink.name);
    let mut plan: Vec<Planned<'a>> = Vec::new();
    for sink in config.sinks.iter().filter(named) {
        let flagged = routes.iter().map(|route| (route.topic.clone(), route.sink == sink.name));
        let demand = demand(config, &sink.name, Some(outbox));
        // A lane has one sink: the least that one of its topics allows counts for all.
        let here = routes.iter().filter(|route| route.sink == sink.name);
        let lag_limit = here.filter_map(|route| route.lag_limit).min();
        let topics = Topics::of(flagged.collect());
        plan.push(Planned { sink: Some(sink), topics, demand, lag_limit });
    }
    // After a route for everything there is no rest.
    if !routes.iter().any(|route| route.topic.to_string() == "*") {
        let topics = Topics::unrouted(routes.iter().map(|route| route.topic.clone()));
        plan.push(Planned { sink: None, topics, demand: None, lag_limit: None });
    }
    plan
}

/// Returns the most that the routes of an outbox, or of all of them, demand of a sink. A lane has
/// one sink, so what one of its topics needs counts for all. Every sink is worth the least.
pub(crate) fn demand(config: &Config, sink: &str, outbox: Option<&str>) -> Option<Durability> {
    let leads = |route: &&Route| route.sink == sink;
    let of = |route: &&Route| match (outbox, &route.outbox) {
        (Some(outbox), Some(named)) => named == outbox,
        _ => true,
    };
    let routes = config.routes.iter().filter(leads).filter(of);
    let most = routes.filter_map(|route| route.durability).max();
    most.filter(|demand| *demand > Durability::BestEffort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_of_an_outbox_has_exactly_one_lane() {
        let text = r#"
            [outbox.a]
            url = "sqlite:a"
            [outbox.b]
            url = "sqlite:b"
            [sink.one]
            kind = "stdout"
            [sink.two]
            kind = "stdout"
            [[route]]
            topic = "order.paid"
            sink = "two"
            [[route]]
            topic = "order.*"
            sink = "one"
            [[route]]
            topic = "*"
            sink = "two"
            outbox = "b"
        "#;
        let config = config::parse("test", text, []).unwrap();
        let takers = |outbox: &str, topic: &str| {
            let plan = plan(&config, outbox);
            let takers = plan.iter().filter(|planned| planned.topics.take(topic));
            takers.map(|planned| planned.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(takers("a", "order.paid"), ["two"]);
        assert_eq!(takers("a", "order.sent"), ["one"]);
        assert_eq!(takers("a", "stranger"), ["unrouted"]);
        assert_eq!(takers("b", "stranger"), ["two"]);
    }

    #[test]
    fn a_lane_demands_the_most_of_what_its_routes_do() {
        let text = r#"
            [outbox.a]
            url = "sqlite:a"
            [outbox.b]
            url = "sqlite:b"
            [sink.one]
            kind = "stdout"
            [[route]]
            topic = "order.paid"
            sink = "one"
            durability = "durable"
            [[route]]
            topic = "bill.*"
            sink = "one"
            outbox = "b"
            durability = "replicated"
            [[route]]
            topic = "*"
            sink = "one"
            durability = "best-effort"
        "#;
        let config = config::parse("test", text, []).unwrap();
        let of = |outbox: &str| plan(&config, outbox)[0].demand;
        assert_eq!((of("a"), of("b")), (Some(Durability::Durable), Some(Durability::Replicated)));
        assert_eq!(demand(&config, "one", None), Some(Durability::Replicated));
        let calm = config::parse("test", &text.replace("durable", "best-effort"), []).unwrap();
        assert_eq!(demand(&calm, "one", Some("a")), None, "every sink is worth that");
    }
}
