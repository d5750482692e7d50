//! Texts of programs in errors that live as long as the process.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The number of different texts; errors of a medium borrow them for good.
const TEXTS_MAX: usize = 64;
/// The length of a text in characters; the rest goes.
const LENGTH_MAX: usize = 200;

/// The text for errors. It keeps equal texts once, and only so many: a program that invents a new
/// text for each call must not fill the memory.
pub fn kept(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let text: String = text.chars().take(LENGTH_MAX).collect();
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text.as_str()) {
        return known;
    }
    if texts.len() >= TEXTS_MAX {
        return "a failure with one text too many of its own";
    }
    let text: &'static str = text.leak();
    texts.insert(text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_kept_once_and_not_without_end() {
        let first = kept("the map is full");
        assert!(std::ptr::eq(first, kept("the map is full")));
        let all: BTreeSet<_> = (0..1000).map(|n| kept(&format!("text {n}"))).collect();
        assert!(all.len() <= TEXTS_MAX + 1);
        assert!(kept(&"x".repeat(1000)).len() <= LENGTH_MAX);
    }
}
