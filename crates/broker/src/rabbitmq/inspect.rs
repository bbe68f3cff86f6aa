//! What receipts of RabbitMQ are worth, by the queues that events go to, and what their settings
//! risk.
//!
//! A confirmed, persistent event in a durable queue is on a disk; in a quorum queue or a stream of
//! several members it is on several. Without the management plugin nobody tells which it is.

use std::collections::BTreeSet;

use event::{Durability, Finding, Gauge, Grade, Inspection, Level, Refusal};
use serde_json::Value;

pub(super) use super::management::Management;

/// Queues that findings and levels are told of: more than this nobody reads.
const TOLD: usize = 100;

/// Returns what is known without the management plugin.
pub(super) fn unmanaged() -> Inspection {
    let detail = "published persistent, mandatory and confirmed. Whether the queues are durable, \
                  replicated and read is not known: set management to the address of the \
                  management plugin";
    let finding = Finding::new(Grade::Warn, "queues", detail);
    Inspection { findings: vec![finding], ..Inspection::of(Durability::Durable) }
}

impl Management {
    /// Looks at the broker, and at the queues that events of an exchange go to.
    pub(super) async fn inspect(&self, vhost: &str, exchange: &str) -> Result<Inspection, Refusal> {
        let overview = self.get(&["overview"], "").await?.unwrap_or_default();
        let nodes = self.get(&["nodes"], "").await?.unwrap_or_default();
        let queues = self.queues(vhost).await?;
        let bindings = match exchange {
            "" => None,
            name => {
                let path = ["exchanges", vhost, name, "bindings", "source"];
                Some(self.get(&path, "").await?.unwrap_or_default())
            }
        };
        Ok(judge(&overview, &nodes, &queues, bindings.as_ref()))
    }
}

/// Judges what the plugin told. Without bindings, every queue can get an event.
fn judge(
    overview: &Value,
    nodes: &Value,
    queues: &[Value],
    bindings: Option<&Value>,
) -> Inspection {
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    let version = text(overview, "rabbitmq_version");
    let told = format!("RabbitMQ {version}, {} nodes", nodes.len());
    let mut findings = vec![Finding::new(Grade::Good, "broker", told)];
    findings.extend(nodes.iter().flat_map(of_node));
    let destinations = bindings.map(|bindings| destinations(bindings, &mut findings));
    let gets = |queue: &&Value| {
        destinations.as_ref().is_none_or(|names| names.contains(text(queue, "name")))
    };
    let bound: Vec<&Value> = queues.iter().filter(gets).take(TOLD).collect();
    if bound.is_empty() {
        let detail = "no queue is bound: every event comes back as topic-missing; bind one";
        findings.push(Finding::new(Grade::Warn, "queues", detail));
    }
    let class = bound.iter().map(|queue| class(queue)).min().unwrap_or(Durability::Durable);
    findings.extend(bound.iter().flat_map(|queue| of_queue(queue)));
    Inspection { durability: class, findings, levels: levels(&bound, queues) }
}

fn destinations<'a>(bindings: &'a Value, findings: &mut Vec<Finding>) -> BTreeSet<&'a str> {
    let all = bindings.as_array().map(Vec::as_slice).unwrap_or_default();
    let (queues, exchanges): (Vec<_>, Vec<_>) =
        all.iter().partition(|binding| text(binding, "destination_type") == "queue");
    if let Some(onward) = exchanges.first() {
        let name = text(onward, "destination");
        let detail = format!("it leads on to {name}, whose queues are not looked at");
        findings.push(Finding::new(Grade::Warn, "exchange", detail));
    }
    queues.iter().map(|binding| text(binding, "destination")).collect()
}

fn of_node(node: &Value) -> Vec<Finding> {
    let name = format!("node {}", text(node, "name"));
    let mut findings = Vec::new();
    let mut bad = |detail: &str| findings.push(Finding::new(Grade::Bad, &*name, detail));
    if node["running"] == Value::Bool(false) {
        bad("it does not run");
    }
    if flag(node, "disk_free_alarm") {
        bad("its disk is nearly full, and nobody may publish: make room");
    }
    if flag(node, "mem_alarm") {
        bad("its memory is used up, and nobody may publish: find the queue that is not read");
    }
    if node["partitions"].as_array().is_some_and(|cut| !cut.is_empty()) {
        bad("it is cut off from others of its cluster");
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
    use serde_json::json;

    use super::*;

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
        judge(&json!({"rabbitmq_version": "4.3.6"}), &json!([]), queues, None)
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
            (vec![], Durability::Durable),
        ];
        for (queues, class) in cases {
            assert_eq!(look(&queues).durability, class, "{queues:?}");
        }
    }

    #[test]
    fn only_queues_that_events_go_to_count_and_a_way_onward_is_told() {
        let queues = [quorum("mine", 3), json!({"name": "other", "type": "classic"})];
        let bindings = json!([
            {"destination": "mine", "destination_type": "queue"},
            {"destination": "onward", "destination_type": "exchange"},
        ]);
        let seen = judge(&json!({}), &json!([]), &queues, Some(&bindings));
        assert_eq!(seen.durability, Durability::Replicated);
        assert!(details(&seen, Grade::Warn)[0].contains("onward"), "{seen:?}");
        let none = judge(&json!({}), &json!([]), &queues, Some(&json!([])));
        assert!(details(&none, Grade::Warn)[0].contains("bind"), "{none:?}");
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
        let seen = judge(&json!({}), &json!([node]), &[quorum("a", 3)], None);
        assert_eq!(details(&seen, Grade::Bad).len(), 3, "{seen:?}");
    }

    #[test]
    fn what_waits_and_what_is_dead_are_levels() {
        let mut dead = quorum("a.dead", 3);
        dead["messages"] = json!(2);
        let bindings = json!([{"destination": "a", "destination_type": "queue"}]);
        let seen = judge(&json!({}), &json!([]), &[quorum("a", 3), dead], Some(&bindings));
        let told: Vec<_> =
            seen.levels.iter().map(|it| (it.gauge, it.topic.as_str(), it.value)).collect();
        assert_eq!(told, [(Gauge::Lag, "a", 3.0), (Gauge::Dead, "a.dead", 2.0)]);
    }

    #[test]
    fn without_management_the_doubt_is_told() {
        let seen = unmanaged();
        assert_eq!(seen.durability, Durability::Durable);
        assert!(details(&seen, Grade::Warn)[0].contains("management"), "{seen:?}");
    }
}
