//! Rules for the words of the documents: words with a plain replacement, sentences that hide their
//! subject, and a ratchet on long sentences.

use super::Findings;

/// Words that a reader stumbles on, and the word to use.
const WORDS: &[(&str, &str)] = &[
    ("settle", "mark clean"),
    ("settles", "marks clean"),
    ("told", "reported"),
    ("publication", "paper"),
    ("publications", "papers"),
    ("crew", "workers"),
    ("whoever", "the name of the one who does it"),
    ("quick way", "fast path"),
    ("not there any more", "removed"),
];
/// A sentence with such a first word has a riddle as its subject.
const RIDDLES: &[&str] = &["What", "Who", "Whoever", "Whether"];
/// A sentence with more words is long.
const WORDS_MAX: usize = 30;
/// Long sentences in all documents. A ratchet: lower it when they become fewer.
const LONG_MAX: usize = 50;

/// Reports findings in all documents, each given as its path and its text.
pub fn check(documents: &[(String, String)], findings: &mut Findings) {
    let mut long = Vec::new();
    for (name, text) in documents {
        for (at, line) in prose(text) {
            for (word, better) in WORDS.iter().filter(|(word, _)| has(&line, word)) {
                findings.push(format!(
                    "{name}:{at}: \"{word}\" in \"{}\"; write \"{better}\"",
                    line.trim()
                ));
            }
        }
        for (at, sentence) in sentences(text) {
            let first = sentence.split_whitespace().next().unwrap_or_default();
            if RIDDLES.contains(&first) && !sentence.ends_with('?') {
                findings.push(format!(
                    "{name}:{at}: \"{sentence}\" starts with \"{first}\"; name the subject"
                ));
            }
            if sentence.split_whitespace().count() > WORDS_MAX {
                long.push(format!("{name}:{at}"));
            }
        }
    }
    if long.len() > LONG_MAX {
        findings.push(format!(
            "{} sentences have more than {WORDS_MAX} words, at most {LONG_MAX} may: {}",
            long.len(),
            long.join(" ")
        ));
    }
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

/// The numbered lines outside fences, without code in backquotes.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, at) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            found.push((at, String::new()));
        } else if !fenced {
            let words = line.split('`').step_by(2).collect::<Vec<_>>();
            found.push((at, words.join("X")));
        }
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
    fn long_sentences_are_counted() {
        let long = format!("{}end. ", "word ".repeat(WORDS_MAX));
        assert_eq!(findings(&long.repeat(LONG_MAX)), Findings::new());
        assert_eq!(findings(&long.repeat(LONG_MAX + 1)).len(), 1);
    }
}
