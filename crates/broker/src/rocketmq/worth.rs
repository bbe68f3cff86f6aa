//! What the settings of one broker are worth, and what they risk.

use std::collections::BTreeMap;

use event::{Durability, Finding, Grade};

/// A broker waits so long for its disk, unless it says otherwise.
pub(super) const FLUSH_TIMEOUT: u128 = 5000;

/// What a broker is set to, by the names of RocketMQ.
pub(super) type Settings = BTreeMap<String, String>;

/// Reads what a broker tells.
pub(super) fn settings(body: &[u8]) -> Settings {
    let text = String::from_utf8_lossy(body);
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

/// Says what receipts of the broker `name` are worth. `there` are the brokers of its name: itself,
/// and its slaves.
pub(super) fn judge(name: &str, there: i64, settings: &Settings) -> (Durability, Vec<Finding>) {
    let flush = settings.get("flushDiskType").map_or("", String::as_str);
    let flushes = flush == "SYNC_FLUSH";
    let copies = Copies::read(settings);
    let flushed = match flushes {
        true => (Grade::Good, flush.to_owned()),
        false => {
            let risk = "events that were receipted are lost when the machine loses power; set \
                        flushDiskType=SYNC_FLUSH";
            (Grade::Warn, format!("{flush}: {risk}"))
        }
    };
    let find = |what: &str, (grade, detail): (Grade, String)| {
        Finding::new(grade, what, format!("broker {name}: {detail}"))
    };
    // Where a slave is missing there is no receipt, so none is worth less.
    let class = match (copies.are_waited_for(), flushes) {
        (true, _) => Durability::Replicated,
        (false, true) => Durability::Durable,
        (false, false) => Durability::BestEffort,
    };
    let mut findings = vec![find("flush", flushed), find("replication", copies.told())];
    findings.extend(copies.missing(there).map(|missing| find("copies", missing)));
    (class, findings)
}

/// How many copies a receipt waits for.
struct Copies {
    /// Whether a majority of brokers elects the master, and has what it has.
    elected: bool,
    /// Whether the role is to wait for copies at all.
    waits: bool,
    /// How many there are at the least, its own included.
    least: i64,
}

impl Copies {
    fn read(settings: &Settings) -> Copies {
        let get = |key: &str| settings.get(key).map_or("", String::as_str);
        let number = |key: &str, usual: i64| get(key).parse().unwrap_or(usual);
        let on = |key: &str| get(key) == "true";
        let all = on("enableControllerMode") && on("allAckInSyncStateSet");
        let least = match all || on("enableAutoInSyncReplicas") {
            true => number("minInSyncReplicas", 1),
            // RocketMQ 4 does not know it: there a SYNC_MASTER always waits for one.
            false => number("inSyncReplicas", 2),
        };
        let waits = get("brokerRole") == "SYNC_MASTER";
        Copies { elected: on("enableDLegerCommitLog"), waits, least }
    }

    fn are_waited_for(&self) -> bool {
        self.elected || self.waits && self.least >= 2
    }

    /// Says what that risks.
    fn told(&self) -> (Grade, String) {
        let detail = match (self.are_waited_for(), self.waits) {
            (true, _) => return (Grade::Good, "a receipt waits for a copy".to_owned()),
            // Surprising, and the same in every 5.x so far.
            (false, true) => format!(
                "SYNC_MASTER waits for no copy while inSyncReplicas is {}: set inSyncReplicas=2, \
                 and minInSyncReplicas=2 if it may shrink",
                self.least
            ),
            (false, false) => {
                "a receipt waits for no copy: the loss of this machine loses its newest events; \
                 set brokerRole=SYNC_MASTER and inSyncReplicas=2"
                    .to_owned()
            }
        };
        (Grade::Warn, detail)
    }

    /// Says that a receipt waits for more brokers than there are.
    fn missing(&self, there: i64) -> Option<(Grade, String)> {
        let least = self.least;
        let missing = self.waits && !self.elected && least >= 2 && there < least;
        missing.then(|| {
            let detail = format!(
                "a receipt waits for {least} copies, and the name server knows {there}: no event \
                 gets one until a slave is there"
            );
            (Grade::Bad, detail)
        })
    }
}

/// Returns how long a broker may wait before it says that its disk, or its slave, was too slow.
pub(super) fn flush_timeout(settings: &Settings) -> u128 {
    let told = |name: &str| settings.get(name).and_then(|told| told.parse::<u128>().ok());
    let disk = told("syncFlushTimeout").unwrap_or(FLUSH_TIMEOUT);
    disk.max(told("slaveTimeout").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(pairs: &[(&str, &str)]) -> (Durability, Vec<Finding>) {
        judge("a", 2, &told(pairs))
    }

    fn told(pairs: &[(&str, &str)]) -> Settings {
        let lines: String = pairs.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        settings(lines.as_bytes())
    }

    #[test]
    fn a_receipt_is_worth_what_the_settings_wait_for() {
        let cases: [(Durability, &[(&str, &str)]); 8] = [
            (Durability::BestEffort, &[]),
            (Durability::BestEffort, &[("flushDiskType", "ASYNC_FLUSH")]),
            (Durability::Durable, &[("flushDiskType", "SYNC_FLUSH")]),
            (
                Durability::Durable,
                &[
                    ("flushDiskType", "SYNC_FLUSH"),
                    ("brokerRole", "SYNC_MASTER"),
                    ("inSyncReplicas", "1"),
                ],
            ),
            (Durability::Replicated, &[("brokerRole", "SYNC_MASTER")]),
            (Durability::Replicated, &[("brokerRole", "SYNC_MASTER"), ("inSyncReplicas", "2")]),
            (
                Durability::BestEffort,
                &[
                    ("brokerRole", "SYNC_MASTER"),
                    ("inSyncReplicas", "2"),
                    ("enableAutoInSyncReplicas", "true"),
                ],
            ),
            (Durability::Replicated, &[("enableDLegerCommitLog", "true")]),
        ];
        for (expected, pairs) in cases {
            assert_eq!(class(pairs).0, expected, "{pairs:?}");
        }
    }

    #[test]
    fn what_a_setting_risks_is_told_with_what_to_set_instead() {
        let (_, findings) = class(&[
            ("flushDiskType", "ASYNC_FLUSH"),
            ("brokerRole", "SYNC_MASTER"),
            ("inSyncReplicas", "1"),
        ]);
        assert!(findings.iter().all(|finding| finding.grade == Grade::Warn));
        let told = findings.iter().map(|it| it.detail.as_str()).collect::<String>();
        assert!(told.contains("SYNC_FLUSH") && told.contains("inSyncReplicas=2"), "{told}");
    }

    #[test]
    fn a_slave_that_is_missing_is_told_and_a_receipt_is_worth_the_same() {
        let pairs: &[_] = &[("brokerRole", "SYNC_MASTER"), ("inSyncReplicas", "2")];
        let elected: &[_] = &[("enableDLegerCommitLog", "true")];
        for (settings, there, missing) in [(pairs, 2, false), (pairs, 1, true), (elected, 1, false)]
        {
            let (class, findings) = judge("a", there, &told(settings));
            let grade = |what: &str| findings.iter().find(|it| it.what == what).map(|it| it.grade);
            assert_eq!((class, grade("replication")), (Durability::Replicated, Some(Grade::Good)));
            assert_eq!(grade("copies"), missing.then_some(Grade::Bad), "{findings:?}");
        }
    }

    #[test]
    fn a_broker_may_wait_longer_for_its_slave_than_for_its_disk() {
        for (pairs, expected) in [
            (&[][..], FLUSH_TIMEOUT),
            (&[("slaveTimeout", "3000")], FLUSH_TIMEOUT),
            (&[("slaveTimeout", "8000")], 8000),
            (&[("syncFlushTimeout", "9000"), ("slaveTimeout", "8000")], 9000),
        ] {
            assert_eq!(flush_timeout(&told(pairs)), expected, "{pairs:?}");
        }
    }
}
