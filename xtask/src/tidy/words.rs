//! Rules for the words of documents and comments: words with a plain replacement, sentences that
//! hide their subject, and ratchets on long sentences.

use super::Findings;

/// Words that a reader stumbles on, and the word to use.
const WORDS: &[(&str, &str)] = &[
    ("block of numbers", "block of block pointers"),
    ("blocks of numbers", "blocks of block pointers"),
    ("crew", "workers"),
    ("mend", "repair"),
    ("mended", "repaired"),
    ("mends", "repairs"),
    ("not there any more", "removed"),
    ("publication", "paper"),
    ("publications", "papers"),
    ("quick way", "fast path"),
    ("room for", "space for"),
    ("settle", "mark clean"),
    ("settled", "clean, durable or steady"),
    ("settles", "marks clean"),
    ("told", "reported"),
    ("unsettled", "dirty"),
    ("what waits", "dirty data"),
    ("whoever", "the name of the one who does it"),
];
/// A sentence with such a first word has a riddle as its subject.
const RIDDLES: &[&str] = &["What", "Who", "Whoever", "Whether"];
/// A sentence with more words is long.
const WORDS_MAX: usize = 30;
/// Such words in all comments. A ratchet: lower it when they become fewer.
const WORDS_IN_COMMENTS_MAX: usize = 2;
/// Long sentences in all documents. A ratchet: lower it when they become fewer.
const LONG_MAX: usize = 2;
/// Long sentences in all comments. A ratchet, likewise.
const LONG_COMMENTS_MAX: usize = 2;

/// Reports findings in all documents, each given as its path and its text.
pub fn check(documents: &[(String, String)], findings: &mut Findings) {
    let mut long = Vec::new();
    for (name, text) in documents {
        replaceable(name, text, findings);
        for (at, sentence) in sentences(text) {
            let first = sentence.split_whitespace().next().unwrap_or_default();
            if RIDDLES.contains(&first) && !sentence.ends_with('?') {
                findings.push(format!(
                    "{name}:{at}: \"{sentence}\" starts with \"{first}\"; name the subject"
                ));
            }
            if is_long(&sentence) {
                long.push(format!("{name}:{at}"));
            }
        }
    }
    few_long(&long, "documents", LONG_MAX, findings);
}

/// Reports findings in the comments of all sources, each given as its path and its text.
pub fn check_comments(sources: &[(String, String)], findings: &mut Findings) {
    let mut long = Vec::new();
    let mut words = Findings::new();
    for (name, text) in sources {
        let text = comments(text);
        replaceable(name, &text, &mut words);
        let sentences = sentences(&text).into_iter();
        let places = sentences.filter(|(_, sentence)| is_long(sentence));
        long.extend(places.map(|(at, _)| format!("{name}:{at}")));
    }
    if words.len() > WORDS_IN_COMMENTS_MAX {
        findings.append(&mut words);
    }
    few_long(&long, "comments", LONG_COMMENTS_MAX, findings);
}

/// Reports words that have a plain replacement.
fn replaceable(name: &str, text: &str, findings: &mut Findings) {
    for (at, line) in prose(text) {
        for (word, better) in WORDS.iter().filter(|(word, _)| has(&line, word)) {
            findings.push(format!(
                "{name}:{at}: \"{word}\" in \"{}\"; write \"{better}\"",
                line.trim()
            ));
        }
    }
}

fn is_long(sentence: &str) -> bool {
    sentence.split_whitespace().count() > WORDS_MAX
}

/// Reports the places of long sentences if there are more than the ratchet allows.
fn few_long(places: &[String], whose: &str, most: usize, findings: &mut Findings) {
    let found = places.len();
    if found > most {
        let places = places.join(" ");
        findings.push(format!(
            "{found} sentences of {whose} have more than {WORDS_MAX} words, at most {most} may: \
             {places}"
        ));
    }
}

/// The comments that have lines of their own, on the lines where they are; other lines are empty.
fn comments(source: &str) -> String {
    let mut found = String::new();
    for line in source.lines() {
        let line = line.trim_start();
        let marked = line.strip_prefix("//");
        let comment = marked.map(|rest| rest.trim_start_matches(['/', '!']));
        found.push_str(comment.unwrap_or_default());
        found.push('\n');
    }
    found
}

/// Whether a line has this word, in any case.
fn has(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    let letter = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(letter) && !after.is_some_and(letter)
    })
}

/// The numbered lines outside fences, without code in backquotes and without targets of links.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, at) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            found.push((at, String::new()));
        } else if !fenced {
            let words = line.split('`').step_by(2).collect::<Vec<_>>();
            found.push((at, without_targets(&words.join("X"))));
        }
    }
    found
}

/// Takes the targets out of links.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        found.push(']');
        found.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    found
}

/// The sentences of paragraphs and lists, each with the line where its paragraph starts.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut paragraph = String::new();
    let mut start = 0;
    let mut end = |paragraph: &mut String, start: usize| {
        found.extend(split(paragraph).into_iter().map(|one| (start, one)));
        paragraph.clear();
    };
    for (at, line) in prose(text) {
        let line = line.trim();
        let item = line.strip_prefix("- ").or(line.strip_prefix("* "));
        if line.is_empty() || line.starts_with(['|', '#', '<']) || item.is_some() {
            end(&mut paragraph, start);
        }
        if line.is_empty() || line.starts_with(['|', '#', '<']) {
            continue;
        }
        if paragraph.is_empty() {
            start = at;
        }
        paragraph.push_str(item.unwrap_or(line));
        paragraph.push(' ');
    }
    end(&mut paragraph, start);
    found
}

fn split(paragraph: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let last = found.last_mut().expect("it is never empty");
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
        if word.ends_with(['.', '?', '!', ':', ';']) {
            found.push(String::new());
        }
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Findings {
        let documents = [("a.md".to_owned(), text.to_owned())];
        let mut findings = Findings::new();
        check(&documents, &mut findings);
        findings
    }

    #[test]
    fn a_word_with_a_plain_replacement_is_found_outside_code() {
        let text = "# A\n\nIt is Told.\n`told` retold\n```\ntold\n```\n";
        assert_eq!(
            findings(text),
            ["a.md:3: \"told\" in \"It is Told.\"; write \"reported\""]
        );
    }

    #[test]
    fn a_sentence_with_a_riddle_as_its_subject_is_found() {
        let text = "# What\n\n- A b. What is cut\n  is lost. What is it?\n[What](b.md) is.\n";
        assert_eq!(
            findings(text),
            ["a.md:3: \"What is cut is lost.\" starts with \"What\"; name the subject"]
        );
    }

    #[test]
    fn comments_are_read_and_code_is_not() {
        let comments = [
            "//! It is told.",
            "    /// `told` [a](told)",
            "    // Mended,",
        ];
        let text = format!(
            "{}\nlet told = 1;\n/// A publication.\n",
            comments.join("\n")
        );
        let mut findings = Findings::new();
        check_comments(&[("a.rs".to_owned(), text)], &mut findings);
        assert_eq!(
            findings,
            [
                "a.rs:1: \"told\" in \"It is told.\"; write \"reported\"",
                "a.rs:3: \"mended\" in \"Mended,\"; write \"repaired\"",
                "a.rs:5: \"publication\" in \"A publication.\"; write \"paper\"",
            ]
        );
    }

    #[test]
    fn a_comment_ends_where_code_begins() {
        let half = format!("// {}\n", "word ".repeat(WORDS_MAX));
        let apart = format!("{half}code();\n");
        let together = format!("{half}// end.\ncode();\n");
        for (text, count) in [(apart, 0), (together, 1)] {
            let files = [("a.rs".to_owned(), text.repeat(LONG_COMMENTS_MAX + 1))];
            let mut findings = Findings::new();
            check_comments(&files, &mut findings);
            assert_eq!(findings.len(), count);
        }
    }

    #[test]
    fn long_sentences_are_counted() {
        let long = format!("{}end. ", "word ".repeat(WORDS_MAX));
        assert_eq!(findings(&long.repeat(LONG_MAX)), Findings::new());
        assert_eq!(findings(&long.repeat(LONG_MAX + 1)).len(), 1);
    }
}
