//! From what a statement counted to how many events are where.

use event::{Counts, Millis};

/// Among how many newest numbers the share of new rows is looked at, where they are not counted.
pub(crate) const RECENT: i64 = 1_000;

/// Puts counts together. `read` returns a column of the one row by its name; up to `many` rows of
/// a table were counted, and beyond that the span of its numbers is the most that there can be.
pub(crate) fn counts<E>(
    many: i64,
    read: impl Fn(&str) -> Result<Option<i64>, E>,
) -> Result<Counts, E> {
    let number = |name: &str| -> Result<u64, E> {
        Ok(read(name)?.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
    let moment = |name: &str| -> Result<Option<Millis>, E> { Ok(read(name)?.map(Millis)) };
    let counted = |number: u64| number <= many.unsigned_abs();
    let of = |table: &str, span: &str| -> Result<u64, E> {
        let rows = number(table)?;
        if counted(rows) { Ok(rows) } else { number(span) }
    };
    let (hot, later, dead) =
        (of("hot", "hot_span")?, of("later", "later_span")?, of("dead", "dead_span")?);
    let mut later_new = number("later_new")?;
    if !counted(later_new) {
        later_new = later.saturating_mul(number("recent_new")?) / number("recent")?.max(1);
    }
    let now = moment("now")?.unwrap_or_default();
    let (hot_out, later_out) = (number("hot_out")?, number("later_out")?);
    // A fresh row waits in line, which has no time, whatever a clock that was set back says.
    let hot_due = moment("hot_due")?.map(|due| due.min(now));
    Ok(Counts {
        new: hot.saturating_sub(hot_out) + later_new,
        dispatching: hot_out + later_out,
        retry: later.saturating_sub(later_out + later_new),
        dead,
        sent: number("sent")?,
        exact: counted(number("hot")?) && counted(number("later")?) && counted(number("dead")?),
        oldest_due: [hot_due, moment("lapsed_due")?, moment("later_due")?]
            .into_iter()
            .flatten()
            .min(),
        now,
    })
}
