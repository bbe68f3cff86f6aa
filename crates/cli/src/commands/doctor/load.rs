//! The load of a destination as the doctor says it: who is behind, and what was given up.

use event::{Finding, Gauge, Grade, Inspection, Level};

/// Places that are named at the most.
const NAMED: usize = 3;

/// What a look calls that of which it did not see all.
const PARTS: [&str; 8] =
    ["lag", "groups", "topics", "streams", "queues", "exchange", "name server", "load"];

/// Says what a destination of a kind tells of its load.
pub(super) fn findings(what: &str, kind: &str, seen: &Inspection) -> Vec<Finding> {
    let levels = &seen.levels;
    let part = |it: &Finding| it.grade > Grade::Good && PARTS.contains(&it.what.as_str());
    let whole = !seen.findings.iter().any(part);
    let least = if whole { "" } else { "at least " };
    let say = |gauge: Gauge| {
        let total = Inspection::total(levels, gauge)?;
        let places = places(levels, gauge);
        let (grade, detail) = match gauge {
            Gauge::Disk => (Grade::Good, full(kind, total)),
            Gauge::Lag | Gauge::Dead if total == 0.0 && !whole => {
                (Grade::Good, "none in what was looked at, which was not all".to_owned())
            }
            Gauge::Lag if total == 0.0 => {
                (Grade::Good, "every group has taken in everything".to_owned())
            }
            Gauge::Lag => (Grade::Good, format!("{least}{total} not taken in yet: {places}")),
            Gauge::Retry if total == 0.0 => return None,
            Gauge::Retry => {
                let detail =
                    format!("{least}{total} wait to be handed out again: {places}; look why");
                (Grade::Warn, detail)
            }
            Gauge::Dead if total == 0.0 => (Grade::Good, "nothing was given up".to_owned()),
            Gauge::Dead => {
                let detail = format!(
                    "{least}{total} given up: {places}; read them with the broker's own tools, and \
                     publish them again or drop them"
                );
                (Grade::Warn, detail)
            }
        };
        let name = match (gauge, kind) {
            (Gauge::Disk, "redis") => "memory",
            _ => gauge.as_str(),
        };
        Some(Finding::new(grade, format!("{what}: {name}"), detail))
    };
    Gauge::ALL.into_iter().filter_map(say).collect()
}

/// Says how full a broker is: each kind tells something else.
fn full(kind: &str, value: f64) -> String {
    let percent = format!("{:.0} %", value * 100.0);
    match kind {
        "rabbitmq" => format!("disk_free_limit is {percent} of what is free"),
        "redis" => format!("{percent} of the memory that it may have is used"),
        _ => format!("{percent} used"),
    }
}

/// Names the places with the most.
fn places(levels: &[Level], gauge: Gauge) -> String {
    let mut all: Vec<&Level> =
        levels.iter().filter(|level| level.gauge == gauge && level.value > 0.0).collect();
    all.sort_by(|one, other| other.value.total_cmp(&one.value));
    let name = |level: &&Level| match level.group.as_str() {
        "" => format!("{} in {}", level.value, level.topic),
        group => format!("{} in {} by {group}", level.value, level.topic),
    };
    let mut text = all.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    if all.len() > NAMED {
        text += &format!(" and {} more", all.len() - NAMED);
    }
    text
}

#[cfg(test)]
mod tests {
    use event::Durability;

    use super::*;

    fn level(gauge: Gauge, topic: &str, group: &str, value: f64) -> Level {
        Level { gauge, topic: topic.to_owned(), group: group.to_owned(), value }
    }

    fn seen(levels: &[Level]) -> Inspection {
        Inspection { levels: levels.to_vec(), ..Inspection::of(Durability::Durable) }
    }

    #[test]
    fn who_is_behind_and_what_is_dead_is_named_the_most_first() {
        let levels = [
            level(Gauge::Lag, "a", "g", 1.0),
            level(Gauge::Lag, "b", "g", 5.0),
            level(Gauge::Lag, "c", "g", 0.0),
            level(Gauge::Dead, "b.dead", "", 2.0),
            level(Gauge::Disk, "", "", 0.614),
        ];
        let said = findings("sink there", "nats", &seen(&levels));
        let told: Vec<_> = said.iter().map(|it| (it.grade, it.what.as_str())).collect();
        let expected = [
            (Grade::Good, "sink there: lag"),
            (Grade::Warn, "sink there: dead"),
            (Grade::Good, "sink there: disk"),
        ];
        assert_eq!(told, expected);
        assert_eq!(said[0].detail, "6 not taken in yet: 5 in b by g, 1 in a by g");
        assert!(said[1].detail.starts_with("2 given up: 2 in b.dead;"), "{said:?}");
        assert_eq!(said[2].detail, "61 % used");
        let many: Vec<Level> =
            (0..9).map(|n| level(Gauge::Lag, &n.to_string(), "g", 1.0)).collect();
        assert!(findings("s", "nats", &seen(&many))[0].detail.ends_with(" and 6 more"));
        let none = [level(Gauge::Dead, "a.dead", "", 0.0), level(Gauge::Retry, "a", "g", 0.0)];
        let said = findings("s", "nats", &seen(&none));
        assert_eq!((said.len(), said[0].grade), (1, Grade::Good), "{said:?}");
    }

    #[test]
    fn that_nothing_waits_is_said_only_where_all_was_told() {
        let levels = [level(Gauge::Lag, "a", "g", 0.0), level(Gauge::Dead, "a.dead", "", 0.0)];
        let said = |seen: &Inspection| {
            let said = findings("s", "kafka", seen).into_iter().map(|it| it.detail);
            said.collect::<Vec<_>>().join("; ")
        };
        let mut part = seen(&levels);
        assert_eq!(said(&part), "every group has taken in everything; nothing was given up");
        part.findings.push(Finding::new(Grade::Warn, "lag", "a broker is silent"));
        assert!(!said(&part).contains("everything") && !said(&part).contains("nothing"));
        part.levels = vec![level(Gauge::Lag, "a", "g", 2.0)];
        assert!(said(&part).starts_with("at least 2 not taken in yet"), "{}", said(&part));
    }

    #[test]
    fn how_full_it_is_says_of_what() {
        let said = |kind| {
            let seen = seen(&[level(Gauge::Disk, "", "", 0.5)]);
            let Finding { what, detail, .. } = findings("s", kind, &seen).remove(0);
            format!("{what}: {detail}")
        };
        assert_eq!(said("rocketmq"), "s: disk: 50 % used");
        assert_eq!(said("rabbitmq"), "s: disk: disk_free_limit is 50 % of what is free");
        assert_eq!(said("redis"), "s: memory: 50 % of the memory that it may have is used");
    }
}
