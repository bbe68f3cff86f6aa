//! Which streams are there that routes lead to. A server has no list of them: its keys are gone
//! through bit by bit, on from where the last look ended.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Finding, Grade, Inspection};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, cmd};
use tokio::time::{Instant, sleep};

use super::DEAD;
use super::refusal::plain;
use crate::leads::Leads;

/// How long one look goes through keys.
const LONG: Duration = Duration::from_secs(2);
/// Keys that a server goes through at once: less than a millisecond of its time.
const STEP: usize = 1000;

/// What the looks of one sink have found.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    /// What was there when all keys were gone through last.
    found: BTreeSet<String>,
    /// What has been there since, up to the place where the last look ended.
    passed: BTreeSet<String>,
    cursor: u64,
    /// Whether all keys were ever gone through.
    whole: bool,
}

impl Streams {
    /// Returns the streams that events go to: those that they went to, those that are named, and
    /// those that are there and that routes lead to.
    pub(super) async fn find(
        &self,
        connection: &mut MultiplexedConnection,
        leads: &Leads,
        published: BTreeSet<String>,
        seen: &mut Inspection,
    ) -> BTreeSet<String> {
        let mut all = leads.exact();
        all.extend(published);
        if !leads.open() {
            return all;
        }
        let mut known = self.known().clone();
        let gone = go_on(connection, &mut known, leads).await;
        let mut warn = |detail: &str| {
            seen.findings.push(Finding::new(Grade::Warn, "streams", detail));
        };
        match gone {
            Err(error) => warn(&stopped(&error)),
            Ok(()) if !known.whole => warn(
                "the server has more keys than one look goes through, so there may be streams that \
                 were not looked at; a relay goes on at its next look",
            ),
            Ok(()) => {}
        }
        let there: BTreeSet<String> = known.found.union(&known.passed).cloned().collect();
        *self.known() = known;
        // What is dead is counted with the stream that it comes from.
        let grave = |name: &str| name.strip_suffix(DEAD).is_some_and(|of| there.contains(of));
        all.extend(there.iter().filter(|name| !grave(name)).cloned());
        all
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says why the keys were not gone through.
fn stopped(error: &RedisError) -> String {
    let rest = "so only streams that a route names in full, that had events of this process, or \
                that were found before are looked at";
    match error.code() {
        Some("NOPERM") => {
            format!("this user may not go through the keys (SCAN), {rest}: grant +scan")
        }
        _ => format!("its keys could not be gone through (SCAN), {rest}: {}", plain(error)),
    }
}

async fn go_on(
    connection: &mut MultiplexedConnection,
    known: &mut Known,
    leads: &Leads,
) -> RedisResult<()> {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        let began = Instant::now();
        let mut asking = cmd("SCAN");
        asking.arg(known.cursor).arg("COUNT").arg(STEP).arg("TYPE").arg("stream");
        let (next, names): (u64, Vec<Vec<u8>>) = asking.query_async(connection).await?;
        // A name that is no text is none of ours.
        let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
        known.passed.extend(names.filter(|name| leads.has(name)));
        known.cursor = next;
        if next == 0 {
            known.found = std::mem::take(&mut known.passed);
            known.whole = true;
            break;
        }
        // Others get at least half of a busy server's time.
        sleep(began.elapsed()).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn only_a_missing_right_is_told_as_one() {
        let said = |code: &str| {
            stopped(&make_extension_error(code.to_owned(), Some("as the test says".to_owned())))
        };
        assert!(said("NOPERM").ends_with("grant +scan"), "{}", said("NOPERM"));
        let other = said("LOADING");
        assert!(!other.contains("grant") && other.contains("as the test says"), "{other}");
    }
}
