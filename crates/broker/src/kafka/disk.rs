//! How full the disks of a cluster are, as its brokers tell it; the fullest folder of them counts.
//!
//! One that does not tell, for want of a right or of time, is named with what to do about it. That
//! is never a fault of the sink.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use event::{Finding, Gauge, Grade, Level};
use futures_util::future::join_all;
use tokio::time::timeout;

use super::desk::Desk;
use super::told::Disks;
use super::way::Way;

/// How full a disk is when somebody should look at it.
const FULL: f64 = 0.8;

/// Who Kafka says we are if we show nothing.
const NOBODY: &str = "ANONYMOUS";

/// Asks every broker, all at once.
pub(super) async fn look(
    brokers: &BTreeMap<i32, String>,
    way: &Way,
    patience: Duration,
) -> (Option<Level>, Vec<Finding>) {
    let asking = brokers.values().map(|address| async move {
        let asked = timeout(patience, async { Desk::open(address, way).await?.disks().await });
        asked.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    });
    let told = join_all(asking).await;
    let user = way.user.as_ref().map_or(NOBODY, |(name, _)| name);
    judge(brokers.values().map(String::as_str).zip(told), user)
}

/// Finds the fullest disk, and says who does not tell and why.
fn judge<'a>(
    told: impl Iterator<Item = (&'a str, io::Result<Disks>)>,
    user: &str,
) -> (Option<Level>, Vec<Finding>) {
    let (mut fullest, mut findings) = (None::<(f64, String)>, Vec::new());
    let mut untold: BTreeMap<(Grade, String), Vec<&str>> = BTreeMap::new();
    for (address, told) in told {
        let mut silent = |grade, why: String| untold.entry((grade, why)).or_default().push(address);
        let folders = match told {
            Ok(Disks::Told(folders)) => folders,
            Ok(Disks::Denied) => {
                silent(Grade::Warn, denied(user));
                continue;
            }
            Ok(Disks::Old) => {
                silent(Grade::Good, "only Kafka 3.3 and newer tells it".to_owned());
                continue;
            }
            Err(error) => {
                silent(Grade::Warn, error.to_string());
                continue;
            }
        };
        if folders.iter().all(|folder| folder.used.is_none()) {
            silent(Grade::Warn, "it does not know it of any of its folders".to_owned());
        }
        for folder in folders {
            if folder.lost {
                let detail = format!(
                    "the broker has given up {:?}: look at its log, mend the disk or make room \
                     there, and start it again",
                    folder.path
                );
                findings.push(Finding::new(Grade::Warn, what(&[address]), detail));
            }
            if let Some(used) = folder.used
                && fullest.as_ref().is_none_or(|(most, _)| used > *most)
            {
                fullest = Some((used, format!("{:?} at {address}", folder.path)));
            }
        }
    }
    findings.extend(untold.into_iter().map(|((grade, why), addresses)| {
        Finding::new(grade, what(&addresses), format!("how full it is is not told: {why}"))
    }));
    findings.extend(fullest.as_ref().and_then(|(used, place)| full(*used, place)));
    let level = fullest.map(|(value, _)| {
        let (gauge, topic, group) = (Gauge::Disk, String::new(), String::new());
        Level { gauge, topic, group, value }
    });
    (level, findings)
}

fn what(addresses: &[&str]) -> String {
    match addresses {
        [first, _, ..] => format!("disks of {first} and {} more", addresses.len() - 1),
        addresses => format!("disks of {}", addresses.concat()),
    }
}

fn denied(user: &str) -> String {
    format!(
        "that takes the right Describe on the cluster: kafka-acls.sh --add --allow-principal \
         'User:{user}' --operation Describe --cluster"
    )
}

fn full(used: f64, place: &str) -> Option<Finding> {
    let detail = format!(
        "{:.0} % of the disk of {place} is used; once it is full, the broker gives it up, and ends \
         if it has no other: make room, or let its topics keep less (retention.ms, \
         retention.bytes)",
        used * 100.0
    );
    (used > FULL).then(|| Finding::new(Grade::Warn, "disk", detail))
}

#[cfg(test)]
mod tests {
    use event::Secret;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::told::Folder;
    use super::*;

    const PASSWORD: &str = "canary-of-the-disk";

    fn folder(path: &str, used: Option<f64>) -> Folder {
        Folder { path: path.to_owned(), used, lost: used.is_none() }
    }

    fn judged(told: Vec<(&str, io::Result<Disks>)>) -> (Option<f64>, Vec<Finding>) {
        let (level, findings) = judge(told.into_iter(), "joe");
        (level.map(|level| level.value), findings)
    }

    #[test]
    fn the_fullest_folder_of_all_brokers_counts_and_is_named_when_little_is_left() {
        let one = vec![folder("/a", Some(0.2)), folder("/b", Some(0.93))];
        let told = vec![
            ("one:1", Ok(Disks::Told(one))),
            ("two:2", Ok(Disks::Told(vec![folder("/c", Some(0.5))]))),
        ];
        let (value, findings) = judged(told);
        assert_eq!(value, Some(0.93));
        let [Finding { grade: Grade::Warn, what, detail }] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!(what, "disk");
        assert!(detail.starts_with("93 % of the disk of \"/b\" at one:1 is used"), "{detail}");
        let roomy = judged(vec![("one:1", Ok(Disks::Told(vec![folder("/a", Some(0.8))])))]);
        assert_eq!(roomy, (Some(0.8), vec![]));
    }

    #[test]
    fn who_does_not_tell_is_named_with_the_reason_and_the_others_count() {
        let silent = || io::Error::from(ErrorKind::TimedOut);
        let told = vec![
            ("one:1", Ok(Disks::Denied)),
            ("two:2", Ok(Disks::Told(vec![folder("/c", Some(0.5))]))),
            ("three:3", Ok(Disks::Denied)),
            ("four:4", Err(silent())),
            ("five:5", Ok(Disks::Old)),
            ("six:6", Ok(Disks::Told(vec![folder("/d", None)]))),
        ];
        let (value, findings) = judged(told);
        assert_eq!(value, Some(0.5));
        let of = |name: &str| {
            let mut of = findings.iter().filter(|it| it.what == format!("disks of {name}"));
            let found = of.next().unwrap_or_else(|| panic!("{name}: {findings:?}"));
            (found.grade, found.detail.as_str())
        };
        let (grade, detail) = of("one:1 and 1 more");
        assert!(grade == Grade::Warn && detail.contains("Describe on the cluster"), "{detail}");
        assert!(detail.contains("'User:joe' --operation Describe --cluster"), "{detail}");
        let (grade, detail) = of("four:4");
        assert!(grade == Grade::Warn && detail.contains("timed out"), "{detail}");
        let (grade, detail) = of("five:5");
        assert!(grade == Grade::Good && detail.contains("3.3"), "{detail}");
        let (grade, detail) = of("six:6");
        assert!(grade == Grade::Warn && detail.contains("given up \"/d\""), "{detail}");
        assert_eq!(judged(vec![("one:1", Ok(Disks::Denied))]).0, None);
        assert_eq!(judged(vec![]), (None, vec![]));
    }

    /// Answers calls with these bytes, one after another, and then never again. Tells how many
    /// bytes it was asked further.
    async fn broker(answers: &'static [&'static [u8]]) -> (String, tokio::task::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut asked, mut more) = (Vec::new(), Vec::new());
            for answer in answers {
                asked.resize(stream.read_u32().await.unwrap() as usize, 0);
                stream.read_exact(&mut asked).await.unwrap();
                stream.write_u32(answer.len() as u32 + 4).await.unwrap();
                stream.write_all(&asked[4..8]).await.unwrap();
                stream.write_all(answer).await.unwrap();
            }
            let _ = stream.read_to_end(&mut more).await;
            more.len()
        });
        (address, answering)
    }

    const KNOWS: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 35, 0, 1, 0, 4];
    const KNOWS_LESS: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 35, 0, 0, 0, 3];
    const HALF: &[u8] = b"\0\0\0\0\0\0\0\x02\0\0\x02/\x01\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x04\0\0";
    const LET_IN: &[u8] = &[0, 0, 255, 255, 0, 0, 0, 0];
    const SHUT_OUT: &[u8] = &[0, 58, 255, 255, 0, 0, 0, 0];
    const PLAIN: &[u8] = b"\0\0\0\0\0\x01\0\x05PLAIN";

    #[tokio::test]
    async fn every_broker_is_asked_and_a_silent_one_is_not_waited_for() {
        let (telling, _first) = broker(&[PLAIN, LET_IN, KNOWS, HALF]).await;
        let (silent, _second) = broker(&[PLAIN, LET_IN, KNOWS]).await;
        let (old, _third) = broker(&[PLAIN, LET_IN, KNOWS_LESS]).await;
        let (strict, _fourth) = broker(&[PLAIN, SHUT_OUT]).await;
        let all = [&telling, &silent, &old, &strict];
        let brokers = all.into_iter().enumerate();
        let brokers = brokers.map(|(id, at)| (id as i32, at.clone())).collect();
        let user = Some(("joe".to_owned(), Secret::new(PASSWORD)));
        let way = Way { user, ..Way::default() };
        let looking = look(&brokers, &way, Duration::from_secs(2));
        let looked = timeout(Duration::from_secs(60), looking).await;
        let (level, findings) = looked.expect("nobody is waited for any longer");
        assert_eq!(level.expect("one tells").value, 0.5);
        let said = format!("{findings:?}");
        let tells = |address: &str, why: &str| {
            let name = format!("disks of {address}");
            findings.iter().any(|it| it.what == name && it.detail.contains(why))
        };
        assert!(tells(&silent, "timed out") && tells(&old, "3.3"), "{said}");
        assert!(tells(&strict, "error 58") && findings.len() == 3, "{said}");
        assert!(!said.contains(PASSWORD), "{said}");
    }

    #[tokio::test]
    async fn what_a_broker_does_not_know_it_is_not_asked() {
        let (old, answering) = broker(&[KNOWS_LESS]).await;
        let (level, findings) =
            look(&[(1, old)].into(), &Way::default(), Duration::from_secs(5)).await;
        assert!(level.is_none() && findings[0].grade == Grade::Good, "{findings:?}");
        assert_eq!(answering.await.unwrap(), 0);
    }
}
