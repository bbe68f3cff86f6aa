//! What an examination of any database finds, in words for a person.

use event::Millis;

use crate::compete::agrees;
use crate::{Finding, Grade, Schema, Strategy};

/// How far the two clocks may be apart before a person should know.
const APART: u64 = 2_000;

/// Makes a finding.
pub(crate) fn finding(grade: Grade, what: &str, detail: impl Into<String>) -> Finding {
    Finding { grade, what: what.to_owned(), detail: detail.into() }
}

/// Says whether the schema is the one that this program works with.
pub(crate) fn schema(Schema { found, wanted }: Schema) -> Finding {
    let (grade, detail) = match found {
        _ if found == wanted => (Grade::Good, format!("version {found}")),
        _ if found > wanted => {
            (Grade::Bad, format!("version {found} is newer than {wanted}; take a newer postbox"))
        }
        _ => (Grade::Bad, format!("version {found}, wanted {wanted}; run postbox migrate")),
    };
    finding(grade, "schema", detail)
}

/// Says how far the database's clock and this machine's are apart.
pub(crate) fn clock(database: Millis, machine: Millis) -> Finding {
    let apart = database.0.abs_diff(machine.0);
    let grade = if apart > APART { Grade::Warn } else { Grade::Good };
    let detail = format!("the database's clock and this machine's are {apart} ms apart");
    finding(grade, "clock", detail)
}

/// Tells whether a statement is one of a relay. What only a migration runs, a relay's account has
/// no right to, nor to its plan.
pub(crate) fn is_relays<T>((name, _): &(&str, T)) -> bool {
    *name != "write_version"
}

/// Says how many shards there are.
pub(crate) fn shards(there: u16, wanted: u16) -> Finding {
    let detail = format!("{there}, fixed when the tables were made");
    if there == wanted {
        return finding(Grade::Good, "shards", detail);
    }
    let detail = format!("{detail}; the config's {wanted} are without effect");
    finding(Grade::Warn, "shards", detail)
}

/// Says with which strategy the outbox is claimed, if anybody ever claimed from it.
pub(crate) fn strategy(mine: Strategy, written: Option<&str>) -> Finding {
    let Some(written) = written else {
        return finding(Grade::Good, "strategy", format!("{mine}, from the first claim on"));
    };
    if agrees(mine, Some(written)) {
        return finding(Grade::Good, "strategy", mine.to_string());
    }
    let detail = format!(
        "the outbox is claimed with {written} and the config says {mine}; a relay takes it up only \
         when no other is at work"
    );
    finding(Grade::Warn, "strategy", detail)
}

/// What to do about an index that is missing on a server.
pub(crate) const REMAKE: &str = "make a missing index again (postbox migrate --print shows it)";

/// Says which statements are not run as they should be, and what to do about it.
pub(crate) fn plan(wrong: &[String], advice: &str) -> Finding {
    if wrong.is_empty() {
        let detail = "claims, settlements and searches are served by indexes";
        return finding(Grade::Good, "plan", detail);
    }
    finding(Grade::Bad, "plan", format!("{}; {advice}", wrong.join("; ")))
}
