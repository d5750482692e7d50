//! A mount that goes on filling the block that was being filled, after a cut in the middle of a
//! program.

use crate::common::{bytes, chip, put};
use nandlab_jffs2::{Compression, Jffs2, Options, Severity};
use nandlab_mtd::Page;
use nandlab_nand::{Chip, Fate, LoggedKind, LoggedOp};
use nandlab_vfs::{FileSystem, Ino, Sync};

/// The words with which the chip leaves a torn page readable, unreadable, and looking erased.
const WHOLE: u64 = 0;
const UNREADABLE: u64 = 1;
const BLANK: u64 = 2;

fn options() -> Options {
    Options {
        compression: Compression::NONE,
        summary: false,
        sync_collects: false,
        resume: true,
        ..Options::default()
    }
}

fn programmed(op: &LoggedOp) -> Option<Page> {
    match op.kind {
        LoggedKind::Program { page, .. } => Some(page),
        _ => None,
    }
}

/// A chip whose last program a cut has torn, and the page that it was for.
fn cut_in_the_last_program(word: u64) -> (Chip, Page) {
    let mut fs = Jffs2::mount(chip(12, 16), options()).unwrap();
    put(&mut fs, Ino::ROOT, "kept", &bytes(1, 3000));
    fs.sync().unwrap();
    let mut base = fs.mtd_mut().fork().unwrap();
    fs.mtd_mut().start_log();
    let file = put(&mut fs, Ino::ROOT, "torn", &bytes(2, 1000));
    fs.fsync(file, Sync::All).unwrap();
    let log = fs.mtd_mut().take_log();
    let last = log.iter().rposition(|op| programmed(op).is_some()).unwrap();
    for op in &log[..last] {
        base.replay(&op.kind, Fate::Done).unwrap();
    }
    base.replay(&log[last].kind, Fate::Torn(word)).unwrap();
    (base, programmed(&log[last]).unwrap())
}

/// The chip refuses to program a page that only looks erased, so a write that does not skip it
/// fails.
#[test]
fn a_resumed_write_skips_the_page_that_a_cut_may_have_torn() {
    for word in [WHOLE, UNREADABLE, BLANK] {
        let (mut chip, torn) = cut_in_the_last_program(word);
        chip.start_log();
        let mut fs = Jffs2::mount(chip, options()).unwrap();
        let file = put(&mut fs, Ino::ROOT, "next", &bytes(3, 1500));
        fs.fsync(file, Sync::All)
            .unwrap_or_else(|error| panic!("word {word}: {error} ({:?})", fs.fault()));
        let mut chip = fs.into_mtd();
        let log = chip.take_log();
        let first = log.iter().find_map(programmed).unwrap();
        // Nodes behind an unreadable page would make it look damaged: another block is taken.
        let resumes = first.0 / 16 == torn.0 / 16;
        assert_eq!(
            resumes,
            word != UNREADABLE,
            "word {word}: {first:?} behind {torn:?}"
        );
        let skipped = u32::from(word == WHOLE) + 1;
        assert!(
            !resumes || first.0 == torn.0 + skipped,
            "word {word}: {first:?} behind {torn:?}"
        );
        let mut fs = Jffs2::mount(chip, options()).unwrap();
        for (name, contents) in [("kept", bytes(1, 3000)), ("next", bytes(3, 1500))] {
            let file = fs.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
            let mut found = vec![0; contents.len()];
            assert_eq!(
                fs.read(file, 0, &mut found),
                Ok(contents.len()),
                "word {word}: {name}"
            );
            assert!(found == contents, "word {word}: {name}");
        }
        let findings = fs.check().unwrap().findings;
        let lost: Vec<_> = findings
            .iter()
            .filter(|f| f.severity() == Severity::Damage)
            .collect();
        assert!(lost.is_empty(), "word {word}: {lost:?}");
    }
}
