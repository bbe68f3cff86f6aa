//! Which queues the events of an exchange go to: those bound to it, and those behind the exchanges
//! that it leads on to.
//!
//! Routing keys are not compared: every queue that an event could reach counts.

use std::collections::BTreeSet;

use event::Refusal;
use serde_json::Value;

/// Exchanges that are asked at the most.
const ASKED: usize = 64;

/// What events of an exchange reach.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reach {
    /// The names of the queues.
    pub(super) queues: BTreeSet<String>,
    /// Whether there are exchanges behind which nobody has looked.
    pub(super) further: bool,
}

/// Follows the bindings of an exchange; `bindings` tells those that begin at one.
pub(super) async fn of<Told>(
    exchange: &str,
    bindings: impl Fn(String) -> Told,
) -> Result<Reach, Refusal>
where
    Told: Future<Output = Result<Vec<Value>, Refusal>>,
{
    let mut reach = Reach::default();
    let mut known = BTreeSet::from([exchange.to_owned()]);
    let mut open = vec![exchange.to_owned()];
    while let Some(next) = open.pop() {
        for binding in bindings(next).await? {
            let name = binding["destination"].as_str().unwrap_or_default().to_owned();
            if binding["destination_type"] == "queue" {
                reach.queues.insert(name);
            } else if !known.contains(&name) {
                if known.len() == ASKED {
                    reach.further = true;
                    continue;
                }
                known.insert(name.clone());
                open.push(name);
            }
        }
    }
    Ok(reach)
}

/// Writes an exchange that gets what another cannot route as a binding.
pub(super) fn onward(exchange: &str) -> Value {
    serde_json::json!({"destination": exchange, "destination_type": "exchange"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Value {
        serde_json::json!({"destination": name, "destination_type": "queue"})
    }

    #[tokio::test]
    async fn queues_behind_other_exchanges_are_reached_and_a_circle_ends() {
        let told = |name: String| async move {
            Ok(match name.as_str() {
                "a" => vec![queue("near"), onward("b"), onward("c")],
                "b" => vec![onward("a"), onward("c")],
                _ => vec![queue("far"), onward("b")],
            })
        };
        let queues = ["far", "near"].map(str::to_owned).into();
        assert_eq!(of("a", told).await, Ok(Reach { queues, further: false }));
    }

    #[tokio::test]
    async fn too_many_exchanges_are_not_taken_for_all() {
        let told = |name: String| async move {
            let number: usize = name.parse().unwrap();
            Ok(vec![queue(&name), onward(&(number + 1).to_string())])
        };
        let reach = of("1", told).await.unwrap();
        assert_eq!((reach.queues.len(), reach.further), (ASKED, true));
    }
}
