//! The test images of e2fsprogs: our check agrees with e2fsck on each, or the list says why not.
//!
//! The images come from Debian's source package and are not kept here. `images.txt` lists each of
//! them with both verdicts and the outcome of our repair. A difference has a reason there.

mod images;
mod judges;
mod list;
mod walk;

use images::Image;
use judges::{Ours, Repaired, Theirs};
use list::Row;
use nandlab_testkit::share::whole_or;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The list of expectations.
const LIST: &str = include_str!("images.txt");

/// Threads that judge images. An image takes up to 80 MB of memory.
const THREADS: usize = 4;

/// Judges one image.
fn seen(image: &Image) -> Row {
    let mut disk = image.disk();
    let theirs = judges::theirs(&mut disk);
    let ours = judges::ours(&disk);
    walk::read_everything(&disk);
    let sound = theirs == Theirs::Sound && ours.verdict == Ours::Sound;
    let repaired = match sound {
        true => (Repaired::Nothing, String::new()),
        false => judges::repaired(&disk),
    };
    Row {
        name: image.name.clone(),
        theirs,
        ours: ours.verdict,
        repaired: repaired.0,
        found: format!("{}; {}", ours.words, repaired.1),
    }
}

/// Judges all images on a few threads; gives the rows in the order of the names, and the panics.
fn judged(images: &[Image]) -> (Vec<Row>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(image) = images.get(next.fetch_add(1, Relaxed)) {
                    let row = std::panic::catch_unwind(|| seen(image));
                    let row = row.map_err(|_| format!("{} panics", image.name));
                    rows.lock().unwrap().push(row);
                }
            });
        }
    });
    let rows = rows.into_inner().unwrap().into_iter();
    let panics = rows.clone().filter_map(Result::err).collect();
    let mut rows: Vec<Row> = rows.flatten().collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    (rows, panics)
}

#[test]
fn our_check_agrees_with_e2fsck_on_each_image_but_for_listed_reasons() {
    let scratch = tempfile::tempdir().unwrap();
    let images = images::unpacked(scratch.path());
    let mut expected = list::parse(LIST);
    // A sample takes each fifth.
    let mut tried = Vec::new();
    for (at, image) in images.there.into_iter().enumerate() {
        if at.is_multiple_of(whole_or(1, 5)) {
            tried.push(image);
        } else {
            expected.rows.remove(&image.name);
        }
    }
    let judged = judged(&tried);
    let rows = judged.0;
    let mut wrong = judged.1;
    println!("{}", list::summary(&rows));
    wrong.extend(list::differences(&expected.rows, &rows));
    wrong.extend(list::differences_of_names(
        &expected.without,
        &images.without,
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
