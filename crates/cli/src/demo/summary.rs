//! The last word of the demo: counts from both databases, and whether the promises held.

use event::Counts;
use serde_json::{Value, json};

use super::inventory::{Effects, Inventory};
use super::shop::Shop;
use crate::failure::End;
use crate::out::Out;
use crate::table::Tone;

/// What both databases say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    committed: u64,
    sent: u64,
    dead: u64,
    pending: u64,
    duplicates: u64,
    effects: Effects,
}

impl Summary {
    /// Counts what the shop committed, what became of it, and what the inventory did.
    pub(crate) async fn of(
        shop: &Shop,
        inventory: &Inventory,
        counts: &Counts,
    ) -> anyhow::Result<Summary> {
        Ok(Summary {
            committed: shop.count().await?,
            sent: counts.sent,
            dead: counts.dead,
            pending: counts.pending(),
            duplicates: inventory.duplicates(),
            effects: inventory.effects().await?,
        })
    }

    /// Returns each promise and whether it held.
    fn promises(&self) -> [(&'static str, bool); 3] {
        let Summary { committed, sent, dead, pending, effects, .. } = *self;
        let unsettled = sent..=sent + dead + pending;
        [
            ("committed = sent + dead + pending", committed == sent + dead + pending),
            ("everything sent was taken in", unsettled.contains(&effects.events)),
            ("once each", effects.movements == effects.events && effects.adds_up),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "committed": self.committed,
            "sent": self.sent,
            "dead": self.dead,
            "pending": self.pending,
            "effects": self.effects.events,
            "duplicates": self.duplicates,
            "held": self.promises().iter().all(|(_, held)| *held),
        })
    }

    /// Says it.
    pub(crate) fn say(&self, out: Out) -> anyhow::Result<End> {
        let promises = self.promises();
        if out.json {
            out.value(&self.json())?;
        } else {
            let Summary { committed, sent, dead, pending, duplicates, effects } = *self;
            out.line(format!(
                "{} committed: {sent} sent, {dead} dead, {pending} pending. {} taken in; {} \
                 recognised.",
                counted(committed, "order"),
                effects.events,
                counted(duplicates, "duplicate"),
            ))?;
            for (promise, held) in promises {
                let (mark, tone) = if held { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
                out.line(format!("{} {promise}", out.paint(tone, mark)))?;
            }
        }
        Ok(if promises.iter().all(|(_, held)| *held) { End::Fine } else { End::Wrong })
    }
}

fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_counted_as_one() {
        assert_eq!(counted(1, "order"), "1 order");
        assert_eq!(counted(0, "order"), "0 orders");
    }

    fn summary() -> Summary {
        let effects = Effects { movements: 7, events: 7, adds_up: true };
        Summary { committed: 10, sent: 7, dead: 2, pending: 1, duplicates: 3, effects }
    }

    fn held(summary: Summary) -> [bool; 3] {
        summary.promises().map(|(_, held)| held)
    }

    #[test]
    fn each_promise_is_judged_by_its_own_numbers() {
        assert_eq!(held(summary()), [true, true, true]);
        assert_eq!(held(Summary { committed: 11, ..summary() }), [false, true, true]);
        assert_eq!(held(Summary { sent: 8, ..summary() }), [false, false, true]);
        let twice = Effects { movements: 8, ..summary().effects };
        assert_eq!(held(Summary { effects: twice, ..summary() }), [true, true, false]);
        let lost = Effects { adds_up: false, ..summary().effects };
        assert_eq!(held(Summary { effects: lost, ..summary() }), [true, true, false]);
    }
}
