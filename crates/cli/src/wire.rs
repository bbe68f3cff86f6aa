//! From the config to the rooms: sinks, and which topics go to which of them.

use std::sync::Arc;

use broker::gate::Gates;
use broker::http::{Http, Mode, Options};
use broker::stdout::Stdout;
use event::{Cause, Sink, Topics};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config, Kind, Route};

/// Makes the sinks of one process. All that lead to one destination share its gate, and all that
/// write to standard output write to the same one, whichever outboxes they serve.
pub(crate) struct Sinks {
    gates: Gates,
    stdout: Stdout,
    stop: CancellationToken,
}

impl Sinks {
    /// Starts with none. After the stop they offer nothing new.
    pub(crate) fn new(stop: CancellationToken) -> Sinks {
        Sinks { gates: Gates::default(), stdout: Stdout::new("", stop.clone()), stop }
    }

    /// Makes a sink for the events of one outbox. Nothing is connected yet.
    pub(crate) fn sink(&self, sink: &config::Sink, outbox: &str) -> Result<Arc<dyn Sink>, Cause> {
        let http = match &sink.kind {
            Kind::Stdout => return Ok(Arc::new(self.stdout.of(outbox))),
            Kind::Http(http) => http,
        };
        let headers = http.headers.iter();
        let headers = headers.map(|(name, sealed)| (name.clone(), sealed.value.clone()));
        let options = Options {
            mode: if http.structured { Mode::Structured } else { Mode::Binary },
            timeout: http.timeout,
            stop: self.stop.clone(),
            secrets: http.secrets.iter().map(|sealed| sealed.value.clone()).collect(),
            headers: headers.collect(),
            allow_private: http.allow_private,
            concurrency: http.concurrency,
            gates: self.gates.clone(),
            ..Options::new(http.url.reveal(), outbox)
        };
        Ok(Arc::new(Http::new(options)?))
    }
}

/// Makes a sink by itself, to look at it.
pub(crate) fn sink(sink: &config::Sink, outbox: &str) -> Result<Arc<dyn Sink>, Cause> {
    Sinks::new(CancellationToken::new()).sink(sink, outbox)
}

/// One lane: the sink, or none for what no route takes, and its topics.
pub(crate) struct Planned<'a> {
    /// The sink.
    pub(crate) sink: Option<&'a config::Sink>,
    /// What it takes.
    pub(crate) topics: Topics,
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
        plan.push(Planned { sink: Some(sink), topics: Topics::of(flagged.collect()) });
    }
    // After a route for everything there is no rest.
    if !routes.iter().any(|route| route.topic.to_string() == "*") {
        let topics = Topics::unrouted(routes.iter().map(|route| route.topic.clone()));
        plan.push(Planned { sink: None, topics });
    }
    plan
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
}
