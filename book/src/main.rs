//! Checks the links of all documents, then builds the book of `docs/` into `target/book`. With the
//! argument `front` it renders the README instead.
//!
//! Every warning of mdBook is an error. Links from the book to files outside `docs/` lead to copies
//! of these files in the built book, so that the book can be read without the checkout.

mod front;
mod links;
mod outside;
mod warnings;

use mdbook_driver::MDBook;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate lies in the checkout");
    if std::env::args().any(|word| word == "front") {
        return match front::write(root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    let findings = match links::check(root) {
        Ok(findings) => findings,
        Err(why) => vec![why],
    };
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        return ExitCode::FAILURE;
    }
    match build(root) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(count) => {
            eprintln!("mdBook gave {count} warnings; correct the pages that they name");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the book and returns the number of warnings.
fn build(root: &Path) -> Result<u32, String> {
    let warnings = warnings::listen();
    let mut book = MDBook::load(root).map_err(|error| format!("book.toml: {error:#}"))?;
    let outside = outside::Outside::new(root);
    let copies = outside.copies();
    book.with_preprocessor(outside);
    book.build().map_err(|error| format!("mdBook: {error:#}"))?;
    copies.write(&root.join("target/book"))?;
    Ok(warnings.count())
}
