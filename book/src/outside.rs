//! Links from the book to files outside `docs/`: the built book gets copies of these files.

use crate::links::{self, Target};
use mdbook_driver::book::{Book, BookItem, Chapter};
use mdbook_driver::errors::Result;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The directory of the copies in the built book.
const COPIES: &str = "source";

/// Makes links that leave `docs/` lead to copies.
pub struct Outside {
    root: PathBuf,
    copies: Copies,
}

/// The files to copy, as paths in the checkout.
#[derive(Clone)]
pub struct Copies {
    root: PathBuf,
    files: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Outside {
    pub fn new(root: &Path) -> Self {
        let copies = Copies {
            root: root.into(),
            files: Arc::default(),
        };
        Self {
            root: root.into(),
            copies,
        }
    }

    /// Returns the list of copies, which fills while the book is built.
    pub fn copies(&self) -> Copies {
        self.copies.clone()
    }

    fn rewrite(&self, chapter: &mut Chapter) {
        let Some(path) = &chapter.path else {
            return;
        };
        let page = Path::new("docs").join(path);
        let up = "../".repeat(path.components().count() - 1);
        let mut content = chapter.content.clone();
        // From the last link to the first, so that earlier offsets stay valid.
        for link in links::of(&chapter.content).into_iter().rev() {
            let Some(Target::File(file, _)) = links::target(&self.root, &page, &link.url) else {
                continue;
            };
            if file.starts_with("docs") {
                continue;
            }
            let text = &chapter.content[link.range.clone()];
            let copy = format!("]({up}{COPIES}/{}.txt", file.display());
            let rewritten = text.replace(&format!("]({}", link.url), &copy);
            content.replace_range(link.range, &rewritten);
            self.copies.add(file);
        }
        chapter.content = content;
    }
}

impl Preprocessor for Outside {
    fn name(&self) -> &str {
        "outside"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        book.for_each_mut(|item| {
            if let BookItem::Chapter(chapter) = item {
                self.rewrite(chapter);
            }
        });
        Ok(book)
    }
}

impl Copies {
    fn add(&self, file: PathBuf) {
        self.files.lock().expect("no thread panicked").insert(file);
    }

    /// Writes the copies into the built book, as text that a browser shows.
    pub fn write(&self, book: &Path) -> std::result::Result<(), String> {
        for file in self.files.lock().expect("no thread panicked").iter() {
            let name = format!("{COPIES}/{}.txt", file.display());
            let copy = book.join(name);
            let failed = |error| format!("{}: {error}", copy.display());
            fs::create_dir_all(copy.parent().expect("it lies in the book")).map_err(failed)?;
            fs::copy(self.root.join(file), &copy).map_err(failed)?;
        }
        Ok(())
    }
}
