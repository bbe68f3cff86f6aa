//! The load of a destination as the doctor says it: who is behind, and what was given up.

use event::{Finding, Gauge, Grade, Inspection, Level};

/// Places that are named at the most.
const NAMED: usize = 3;

/// Says what a destination tells of its load.
pub(super) fn findings(what: &str, levels: &[Level]) -> Vec<Finding> {
    let say = |gauge: Gauge| {
        let total = Inspection::total(levels, gauge)?;
        let places = places(levels, gauge);
        let (grade, detail) = match gauge {
            Gauge::Disk => (Grade::Good, format!("{:.0} % used", total * 100.0)),
            Gauge::Lag if total == 0.0 => {
                (Grade::Good, "every group has taken in everything".to_owned())
            }
            Gauge::Lag => (Grade::Good, format!("{total} not taken in yet: {places}")),
            Gauge::Retry if total == 0.0 => return None,
            Gauge::Retry => {
                let detail = format!("{total} wait to be handed out again: {places}; look why");
                (Grade::Warn, detail)
            }
            Gauge::Dead if total == 0.0 => (Grade::Good, "nothing was given up".to_owned()),
            Gauge::Dead => {
                let detail = format!(
                    "{total} given up: {places}; read them with the broker's own tools, and \
                     publish them again or drop them"
                );
                (Grade::Warn, detail)
            }
        };
        Some(Finding::new(grade, format!("{what}: {}", gauge.as_str()), detail))
    };
    Gauge::ALL.into_iter().filter_map(say).collect()
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
    use super::*;

    fn level(gauge: Gauge, topic: &str, group: &str, value: f64) -> Level {
        Level { gauge, topic: topic.to_owned(), group: group.to_owned(), value }
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
        let said = findings("sink there", &levels);
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
        assert!(findings("s", &many)[0].detail.ends_with(" and 6 more"));
        let none = [level(Gauge::Dead, "a.dead", "", 0.0), level(Gauge::Retry, "a", "g", 0.0)];
        let said = findings("s", &none);
        assert_eq!((said.len(), said[0].grade), (1, Grade::Good), "{said:?}");
    }
}
