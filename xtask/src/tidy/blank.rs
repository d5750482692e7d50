//! Rust source with comments and literals blanked, so that a rule reads code only.

/// Stands for each character of a literal.
pub const LITERAL: char = '"';

/// Returns `text` with comments as spaces and strings as [`LITERAL`]; lines keep their lengths.
pub fn blank(text: &str) -> String {
    let mut blanker = Blanker {
        rest: text,
        out: String::with_capacity(text.len()),
    };
    while !blanker.rest.is_empty() {
        blanker.step();
    }
    blanker.out
}

struct Blanker<'a> {
    rest: &'a str,
    out: String,
}

impl Blanker<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            self.put(self.rest.find('\n').unwrap_or(self.rest.len()), Some(' '));
        } else if self.rest.starts_with("/*") {
            self.put(comment(self.rest), Some(' '));
        } else if self.rest.starts_with('"') {
            self.put(string(self.rest), Some(LITERAL));
        } else if let Some(length) = raw_string(self.rest).filter(|_| !self.in_word()) {
            self.put(length, Some(LITERAL));
        } else if let Some(length) = character(self.rest) {
            self.put(length, Some(LITERAL));
        } else {
            self.put(1, None);
        }
    }

    /// Moves at least `length` bytes to the output, each character replaced by `mark`.
    fn put(&mut self, length: usize, mark: Option<char>) {
        let length = (length..).find(|at| self.rest.is_char_boundary(*at));
        let (head, rest) = self.rest.split_at(length.unwrap_or(self.rest.len()));
        let marked = |c: char| if c == '\n' { c } else { mark.unwrap_or(c) };
        self.out.extend(head.chars().map(marked));
        self.rest = rest;
    }

    fn in_word(&self) -> bool {
        let before = self.out.strip_suffix('b').unwrap_or(&self.out);
        before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

/// The length of a block comment, which may hold others.
fn comment(text: &str) -> usize {
    let mut depth = 0;
    for at in 0..text.len() {
        match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => depth += 1,
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let inner = after.trim_start_matches('#');
    let hashes = &after[..after.len() - inner.len()];
    let inner = inner.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let start = text.len() - inner.len();
    Some(
        inner
            .find(&end)
            .map_or(text.len(), |at| start + at + end.len()),
    )
}

/// The length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let mut chars = inner.chars();
    let first = chars.next()?;
    if first == '\\' {
        let end = inner.char_indices().skip(2).find(|(_, c)| *c == '\'');
        return end.map(|(at, _)| at + 2);
    }
    (chars.next() == Some('\'')).then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_spaces_and_literals_become_quotes() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ */ d", "a                 d"),
            (r#"f("a\"b", 1)"#, r#"f("""""", 1)"#),
            ("f(r#\"a\"b\"#)", "f(\"\"\"\"\"\"\"\")"),
            ("f(br\"//\") // x", "f(b\"\"\"\"\")     "),
            ("for\"//\"", "for\"\"\"\""),
            (
                "'a' '\\'' '\\u{e9}' 'é' <'a>",
                "\"\"\" \"\"\"\" \"\"\"\"\"\"\"\" \"\"\" <'a>",
            ),
            ("\"é\nb\" é", "\"\"\n\"\" é"),
        ] {
            assert_eq!(blank(text), expected, "{text}");
        }
    }
}
