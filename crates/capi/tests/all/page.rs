//! The program and the output that the page for C shows.

use crate::build::{Link, compile, folder, printed, run};
use std::fs;

/// The text of the page `docs/own-layer-c.md`.
pub fn text() -> String {
    fs::read_to_string(folder().join("../../docs/own-layer-c.md")).unwrap()
}

/// The first block of the page in a language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let begin = format!("```{language}\n");
    let (_, rest) = page.split_once(&begin).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_program_of_the_page_prints_what_the_page_shows() {
    let page = text();
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("first.c");
    fs::write(&source, block(&page, "c")).unwrap();
    let program = compile(
        "first",
        Link::Static,
        &[source.to_str().unwrap()],
        scratch.path(),
    );
    assert_eq!(printed(&run(&program)), block(&page, "text"));
}
