//! Suggests the known name that a misspelt one is nearest to.

/// The candidate nearest to `found`, if it is near enough to be a slip of the pen.
pub fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (found.chars().count() / 3).max(1);
    let near = candidates
        .into_iter()
        .map(|candidate| (distance(found, candidate), candidate))
        .filter(|(d, _)| *d <= allowed);
    near.min_by_key(|(d, _)| *d).map(|(_, candidate)| candidate)
}

/// Single characters inserted, deleted, replaced or swapped with their neighbour that turn `a` into
/// `b`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let keys = ["page", "pages-per-block", "oob", "preset", "erase"];
        let cases = [
            ("pags", Some("page")),
            ("page-per-block", Some("pages-per-block")),
            ("rpeset", Some("preset")),
            ("ersae", Some("erase")),
            ("voltage", None),
            ("", None),
        ];
        for (found, expected) in cases {
            assert_eq!(nearest(found, keys), expected, "{found}");
        }
    }
}
