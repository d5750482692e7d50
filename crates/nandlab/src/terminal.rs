//! What the terminal can show, as the environment says: how wide it is and which characters it has.
//!
//! *Promises.* `COLUMNS` decides the width where it is set; otherwise the terminal is asked. In a
//! locale without UTF-8 the command's own characters are ASCII: lines, units, dashes. Names of the
//! user stay as they are, whatever the locale. *Knows nothing of* what is printed.

use std::borrow::Cow;
use std::env;

/// The least width that is taken seriously.
const COLUMNS_LEAST: usize = 20;
/// The least length of a progress bar.
const BAR_LEAST: usize = 10;

/// The width that the user wants.
pub fn columns() -> Option<usize> {
    let columns = env::var("COLUMNS").ok()?.trim().parse().ok()?;
    (columns >= COLUMNS_LEAST).then_some(columns)
}

/// The bar of a progress line, with so many characters beside it, in a template.
pub fn bar(beside: usize) -> String {
    bar_within(columns(), beside)
}

fn bar_within(columns: Option<usize>, beside: usize) -> String {
    match columns {
        None => "{wide_bar}".into(),
        Some(columns) => format!("{{bar:{}}}", columns.saturating_sub(beside).max(BAR_LEAST)),
    }
}

/// Text of the command itself, as the locale can show it.
pub fn shown(text: &str) -> Cow<'_, str> {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    if text.is_ascii() || is_utf8(locale.as_deref()) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(plain).collect())
    }
}

/// Without a locale it is that of C, which has ASCII only.
fn is_utf8(locale: Option<&str>) -> bool {
    let locale = locale.unwrap_or("C").to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A character of ours in ASCII.
fn plain(character: char) -> Cow<'static, str> {
    match character {
        '─' | '━' | '╌' | '┄' | '–' => "-".into(),
        '═' => "=".into(),
        '│' | '┃' => "|".into(),
        '┌'..='╋' | '╒'..='╬' => "+".into(),
        '█' | '▀'..='▟' => "#".into(),
        'µ' => "u".into(),
        '×' => "x".into(),
        '…' => "...".into(),
        '’' => "'".into(),
        '\u{a0}' | '\u{202f}' => " ".into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_takes_what_the_width_leaves_it() {
        assert_eq!(bar_within(None, 30), "{wide_bar}");
        assert_eq!(bar_within(Some(60), 28), "{bar:32}");
        assert_eq!(bar_within(Some(20), 28), "{bar:10}");
    }

    #[test]
    fn only_a_locale_that_names_utf_8_has_it() {
        for locale in ["C.UTF-8", "de_DE.utf8", "en_GB.UTF-8@euro"] {
            assert!(is_utf8(Some(locale)), "{locale}");
        }
        for locale in [None, Some("C"), Some("POSIX"), Some("de_DE.ISO-8859-1")] {
            assert!(!is_utf8(locale), "{locale:?}");
        }
    }

    #[test]
    fn our_characters_have_a_plain_form_and_those_of_names_stay() {
        let text: String = "1 µs ─═ 2 × 3…".chars().map(plain).collect();
        assert_eq!(text, "1 us -= 2 x 3...");
        assert_eq!("größer".chars().map(plain).collect::<String>(), "größer");
    }
}
