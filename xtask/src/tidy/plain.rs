//! Ratchets on how plainly code reads: bindings, doc comments and the size of functions.

use super::Findings;
use super::blank::{LITERAL, blank};

/// Lets that bind a tuple to a literal tuple, in all files. A ratchet: lower it when they become
/// fewer.
const TUPLE_LETS_MAX: usize = 8;
/// A doc comment with no more words only repeats a name.
const SHORT_DOC_WORDS: usize = 3;
/// Doc comments that short, in all files. A ratchet, likewise.
const SHORT_DOCS_MAX: usize = 75;
/// Tokens that half of all function bodies outside tests do not exceed. A ratchet, likewise.
const MEDIAN_MAX: usize = 55;
/// Tokens that nine tenths of all function bodies outside tests do not exceed. A ratchet, likewise.
const NINE_TENTHS_MAX: usize = 200;
/// Operators of several characters; each is one token.
const OPERATORS: &[&str] = &[
    "..=", "<<=", "->", "=>", "::", "..", "==", "!=", "<=", ">=", "&&", "||", "<<", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=",
];

/// Reports the ratchets that all files together break, each file given as its path and its text.
pub fn check(files: &[(String, String)], findings: &mut Findings) {
    let mut lets = Vec::new();
    let mut docs = Vec::new();
    let mut sizes = Vec::new();
    for (name, text) in files {
        let code = blank(text);
        lets.extend(tuple_lets(&code).map(|at| format!("{name}:{at}")));
        docs.extend(short_docs(text).map(|at| format!("{name}:{at}")));
        if is_measured(name) {
            sizes.extend(bodies(outside_tests(&code)).map(tokens));
        }
    }
    few(
        &lets,
        TUPLE_LETS_MAX,
        "lets bind a tuple to a tuple",
        findings,
    );
    few(
        &docs,
        SHORT_DOCS_MAX,
        "doc comments have three words or fewer",
        findings,
    );
    sizes.sort_unstable();
    small(&sizes, 50, MEDIAN_MAX, findings);
    small(&sizes, 90, NINE_TENTHS_MAX, findings);
}

/// Reports all places if there are more than the ratchet allows.
fn few(places: &[String], most: usize, what: &str, findings: &mut Findings) {
    let found = places.len();
    if found > most {
        let places = places.join(" ");
        findings.push(format!("{found} {what}, at most {most} may: {places}"));
    }
}

/// Reports a percentile of sorted sizes that is above the ratchet.
fn small(sizes: &[usize], percent: usize, most: usize, findings: &mut Findings) {
    let Some(&found) = sizes.get(sizes.len() * percent / 100) else {
        return;
    };
    if found > most {
        findings.push(format!(
            "{percent} % of functions have at most {found} tokens, expected {most}; split the \
             largest by idea"
        ));
    }
}

/// Sizes count in the crates' sources, without the modules of tests.
fn is_measured(name: &str) -> bool {
    name.starts_with("crates/")
        && name.contains("/src/")
        && !name.ends_with("/tests.rs")
        && !name.contains("/tests/")
}

fn outside_tests(code: &str) -> &str {
    code.split("\n#[cfg(test)]").next().unwrap_or_default()
}

/// The lines of lets with parentheses around both sides.
fn tuple_lets(code: &str) -> impl Iterator<Item = usize> {
    code.match_indices("let (").filter_map(|(at, head)| {
        let (_, rest) = closed(&code[at + head.len() - 1..])?;
        let (_, rest) = closed(rest.trim_start().strip_prefix('=')?.trim_start())?;
        let line = code[..at].matches('\n').count() + 1;
        rest.starts_with(';').then_some(line)
    })
}

/// Splits a text that starts with a bracket behind the bracket that closes it.
fn closed(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(['(', '{']) {
        return None;
    }
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(text.split_at(at + 1));
        }
    }
    None
}

/// The last lines of doc comments on items that have too few words to add to the name.
fn short_docs(text: &str) -> impl Iterator<Item = usize> {
    let mut words = 0;
    let mut documented = false;
    let lines = text.lines().chain([""]).enumerate();
    lines.filter_map(move |(before, line)| {
        if let Some(doc) = line.trim_start().strip_prefix("///") {
            words += doc.split_whitespace().count();
            documented = true;
            return None;
        }
        let short = documented && words <= SHORT_DOC_WORDS;
        words = 0;
        documented = false;
        short.then_some(before)
    })
}

/// The text between the braces of each function.
fn bodies(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("fn ").filter_map(|(at, _)| {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let head = &code[at..];
        let (body, _) = closed(&head[opening(head)?..])?;
        body.strip_prefix('{')?.strip_suffix('}')
    })
}

/// Where a function's body opens; `None` if it has no body.
fn opening(head: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in head.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Counts words, literals, operators and other marks. A literal counts once, whatever its length.
fn tokens(body: &str) -> usize {
    let mut rest = body.trim_start();
    let mut count = 0;
    while let Some(first) = rest.chars().next() {
        rest = rest[token(rest, first)..].trim_start();
        count += 1;
    }
    count
}

/// The length of the token that a text starts with.
fn token(text: &str, first: char) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let end = |same: &dyn Fn(char) -> bool| text.find(|c| !same(c)).unwrap_or(text.len());
    if first == LITERAL {
        return end(&|c| c == LITERAL || c.is_whitespace());
    }
    if is_word(first) {
        return end(&is_word);
    }
    let operator = OPERATORS.iter().find(|one| text.starts_with(**one));
    operator.map_or(first.len_utf8(), |one| one.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, text: String) -> Findings {
        let mut findings = Findings::new();
        check(&[(name.to_owned(), text)], &mut findings);
        findings
    }

    #[test]
    fn only_a_literal_tuple_on_both_sides_is_a_tuple_let() {
        let code = "let (a, b) = (\n    1,\n    (2, 3),\n);\n\
                    let (a, b) = f(1, 2);\nlet (a, b) = (f)(1);\n\
                    let (Some(a), b) = (c, d) else {};\nif let (a, b) = (c, d) {}\n\
                    let (a, (b, c)) = (1, d);\n";
        assert_eq!(tuple_lets(code).collect::<Vec<_>>(), [1, 9]);
    }

    #[test]
    fn a_doc_comment_is_as_long_as_all_its_lines() {
        let text = "/// One two three.\nfn a() {}\n/// One two\n/// three four.\nfn b() {}\n\
                    // One.\nfn c() {}\n    /// One.";
        assert_eq!(short_docs(text).collect::<Vec<_>>(), [1, 8]);
    }

    #[test]
    fn bodies_are_those_of_functions_that_have_one() {
        let code = "fn a(x: [u8; 2]) -> u8 where T: B { x[0] }\nfn b(x: u8);\nconst A: fn(u8) = c;\n\
                    impl A { const fn d() {} }";
        let found: Vec<&str> = bodies(code).collect();
        assert_eq!(found, [" x[0] ", ""]);
    }

    #[test]
    fn words_literals_and_operators_are_tokens() {
        for (body, count) in [
            ("", 0),
            (" x[0] ", 4),
            ("a::b(c)?;", 8),
            ("let a_1 = \"two words\";", 5),
            ("(0..=1, 'x')", 7),
            ("a >>= 1; a >= 2", 8),
        ] {
            assert_eq!(tokens(&blank(body)), count, "{body}");
        }
    }

    #[test]
    fn each_ratchet_holds_up_to_its_limit() {
        let source = "crates/a/src/lib.rs";
        let one = "let (a, b) = (1, 2);\n";
        assert_eq!(
            findings(source, one.repeat(TUPLE_LETS_MAX)),
            Findings::new()
        );
        assert_eq!(findings(source, one.repeat(TUPLE_LETS_MAX + 1)).len(), 1);
        let one = "/// One.\nstruct A;\n";
        assert_eq!(
            findings(source, one.repeat(SHORT_DOCS_MAX)),
            Findings::new()
        );
        assert_eq!(findings(source, one.repeat(SHORT_DOCS_MAX + 1)).len(), 1);
        let one = |tokens| format!("fn a() {{{}}}\n", "a ".repeat(tokens));
        assert_eq!(findings(source, one(MEDIAN_MAX)), Findings::new());
        assert_eq!(findings(source, one(MEDIAN_MAX + 1)).len(), 1);
        assert_eq!(findings(source, one(NINE_TENTHS_MAX + 1)).len(), 2);
        assert_eq!(
            findings("crates/a/src/tests.rs", one(NINE_TENTHS_MAX + 1)),
            Findings::new()
        );
    }
}
