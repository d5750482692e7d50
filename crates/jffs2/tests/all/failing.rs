//! Flash that fails under a mount: a call that returns well has kept its promise, and what cannot
//! be read is an error.

use crate::common::{Dump, NAND, NOW, SMALL, bytes, mkdir, nand, put, read_only};
use nandlab_jffs2::{Compression, Finding, Jffs2, Options, Severity};
use nandlab_mtd::{Fault, FaultInjector, Mtd, Page};
use nandlab_sim::{Schedule, mix};
use nandlab_vfs::{Errno, FileSystem, Ino, SetAttr, Sync, tree};
use std::collections::BTreeMap;

type Faulty = FaultInjector<Dump>;

/// Few small blocks, so that a short run collects garbage.
const BLOCKS: u32 = 14;
/// Contents that fill about half of the medium and are not written again.
const KEPT: usize = 90_000;

fn plain(sync_collects: bool) -> Options {
    Options {
        compression: Compression::NONE,
        sync_collects,
        ..Options::default()
    }
}

/// A medium with the file `kept`, mounted, nothing of it waiting.
fn mounted(options: Options) -> (Jffs2<Faulty>, Ino) {
    mounted_on(nand(SMALL, BLOCKS), options)
}

fn mounted_on(medium: Dump, options: Options) -> (Jffs2<Faulty>, Ino) {
    let mut fs = Jffs2::mount(FaultInjector::new(medium), options).unwrap();
    let kept = put(&mut fs, Ino::ROOT, "kept", &bytes(1, KEPT));
    put(&mut fs, Ino::ROOT, "churn", b"");
    fs.fsync(kept, Sync::All).unwrap();
    (fs, kept)
}

/// The contents of a file as a mount finds them after the power was cut now.
fn after_cut(fs: &mut Jffs2<Faulty>, name: &[u8]) -> Vec<u8> {
    let medium = fs.mtd_mut().inner_mut().clone();
    let mut again = read_only(medium);
    let attr = again.lookup(Ino::ROOT, name).unwrap();
    let mut found = vec![0; attr.size as usize];
    assert_eq!(again.read(attr.ino, 0, &mut found), Ok(found.len()));
    found
}

#[test]
fn an_fsync_fails_if_no_program_succeeds() {
    for sync_collects in [true, false] {
        for (len, format) in [1, 500, 4096, 20_000]
            .into_iter()
            .flat_map(|len| [(len, SMALL), (len, NAND)])
        {
            let (mut fs, kept) = mounted_on(nand(format, BLOCKS), plain(sync_collects));
            fs.mtd_mut().add(Fault::program(..));
            let data = bytes(2, len);
            let written = fs.write(kept, 700, &data, NOW);
            let outcome = written.and_then(|_| fs.fsync(kept, Sync::All));
            assert_eq!(outcome, Err(Errno::Io), "{len} bytes, {sync_collects}");
            assert!(after_cut(&mut fs, b"kept") == bytes(1, KEPT));
        }
    }
}

#[test]
fn an_fsync_that_collects_waits_for_what_a_failed_page_moved() {
    let mut rescued = 0;
    for (format, failures) in [SMALL, NAND]
        .into_iter()
        .flat_map(|f| (0..8).map(move |n| (f, n)))
    {
        let (mut fs, kept) = mounted_on(nand(format, BLOCKS), plain(true));
        // Names and small nodes: a pass of the collector moves less than a page.
        for number in 0..200 {
            let name = format!("small {number}");
            put(&mut fs, Ino::ROOT, &name, &bytes(number, 60));
        }
        while fs.due().is_some() {
            FileSystem::work(&mut fs, NOW).unwrap();
        }
        fs.sync().unwrap();
        let fails = Schedule::first(failures);
        fs.mtd_mut().add(Fault::program(..).when(fails));
        let mut expected = bytes(1, KEPT);
        expected[700..1000].copy_from_slice(&bytes(2, 300));
        fs.write(kept, 700, &bytes(2, 300), NOW).unwrap();
        if fs.fsync(kept, Sync::All).is_ok() {
            rescued += u32::from(failures > 0);
            assert!(
                after_cut(&mut fs, b"kept") == expected,
                "{failures} failures"
            );
        }
    }
    assert!(
        rescued > 2,
        "{rescued} times a page failed and the call went well"
    );
}

#[test]
fn what_an_fsync_promised_is_there_whichever_program_fails() {
    for seed in 0..40 {
        let (mut fs, _) = mounted(plain(seed % 2 == 0));
        let churn = fs.lookup(Ino::ROOT, b"churn").unwrap().ino;
        let rate = [0.02, 0.1, 0.3][seed as usize % 3];
        fs.mtd_mut()
            .add(Fault::program(..).when(Schedule::random(seed, rate)));
        let mut expected = Vec::new();
        for step in 0..60 {
            let word = mix(seed, step);
            let at = word as usize % (expected.len() + 1);
            let data = bytes(word, 1 + (word >> 32) as usize % 3000);
            let written = fs.write(churn, at as u64, &data, NOW);
            if written != Ok(data.len()) || fs.fsync(churn, Sync::All).is_err() {
                break;
            }
            expected.resize(expected.len().max(at + data.len()), 0);
            expected[at..at + data.len()].copy_from_slice(&data);
            if expected.len() > 8000 {
                expected.truncate(0);
                let empty = SetAttr {
                    size: Some(0),
                    ..SetAttr::default()
                };
                if fs.setattr(churn, &empty, NOW).is_err() || fs.fsync(churn, Sync::All).is_err() {
                    break;
                }
            }
            assert!(
                after_cut(&mut fs, b"churn") == expected,
                "seed {seed}, step {step}"
            );
            assert!(
                after_cut(&mut fs, b"kept") == bytes(1, KEPT),
                "seed {seed}, step {step}"
            );
        }
    }
}

/// A tree whose files were each written once, and its medium.
fn written_once(options: Options) -> (Dump, Tree) {
    let mut fs = Jffs2::mount(nand(SMALL, BLOCKS), options).unwrap();
    for number in 0..12u64 {
        let dir = mkdir(&mut fs, Ino::ROOT, &format!("directory {number}"));
        put(&mut fs, dir, "file", &bytes(number, 700 * number as usize));
    }
    let file = put(&mut fs, Ino::ROOT, "long", &bytes(99, 40_000));
    fs.unmount().unwrap();
    fs.forget(file, 1);
    let mut again = Jffs2::mount(fs.into_mtd(), options).unwrap();
    let tree = files_of(&mut again).unwrap();
    (again.into_mtd(), tree)
}

type Tree = BTreeMap<Vec<u8>, Vec<u8>>;

/// The contents of all files; an error where a part of the tree cannot be had.
fn files_of<M: Mtd>(fs: &mut Jffs2<M>) -> Result<Tree, Errno> {
    let entries = tree::snapshot(fs)?.into_iter();
    Ok(entries
        .map(|(path, entry)| (path, entry.contents))
        .collect())
}

/// Each page in turn cannot be corrected. What is read then is as it was written.
fn assert_no_page_is_lost_silently(options: Options) -> (u32, u32) {
    let (medium, tree) = written_once(options);
    let pages = medium.geometry().pages();
    let mut refused = 0;
    let mut shown = 0;
    let mut ends = 0;
    for page in (0..pages).map(Page) {
        let mut faulty = FaultInjector::new(medium.clone());
        faulty.add(Fault::uncorrectable(page..=page));
        let mut fs = Jffs2::mount(
            faulty,
            Options {
                read_only: true,
                ..options
            },
        )
        .unwrap();
        let found = files_of(&mut fs);
        let report = fs.check().unwrap();
        let damaged = report.worst() == Some(Severity::Damage);
        match found {
            Ok(found) if found == tree => {}
            Ok(found) => {
                // Where the head of the newest node is gone nobody knows of it, nor of a name.
                let unknown = report.findings.iter().any(Finding::is_unknown);
                // At the end of the log a power cut may have interrupted the write.
                let is_end =
                    |finding: &Finding| matches!(finding, Finding::Page { torn: true, .. });
                ends += u32::from(report.findings.iter().any(is_end));
                assert!(
                    unknown && (damaged || ends == 1),
                    "{page:?}: {:?}",
                    report.findings
                );
                for (path, contents) in &found {
                    let whole = &tree[path];
                    assert!(
                        whole.starts_with(contents),
                        "{page:?}: {}: {} bytes: {:?}",
                        path.escape_ascii(),
                        contents.len(),
                        report.findings
                    );
                }
                shown += 1;
            }
            Err(error) => {
                assert_eq!(error, Errno::Io, "{page:?}");
                assert!(damaged, "{page:?}: {:?}", report.findings);
                refused += 1;
            }
        }
    }
    (refused, shown)
}

#[test]
fn no_page_that_cannot_be_read_becomes_zeros() {
    let without_lists = Options {
        summary: false,
        ..plain(true)
    };
    let (refused, shown) = assert_no_page_is_lost_silently(without_lists);
    assert!(
        refused > 60 && shown < 30,
        "{refused} refused, {shown} reported"
    );
    let (refused, shown) = assert_no_page_is_lost_silently(plain(true));
    assert!(
        refused > 60 && shown < 10,
        "{refused} refused, {shown} reported"
    );
}

/// Overwrites a file until each block was collected at least once.
fn churn<M: Mtd>(fs: &mut Jffs2<M>) {
    let file = put(fs, Ino::ROOT, "churned", b"");
    for step in 0..400 {
        let at = step % 4 * 2000;
        if fs.write(file, at, &bytes(step, 2000), NOW).is_err() {
            break;
        }
        _ = FileSystem::work(fs, NOW);
    }
    fs.forget(file, 1);
    fs.unmount().unwrap();
}

#[test]
fn what_cannot_be_read_stays_an_error_when_its_block_is_collected() {
    let (medium, tree) = written_once(plain(true));
    let whole = &tree[&b"long"[..]];
    let mut refused = 0;
    for page in (0..medium.geometry().pages()).step_by(3).map(Page) {
        let mut faulty = FaultInjector::new(medium.clone());
        faulty.add(Fault::uncorrectable(page..=page));
        let mut fs = Jffs2::mount(faulty, plain(true)).unwrap();
        let read = |fs: &mut Jffs2<Faulty>| {
            let attr = fs.lookup(Ino::ROOT, b"long")?;
            let mut found = vec![0; attr.size as usize];
            let outcome = fs.read(attr.ino, 0, &mut found);
            fs.forget(attr.ino, 1);
            outcome.map(|_| found)
        };
        if read(&mut fs) != Err(Errno::Io) {
            continue;
        }
        let before = fs.check().unwrap().findings;
        churn(&mut fs);
        let erased = fs.into_mtd();
        let mut again = Jffs2::mount(erased, plain(true)).unwrap();
        match read(&mut again) {
            Err(Errno::Io) => refused += 1,
            // The page was read before, and its contents moved.
            Ok(found) => assert!(found == *whole, "{page:?}"),
            Err(other) => panic!(
                "{page:?}: {other} {:?} {:?}",
                again.check().unwrap().findings,
                before
            ),
        }
    }
    assert!(refused > 10, "{refused} refused");
}
