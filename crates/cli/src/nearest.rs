//! Which known name somebody probably meant.

/// Returns the name nearest to what was written, if one is near enough to suggest.
pub(crate) fn nearest<'a>(
    written: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let far = (written.chars().count() / 3).max(1);
    let near = names.into_iter().map(|name| (distance(written, name), name));
    near.filter(|(distance, _)| *distance <= far).min_by_key(|(distance, _)| *distance).map(|n| n.1)
}

/// Returns `; did you mean …?`, or nothing.
pub(crate) fn suggestion<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, names).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Counts the letters to add, drop, change or swap with a neighbour to get from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i.max(j)
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_a_stranger_is_not() {
        let names = ["batch", "bytes", "lease", "keep_sent"];
        assert_eq!(nearest("bacth", names), Some("batch"));
        assert_eq!(nearest("keepsent", names), Some("keep_sent"));
        assert_eq!(nearest("LEASE", names), Some("lease"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(suggestion("byte", names), "; did you mean `bytes`?");
    }
}
