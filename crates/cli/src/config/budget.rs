//! Connections to one server, divided among the outboxes that live there.

use std::collections::BTreeMap;

use store::Home;

use super::meant::Outbox;
use super::place::{At, Place, Problems};

/// Returns the fewest connections that an outbox can work with.
fn fewest(outbox: &Outbox) -> usize {
    2 + usize::from(outbox.listen)
}

/// Gives each outbox no more than an equal share of what its server may be asked for.
/// What is wrong is told at the budget, or where an outbox is written if nobody has written one.
pub(crate) fn divide(
    outboxes: &mut [Outbox],
    budget: &At<usize>,
    written: &Place,
    problems: &mut Problems,
) {
    let mut servers: BTreeMap<String, Vec<&mut Outbox>> = BTreeMap::new();
    for outbox in outboxes {
        if let Some(server) = server(outbox) {
            servers.entry(server).or_default().push(outbox);
        }
    }
    for (server, outboxes) in servers {
        let share = budget.value / outboxes.len();
        let most = outboxes.iter().map(|outbox| fewest(outbox)).max().unwrap_or(0);
        if share < most {
            let (count, needed) = (outboxes.len(), most * outboxes.len());
            let text = format!(
                "`connections` in [server] is {}: the {count} outboxes at {server} need at least \
                 {needed}; raise it",
                budget.value
            );
            problems.add(budget.place.or(written), text);
        }
        for outbox in outboxes {
            outbox.connections = outbox.connections.min(u16::try_from(share).unwrap_or(u16::MAX));
        }
    }
}

/// Names the server of an outbox by its host and its port; a file has none.
fn server(outbox: &Outbox) -> Option<String> {
    let Ok(Home::Server(home)) = store::home(outbox.url.reveal()) else { return None };
    home.rsplit_once('/').map(|(server, _)| server.to_owned())
}
