//! Whom a deadlock was among: producers alone, which is theirs to bear, or a relay too.

use anyhow::{Context, Result};

use super::home::Session;

/// What MySQL and MariaDB say to the victim of one.
pub(super) const DEADLOCK: &str = "Deadlock found";

/// How they tell of the last one.
const STATUS: &str = "SHOW ENGINE INNODB STATUS";
const OWN: &str = "SELECT CAST(CONNECTION_ID() AS CHAR)";
/// Where its part of the status begins, and with what the next one does.
const BEGINS: &str = "LATEST DETECTED DEADLOCK";
const ENDS: &str = "\nTRANSACTIONS\n";
/// How the accounts of relays begin.
const RELAY: &str = "chaos";

/// Tells whether this session, which has just been the victim of a deadlock, met only others like
/// it: relays have accounts of their own. Where another deadlock came since, nobody knows.
pub(super) async fn is_among_producers(session: &mut dyn Session) -> Result<bool> {
    let own = session.rows(OWN).await?.into_iter().flatten().flatten().next();
    let own = own.context("a session has a number")?;
    let status = session.rows(STATUS).await?.into_iter().flatten().flatten().last();
    Ok(is_without_relay(&status.context("the server tells its status")?, &own))
}

fn is_without_relay(status: &str, own: &str) -> bool {
    let part = status.split(BEGINS).nth(1).and_then(|rest| rest.split(ENDS).next());
    // MySQL thread id 17, OS thread handle 139, query id 42 127.0.0.1 ACCOUNT update
    let threads =
        part.unwrap_or_default().lines().filter_map(|line| line.split_once(" thread id "));
    let (mut met, mut relay) = (false, false);
    for (_, thread) in threads {
        met |= thread.split(',').next() == Some(own);
        relay |= thread.split(' ').any(|word| word.starts_with(RELAY));
    }
    met && !relay
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(accounts: [&str; 2]) -> String {
        let [one, two] = accounts;
        format!(
            "SEMAPHORES\n------------------------\n{BEGINS}\n------------------------\n\
             *** (1) TRANSACTION:\nTRANSACTION 4711, ACTIVE 0 sec inserting\n\
             MySQL thread id 17, OS thread handle 139, query id 42 127.0.0.1 {one} update\n\
             INSERT INTO sale (event_id) VALUES ('1')\n\
             TABLE LOCK table `chaos_1`.`sale` trx id 4711 lock mode IX\n\
             *** (2) TRANSACTION:\nTRANSACTION 4712, ACTIVE 0 sec inserting\n\
             MariaDB thread id 18, OS thread handle 140, query id 43 127.0.0.1 {two} Update\n\
             *** WE ROLL BACK TRANSACTION (1)\n------------\nTRANSACTIONS\n------------\n\
             MySQL thread id 19, OS thread handle 141, query id 44 127.0.0.1 chaos_1_2 update\n"
        )
    }

    #[test]
    fn a_deadlock_of_producers_is_told_from_one_with_a_relay_and_from_one_of_others() {
        let among = |accounts, own| is_without_relay(&status(accounts), own);
        assert!(among(["root", "root"], "17"));
        assert!(among(["root", "root"], "18"));
        assert!(!among(["root", "chaos_1_2"], "17"), "a relay was there");
        assert!(!among(["root", "root"], "19"), "it was the deadlock of others");
        assert!(!is_without_relay("", "17"), "nothing is told");
    }
}
