//! What receipts of RabbitMQ are worth, by the queues that events go to, and what their settings
//! risk.
//!
//! A confirmed, persistent event in a durable queue is on a disk; in a quorum queue or a stream of
//! several members it is on several. Without the management plugin nobody tells which it is.

use std::collections::BTreeSet;

use event::{Durability, Finding, Gauge, Grade, Inspection, Level, Refusal};
use serde_json::Value;

pub(super) use super::management::Management;
use super::reach::{self, Reach};
use crate::leads::Leads;

/// Queues that findings are told of: more than this nobody reads. All are judged.
const TOLD: usize = 100;
/// Queues that are asked for by name at the most.
const NAMED: usize = 100;
/// How near a disk may come to its limit.
const FULL: f64 = 0.8;

/// Returns what is known without the management plugin.
pub(super) fn unmanaged() -> Inspection {
    let detail = "published persistent, mandatory and confirmed. Whether the queues are durable, \
                  replicated and read is not known: set management to the address of the \
                  management plugin";
    let finding = Finding::new(Grade::Warn, "queues", detail);
    Inspection { findings: vec![finding], ..Inspection::of(Durability::BestEffort) }
}

/// What the plugin told.
#[derive(Debug, Default)]
struct Told {
    overview: Value,
    nodes: Vec<Value>,
    queues: Vec<Value>,
    /// Where events go. Without it, every queue can get one.
    reach: Option<Reach>,
    /// Whether there are queues that nobody has looked at.
    more: bool,
    /// Queues that were asked for by name, and that are not there.
    missing: Vec<String>,
}

impl Management {
    /// Looks at the broker, and at the queues that events of an exchange go to. By the empty one
    /// they go to the queues that routes lead to.
    pub(super) async fn inspect(
        &self,
        vhost: &str,
        exchange: &str,
        leads: &Leads,
    ) -> Result<Inspection, Refusal> {
        let overview = self.get(&["overview"], "").await?.unwrap_or_default();
        let nodes = match self.get(&["nodes"], "").await? {
            Some(Value::Array(nodes)) => nodes,
            _ => Vec::new(),
        };
        let (queues, all) = self.queues(vhost).await?;
        let reach = match exchange {
            "" => (!leads.is_empty()).then(|| by_name(leads, &queues)),
            name => {
                let bindings = |name: String| async move { self.bindings(vhost, &name).await };
                Some(reach::of(name, bindings).await?)
            }
        };
        let mut told = Told { overview, nodes, queues, reach, more: !all, missing: Vec::new() };
        told.name(|name| async move { self.get(&["queues", vhost, &name], "").await }).await?;
        if exchange.is_empty() {
            // Beyond the pages there may be others that a route leads to.
            told.more |= !all && leads.open();
        } else {
            // Nothing is bound to a queue that is gone meanwhile.
            told.missing.clear();
        }
        Ok(judge(&told))
    }
}

impl Told {
    /// Asks by name for queues that events go to and that were not among the pages. What was not
    /// asked for may be there.
    async fn name<Asked>(&mut self, get: impl Fn(String) -> Asked) -> Result<(), Refusal>
    where
        Asked: Future<Output = Result<Option<Value>, Refusal>>,
    {
        let Some(reach) = &self.reach else { return Ok(()) };
        let known: BTreeSet<&str> = self.queues.iter().map(|queue| text(queue, "name")).collect();
        let unknown = reach.queues.iter().filter(|name| !known.contains(name.as_str()));
        let unknown: Vec<String> = unknown.cloned().collect();
        self.more = unknown.len() > NAMED;
        for name in unknown.into_iter().take(NAMED) {
            match get(name.clone()).await? {
                Some(queue) => self.queues.push(queue),
                None => self.missing.push(name),
            }
        }
        Ok(())
    }
}

/// Returns the queues that routes lead to by their names; a place of the dead is none of them.
fn by_name(leads: &Leads, queues: &[Value]) -> Reach {
    let dead: BTreeSet<String> =
        queues.iter().filter_map(|queue| setting(queue, "dead-letter-routing-key")).collect();
    let names = queues.iter().map(|queue| text(queue, "name"));
    let led = names.filter(|name| leads.has(name) && !dead.contains(*name)).map(str::to_owned);
    Reach { queues: led.chain(leads.exact()).collect(), further: false }
}

/// Judges what the plugin told. A queue that nobody has looked at may be the weakest.
fn judge(told: &Told) -> Inspection {
    let Told { overview, nodes, queues, reach, more, missing } = told;
    let version = text(overview, "rabbitmq_version");
    let said = format!("RabbitMQ {version}, {} nodes", nodes.len());
    let mut findings = vec![Finding::new(Grade::Good, "broker", said)];
    findings.extend(nodes.iter().flat_map(of_node));
    let gets = |queue: &&Value| {
        reach.as_ref().is_none_or(|reach| reach.queues.contains(text(queue, "name")))
    };
    let mut bound: Vec<&Value> = queues.iter().filter(gets).collect();
    // Those that the class hangs on are told in any case.
    bound.sort_by_key(|queue| class(queue));
    let mut unknown =
        |what: &str, detail: &str| findings.push(Finding::new(Grade::Warn, what, detail));
    if bound.is_empty() {
        let detail = "no queue is bound: every event comes back as topic-missing; bind one";
        unknown("queues", detail);
    }
    for name in missing {
        let detail = "there is no queue of this name, and its events come back as topic-missing: \
                      declare it";
        unknown(name, detail);
    }
    let further = reach.as_ref().is_some_and(|reach| reach.further);
    if further {
        unknown("exchange", "it leads on to more exchanges than are looked at: bind queues to it");
    }
    if *more {
        unknown("queues", "there are more queues than are looked at: use an exchange with fewer");
    }
    let weakest = bound.first().map(|queue| class(queue));
    let class = weakest.filter(|_| !further && !more).unwrap_or(Durability::BestEffort);
    let shown = &bound[..bound.len().min(TOLD)];
    findings.extend(shown.iter().flat_map(|queue| of_queue(queue)));
    let mut levels = levels(&bound, queues);
    levels.extend(nodes.iter().filter_map(disk).reduce(f64::max).map(|value| {
        let (topic, group) = (String::new(), String::new());
        Level { gauge: Gauge::Disk, topic, group, value }
    }));
    Inspection { durability: class, findings, levels }
}

/// Returns how near the disk of a node is to its limit, at which nobody may publish. RabbitMQ does
/// not tell how large a disk is.
fn disk(node: &Value) -> Option<f64> {
    let (free, limit) = (node["disk_free"].as_f64()?, node["disk_free_limit"].as_f64()?);
    Some(if free > limit { limit / free } else { 1.0 })
}

fn of_node(node: &Value) -> Vec<Finding> {
    let name = format!("node {}", text(node, "name"));
    let mut findings = Vec::new();
    let mut tell = |grade, detail: &str| findings.push(Finding::new(grade, &*name, detail));
    if node["running"] == Value::Bool(false) {
        tell(Grade::Bad, "it does not run");
    }
    if flag(node, "disk_free_alarm") {
        tell(Grade::Bad, "its disk is nearly full, and nobody may publish: make room");
    } else if disk(node).is_some_and(|near| near > FULL) {
        let detail = "its disk is near disk_free_limit, where nobody may publish: make room";
        tell(Grade::Warn, detail);
    }
    if flag(node, "mem_alarm") {
        let detail = "its memory is used up, and nobody may publish: find the queue that is not \
                      read";
        tell(Grade::Bad, detail);
    }
    if node["partitions"].as_array().is_some_and(|cut| !cut.is_empty()) {
        tell(Grade::Bad, "it is cut off from others of its cluster");
    }
    findings
}

fn class(queue: &Value) -> Durability {
    let replicated = matches!(text(queue, "type"), "quorum" | "stream") && members(queue) >= 2;
    match flag(queue, "durable") && !flag(queue, "exclusive") {
        false => Durability::BestEffort,
        true if replicated => Durability::Replicated,
        true => Durability::Durable,
    }
}

fn of_queue(queue: &Value) -> Vec<Finding> {
    let name = format!("queue {}", text(queue, "name"));
    let mut findings = Vec::new();
    let mut tell = |grade, detail: &str| findings.push(Finding::new(grade, &*name, detail));
    let (kind, members, online) = (text(queue, "type"), members(queue), count(queue, "online"));
    match class(queue) {
        Durability::BestEffort => {
            tell(Grade::Bad, "it is not durable: a restart loses it; declare it durable");
        }
        Durability::Durable if kind == "classic" => {
            let detail = "it is classic, on the disk of one node: the loss of that node loses it; \
                          a quorum queue is on several";
            tell(Grade::Warn, detail);
        }
        Durability::Durable => tell(Grade::Warn, "it has one member: grow it to three"),
        Durability::Replicated => {}
    }
    if members > 0 && online * 2 <= members {
        tell(Grade::Bad, "the majority of its members is away: it takes nothing in");
    }
    let limited = setting(queue, "max-length").or(setting(queue, "max-length-bytes"));
    let drops = !setting(queue, "overflow").is_some_and(|it| it.starts_with("reject-publish"));
    if limited.is_some() && drops && kind != "stream" {
        let detail = "at its limit it drops its oldest events: set overflow to reject-publish";
        tell(Grade::Bad, detail);
    }
    if setting(queue, "message-ttl").is_some() {
        tell(Grade::Warn, "events that are not read in time expire (message-ttl)");
    }
    let is_dead_place = text(queue, "name").ends_with(".dead");
    if kind == "quorum" && setting(queue, "dead-letter-exchange").is_none() && !is_dead_place {
        let detail = "it has no dead-letter exchange: what fails too often (delivery-limit, 20 in \
                      4.x) is dropped";
        tell(Grade::Warn, detail);
    }
    let strategy = setting(queue, "dead-letter-strategy");
    let leaves = setting(queue, "dead-letter-exchange").is_some();
    if kind == "quorum" && leaves && strategy.as_deref() != Some("at-least-once") {
        let detail = "a dead event can be lost on its way to the dead-letter queue: set \
                      dead-letter-strategy to at-least-once, with overflow reject-publish";
        tell(Grade::Warn, detail);
    }
    if count(queue, "consumers") == 0 && count(queue, "messages") > 0 && !is_dead_place {
        tell(Grade::Warn, "nobody reads it");
    }
    findings
}

fn levels(bound: &[&Value], all: &[Value]) -> Vec<Level> {
    // A queue that has just been made has no number yet.
    let level = |gauge, queue: &Value| {
        let (topic, value) = (text(queue, "name").to_owned(), queue["messages"].as_f64()?);
        Some(Level { gauge, topic, group: String::new(), value })
    };
    let lag = bound.iter().filter_map(|queue| level(Gauge::Lag, queue));
    let mut levels: Vec<Level> = lag.collect();
    let dead: BTreeSet<String> =
        bound.iter().filter_map(|queue| setting(queue, "dead-letter-routing-key")).collect();
    let is_dead_place = |queue: &&Value| dead.contains(text(queue, "name"));
    let graves = all.iter().filter(is_dead_place);
    levels.extend(graves.filter_map(|queue| level(Gauge::Dead, queue)));
    levels
}

/// Returns a setting of a queue: an argument of its own, or one of its policy.
fn setting(queue: &Value, name: &str) -> Option<String> {
    let own = &queue["arguments"][format!("x-{name}")];
    let policy = &queue["effective_policy_definition"][name];
    let value = [own, policy].into_iter().find(|value| !value.is_null())?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn members(queue: &Value) -> usize {
    count(queue, "members")
}

/// Returns a number, or how many there are of what is listed.
fn count(value: &Value, name: &str) -> usize {
    let number = || value[name].as_u64().and_then(|number| usize::try_from(number).ok());
    value[name].as_array().map(Vec::len).or_else(number).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn flag(value: &Value, name: &str) -> bool {
    value[name].as_bool().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use event::Topics;
    use serde_json::json;

    use super::*;
    use crate::manner::Naming;

    fn quorum(name: &str, members: usize) -> Value {
        let members: Vec<_> = (0..members).map(|n| format!("rabbit@{n}")).collect();
        let dead = format!("{name}.dead");
        json!({
            "name": name, "type": "quorum", "durable": true, "exclusive": false, "messages": 3,
            "consumers": 1, "members": members, "online": members,
            "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
                          "x-dead-letter-strategy": "at-least-once"},
        })
    }

    fn look(queues: &[Value]) -> Inspection {
        judge(&told(queues))
    }

    fn told(queues: &[Value]) -> Told {
        Told { queues: queues.to_vec(), ..Told::default() }
    }

    fn reach(queues: &[&str]) -> Option<Reach> {
        let queues = queues.iter().map(|name| (*name).to_owned()).collect();
        Some(Reach { queues, further: false })
    }

    fn details(inspection: &Inspection, grade: Grade) -> Vec<&str> {
        let of = inspection.findings.iter().filter(|finding| finding.grade == grade);
        of.map(|finding| finding.detail.as_str()).collect()
    }

    #[test]
    fn the_weakest_queue_says_what_a_receipt_is_worth() {
        let classic = json!({"name": "c", "type": "classic", "durable": true, "messages": 0});
        let transient = json!({"name": "t", "type": "classic", "durable": false, "messages": 0});
        let cases = [
            (vec![quorum("a", 3)], Durability::Replicated),
            (vec![quorum("a", 3), quorum("b", 1)], Durability::Durable),
            (vec![quorum("a", 3), classic.clone()], Durability::Durable),
            (vec![quorum("a", 3), classic, transient], Durability::BestEffort),
            (vec![], Durability::BestEffort),
        ];
        for (queues, class) in cases {
            assert_eq!(look(&queues).durability, class, "{queues:?}");
        }
    }

    #[test]
    fn only_queues_that_events_go_to_count() {
        let queues = [quorum("mine", 3), json!({"name": "other", "type": "classic"})];
        let seen = judge(&Told { reach: reach(&["mine"]), ..told(&queues) });
        assert_eq!(seen.durability, Durability::Replicated);
        let none = judge(&Told { reach: reach(&[]), ..told(&queues) });
        assert_eq!(none.durability, Durability::BestEffort, "it is worth nothing");
        assert!(details(&none, Grade::Warn)[0].contains("bind"), "{none:?}");
    }

    #[test]
    fn every_queue_is_judged_and_counted_and_findings_are_of_some() {
        let mut queues: Vec<_> = (0..TOLD + 1).map(|n| quorum(&n.to_string(), 3)).collect();
        assert_eq!(look(&queues).durability, Durability::Replicated);
        queues[TOLD]["durable"] = json!(false);
        let seen = look(&queues);
        assert_eq!((seen.durability, seen.levels.len()), (Durability::BestEffort, TOLD + 1));
        assert!(details(&seen, Grade::Bad)[0].contains("not durable"), "{seen:?}");
    }

    #[test]
    fn without_an_exchange_routes_name_the_queues() {
        let route = |text: &str| (text.parse().unwrap(), true);
        let topics = Topics::of(vec![route("order.*"), route("bill")]);
        let leads = Leads::new(&Naming::default(), &[topics]);
        let queues = [quorum("order.paid", 3), quorum("order.paid.dead", 3), quorum("other", 3)];
        let reach = by_name(&leads, &queues);
        assert_eq!(reach.queues, ["bill", "order.paid"].map(str::to_owned).into());
        let missing = vec!["bill".to_owned()];
        let seen = judge(&Told { reach: Some(reach), missing, ..told(&queues) });
        assert_eq!(seen.durability, Durability::Replicated, "what is not there takes nothing");
        assert!(details(&seen, Grade::Warn)[0].contains("no queue of this name"), "{seen:?}");
    }

    #[tokio::test]
    async fn only_a_queue_that_was_asked_for_is_missing() {
        let names: Vec<String> = (0..NAMED + 50).map(|n| format!("{n:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut told = Told { reach: reach(&names), ..told(&[quorum("000", 3)]) };
        let asked = |name: String| async move { Ok((name == "001").then(|| quorum("001", 3))) };
        told.name(asked).await.unwrap();
        assert_eq!((told.queues.len(), told.missing.len(), told.more), (2, NAMED - 1, true));
        assert_eq!(told.missing.last().map(String::as_str), Some("100"), "nobody asked for 101");
    }

    #[test]
    fn what_nobody_has_looked_at_may_be_the_weakest() {
        let seen = judge(&Told { more: true, ..told(&[quorum("a", 3)]) });
        assert_eq!(seen.durability, Durability::BestEffort);
        assert!(details(&seen, Grade::Warn)[0].contains("more queues"), "{seen:?}");
        let further = reach(&["a"]).map(|reach| Reach { further: true, ..reach });
        let seen = judge(&Told { reach: further, ..told(&[quorum("a", 3)]) });
        assert_eq!(seen.durability, Durability::BestEffort);
        assert!(details(&seen, Grade::Warn)[0].contains("more exchanges"), "{seen:?}");
    }

    #[test]
    fn settings_that_lose_events_are_told_with_what_to_set() {
        let mut queue = quorum("a", 3);
        queue["online"] = json!(["rabbit@0"]);
        queue["consumers"] = json!(0);
        queue["arguments"] = json!({"x-max-length": 10});
        queue["effective_policy_definition"] = json!({"message-ttl": 1000});
        let seen = look(&[queue]);
        let bad = details(&seen, Grade::Bad).join("; ");
        assert!(bad.contains("majority") && bad.contains("reject-publish"), "{bad}");
        let warned = details(&seen, Grade::Warn).join("; ");
        for word in ["message-ttl", "dead-letter", "nobody reads"] {
            assert!(warned.contains(word), "{warned}");
        }
        let mut queue = quorum("a", 3);
        assert_eq!(details(&look(&[queue.clone()]), Grade::Warn), [""; 0]);
        queue["arguments"]["x-dead-letter-strategy"] = json!("at-most-once");
        assert!(details(&look(&[queue]), Grade::Warn)[0].contains("at-least-once"));
    }

    #[test]
    fn alarms_of_a_node_are_bad() {
        let node = json!({"name": "n", "running": true, "disk_free_alarm": true, "mem_alarm": true,
                          "partitions": ["m"]});
        let seen = judge(&Told { nodes: vec![node], ..told(&[quorum("a", 3)]) });
        assert_eq!(details(&seen, Grade::Bad).len(), 3, "{seen:?}");
    }

    #[test]
    fn a_disk_is_as_full_as_the_one_that_is_nearest_to_its_limit() {
        let node = |free: Value| json!({"name": "n", "disk_free": free, "disk_free_limit": 50});
        let look = |nodes: &[Value]| {
            let seen = judge(&Told { nodes: nodes.to_vec(), ..told(&[]) });
            let near = details(&seen, Grade::Warn).iter().any(|it| it.contains("disk_free_limit"));
            (Inspection::total(&seen.levels, Gauge::Disk), near)
        };
        assert_eq!(look(&[node(json!(500)), node(json!(100))]), (Some(0.5), false));
        assert!(look(&[node(json!(500)), node(json!(55))]).1);
        assert_eq!(look(&[node(json!(0))]).0, Some(1.0));
        assert_eq!(look(&[node(json!("NaN")), json!({"name": "n"})]), (None, false));
    }

    #[test]
    fn what_waits_and_what_is_dead_are_levels() {
        let mut dead = quorum("a.dead", 3);
        dead["messages"] = json!(2);
        let seen = judge(&Told { reach: reach(&["a"]), ..told(&[quorum("a", 3), dead]) });
        let told: Vec<_> =
            seen.levels.iter().map(|it| (it.gauge, it.topic.as_str(), it.value)).collect();
        assert_eq!(told, [(Gauge::Lag, "a", 3.0), (Gauge::Dead, "a.dead", 2.0)]);
    }

    #[test]
    fn without_management_the_doubt_is_told() {
        let seen = unmanaged();
        assert_eq!(seen.durability, Durability::BestEffort);
        assert!(details(&seen, Grade::Warn)[0].contains("management"), "{seen:?}");
    }
}
