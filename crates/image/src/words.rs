//! Parts of messages.

use std::borrow::Cow;

/// Whether a terminal would obey a character instead of showing it: control characters, and those
/// that change the direction or the lines of a text.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A text for a terminal: hidden characters are escaped, lines and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |character| is_hidden(character) && !matches!(character, '\n' | '\t');
    if !text.contains(hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

/// Words with the byte that they are about, unless they name it themselves.
pub fn placed(at: Option<u64>, what: &str) -> String {
    let named =
        |at: u64| what.contains(&format!("byte {at} ")) || what.contains(&format!("byte {at:#x}"));
    match at {
        Some(at) if !named(at) => format!("at byte {at}: {what}"),
        _ => what.into(),
    }
}

/// So many of something: `1 file`, `2 files`, `0 entries`.
pub fn counted(count: impl Into<u64>, one: &str) -> String {
    match (count.into(), one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (count, Some(stem)) => format!("{count} {stem}ies"),
        (count, None) => format!("{count} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_more_are_many() {
        let shown = [
            counted(1u64, "file"),
            counted(0u32, "file"),
            counted(1u8, "entry"),
            counted(7u16, "entry"),
        ];
        assert_eq!(shown, ["1 file", "0 files", "1 entry", "7 entries"]);
    }

    #[test]
    fn a_terminal_obeys_no_character_of_a_text() {
        assert_eq!(
            visible("a\x1b[2J\r\u{9b}1m \u{202e}txt.exe\u{2069}\n\tgrößer"),
            "a\\u{1b}[2J\\r\\u{9b}1m \\u{202e}txt.exe\\u{2069}\n\tgrößer"
        );
    }

    #[test]
    fn a_place_is_named_once() {
        assert_eq!(
            placed(Some(12), "block 3: found 5"),
            "at byte 12: block 3: found 5"
        );
        assert_eq!(
            placed(Some(12), "byte 12 lies beyond the end"),
            "byte 12 lies beyond the end"
        );
        assert_eq!(placed(Some(16), "byte 0x10: found 5"), "byte 0x10: found 5");
        assert_eq!(
            placed(Some(12), "byte 123 lies there"),
            "at byte 12: byte 123 lies there"
        );
        assert_eq!(placed(None, "nothing"), "nothing");
    }
}
