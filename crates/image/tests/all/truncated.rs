//! An image that ends before its file system does gives what is there, names what is not, and is
//! not written.

use crate::common::{files, formats, made};
use nandlab_block::Image as Disk;
use nandlab_image::check::{Severity, check};
use nandlab_image::edit::edit;
use nandlab_image::file::ImageFile;
use nandlab_image::make::Format;
use nandlab_image::repair::repair;
use nandlab_image::sink::{Bytes, Sink};
use nandlab_image::tree::{Entry, Node};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk::Losses;
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const NOW: Time = Time::new(1_700_000_000);

/// Contents by path; none for what is no file.
type Contents = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Default)]
struct Collector(Contents);

impl Sink for Collector {
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> nandlab_image::Result<()> {
        let mut contents = vec![0; entry.size() as usize];
        bytes.each(&mut |at, part| {
            contents[at as usize..at as usize + part.len()].copy_from_slice(part);
            Ok(())
        })?;
        self.0.insert(
            entry.path.clone(),
            matches!(entry.node, Node::File { .. }).then_some(contents),
        );
        Ok(())
    }

    fn finish(&mut self) -> nandlab_image::Result<()> {
        Ok(())
    }
}

fn opened(image: &Path, salvage: bool) -> Volume {
    Volume::open(
        image,
        &Opening {
            salvage,
            ..Opening::default()
        },
        Access::Read,
    )
    .unwrap()
}

fn taken(volume: &mut Volume, salvage: bool) -> (nandlab_image::Result<()>, Contents, Losses) {
    let mut sink = Collector::default();
    let mut nothing = |_| {};
    let mut walk = volume.walk(salvage, &mut nothing).unwrap();
    let outcome = walk.run(b"", &mut sink);
    let losses = std::mem::take(&mut walk.losses);
    (
        outcome.map_err(|error| volume.explain(error)),
        sink.0,
        losses,
    )
}

/// Each format, its image, and what is in that.
fn images(scratch: &Path) -> Vec<(&'static str, Vec<u8>, Contents)> {
    let fat = ("fat", Format::Fat(nandlab_fat::Format::default()));
    let kept = formats()
        .into_iter()
        .chain([fat])
        .filter(|(name, _)| *name != "jffs2");
    let tree = files(scratch, 60, 900, 4);
    kept.map(|(name, format)| {
        let image = scratch.join(name);
        made(&tree, format, &image, 1);
        let (outcome, all, losses) = taken(&mut opened(&image, false), false);
        outcome.unwrap();
        assert!(losses.is_empty() && all.len() > 60, "{name}: {losses:?}");
        (name, fs::read(&image).unwrap(), all)
    })
    .collect()
}

/// Whether a loss names this path or a directory above it.
fn is_reported(losses: &Losses, path: &[u8]) -> bool {
    let shown = nandlab_image::Shown::path(path).to_string();
    losses.list.iter().any(|loss| {
        let lost = loss.path.to_string();
        shown == lost || lost == "/" || shown.starts_with(&format!("{lost}/"))
    })
}

/// What was taken of a shorter image is what was there, or reported as lost; returns how many files
/// are whole.
fn hold(what: &str, all: &Contents, found: &Contents, losses: &Losses, end: u64) -> usize {
    let mut whole = 0;
    for (path, expected) in all {
        match found.get(path) {
            Some(same) if same == expected => whole += usize::from(expected.is_some()),
            other => {
                assert!(
                    is_reported(losses, path),
                    "{what}: {} is not reported: {losses:?}",
                    String::from_utf8_lossy(path)
                );
                let (Some(Some(other)), Some(expected)) = (other, expected) else {
                    continue;
                };
                let wrong = other
                    .iter()
                    .zip(expected)
                    .find(|(found, expected)| found != expected && **found != 0);
                assert_eq!(wrong, None, "{what}: {}", String::from_utf8_lossy(path));
            }
        }
    }
    assert!(
        found.keys().all(|path| all.contains_key(path)),
        "{what}: too many"
    );
    for loss in &losses.list {
        assert!(loss.offset.is_some_and(|at| at >= end), "{what}: {loss:?}");
    }
    whole
}

#[test]
fn what_is_there_is_taken_and_what_is_not_is_reported_with_its_place() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for (name, good, all) in images(scratch.path()) {
        let mut partly = 0;
        let mut most = 0;
        let data = good.iter().rposition(|byte| *byte != 0).unwrap();
        // Everywhere, and among the contents; also within a sector.
        let cuts = (1..16)
            .map(|part| data * part / 16 + part % 3)
            .chain((1..16).map(|part| data.saturating_sub(part * 90_001)));
        for end in cuts.filter(|end| *end > 4096) {
            fs::write(&image, &good[..end]).unwrap();
            let what = format!("{name} cut at {end}");
            let whole = end as u64 / 512 * 512;
            let Ok(mut volume) = Volume::open(
                &image,
                &Opening {
                    salvage: true,
                    ..Opening::default()
                },
                Access::Read,
            ) else {
                continue;
            };
            if volume.mounted.is_none() {
                assert!(volume.troubles.len() > 1, "{what}: {:?}", volume.troubles);
                continue;
            }
            assert_eq!(
                volume.truncation.map(|found| found.there),
                Some(whole),
                "{what}"
            );
            let (outcome, found, losses) = taken(&mut volume, true);
            outcome.unwrap();
            let files = hold(&what, &all, &found, &losses, whole);
            let (outcome, ..) = taken(&mut opened(&image, false), false);
            match outcome {
                Ok(()) => assert!(losses.is_empty(), "{what}: {losses:?}"),
                Err(error) => assert!(
                    !losses.is_empty() && error.to_string().contains("beyond the end of the image"),
                    "{what}: {error}"
                ),
            }
            let checked = check(&mut volume).unwrap();
            let damage = checked
                .findings
                .iter()
                .filter(|one| one.severity == Severity::Damage)
                .count();
            assert_eq!(
                damage as u64 + checked.more,
                1 + losses.list.len() as u64,
                "{what}: {checked:?}"
            );
            partly += usize::from((1..60).contains(&files));
            most = most.max(files);
        }
        assert!(
            partly > 0 && most > 20,
            "{name}: {partly} images gave a part, {most} files at most"
        );
    }
}

#[test]
fn who_would_write_is_refused_and_the_image_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for (name, good, _) in images(scratch.path()) {
        let half = &good[..good.len() / 1024 * 512];
        fs::write(&image, half).unwrap();
        let refused = edit(&image, &Opening::default(), 0, |_| Ok(()))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(&format!("the image ends at byte {}", half.len()))
                && refused.contains("--salvage"),
            "{name}: {refused}"
        );
        let outcome = repair(&image, &Opening::default(), NOW).unwrap();
        assert!(
            !outcome.replaced && outcome.after.worst() == Some(Severity::Damage),
            "{name}: {outcome:?}"
        );
        assert!(fs::read(&image).unwrap() == half, "{name}");
    }
}

/// A file that was synced, and the mount that did not end.
fn left_open<F: FileSystem>(mut fs: F) {
    let file = fs
        .create(
            Ino::ROOT,
            b"synced",
            NewNode::File,
            0o600,
            Caller::root(NOW),
        )
        .unwrap()
        .ino;
    assert_eq!(fs.write(file, 0, &[7; 5000], NOW), Ok(5000));
    fs.fsync(file, Sync::All).unwrap();
}

#[test]
fn a_journal_that_is_not_all_there_is_left_aside_and_one_that_is_serves() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let (_, good, all) = images(scratch.path())
        .into_iter()
        .find(|(name, ..)| *name == "ext3")
        .unwrap();
    fs::write(&image, &good).unwrap();
    let disk = || Disk::new(ImageFile::open_writable(&image).unwrap(), 512).unwrap();
    left_open(nandlab_ext::Ext::mount(disk(), nandlab_ext::Options::default()).unwrap());
    let options = nandlab_ext::Options {
        read_only: true,
        ..Default::default()
    };
    let end = nandlab_ext::Ext::mount(disk(), options)
        .unwrap()
        .journal_end()
        .unwrap()
        .unwrap();
    let open = fs::read(&image).unwrap();
    assert!(end < open.len() as u64, "the journal ends at {end}");
    fs::write(&image, &open[..end as usize - 4096]).unwrap();
    let mut volume = opened(&image, false);
    let why = volume.unrecovered.clone().unwrap();
    assert_eq!(
        why,
        format!("it reaches to byte {end}, the image to byte {}", end - 4096)
    );
    let (outcome, found, losses) = taken(&mut volume, true);
    outcome.unwrap();
    assert!(!found.contains_key(&b"synced"[..]));
    hold("without its journal", &all, &found, &losses, end - 4096);
    assert!(
        check(&mut volume)
            .unwrap()
            .findings
            .iter()
            .any(|one| one.what.contains("journal cannot be recovered"))
    );
    fs::write(&image, &open[..end as usize]).unwrap();
    let mut volume = opened(&image, false);
    assert!(
        volume.recovered && volume.unrecovered.is_none(),
        "{:?}",
        volume.unrecovered
    );
    let (outcome, found, _) = taken(&mut volume, true);
    outcome.unwrap();
    assert!(
        found.contains_key(&b"synced"[..]),
        "what the journal holds is shown"
    );
}

#[test]
fn a_log_that_is_not_all_there_is_left_aside() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let (_, good, all) = images(scratch.path())
        .into_iter()
        .find(|(name, ..)| *name == "f2fs")
        .unwrap();
    fs::write(&image, &good).unwrap();
    let disk = Disk::new(ImageFile::open_writable(&image).unwrap(), 512).unwrap();
    left_open(nandlab_f2fs::F2fs::mount(disk, nandlab_f2fs::Options::default()).unwrap());
    let open = fs::read(&image).unwrap();
    let synced = opened(&image, false)
        .fs()
        .unwrap()
        .lookup(Ino::ROOT, b"synced")
        .unwrap();
    assert_eq!(synced.size, 5000, "the log rolls forward");
    // Its node is the only one with this name.
    let mut nodes = (0..open.len())
        .step_by(4096)
        .filter(|at| open[at + 92..].starts_with(b"synced"));
    let node = nodes.next_back().unwrap();
    fs::write(&image, &open[..node]).unwrap();
    let mut volume = opened(&image, false);
    let why = volume.unrecovered.clone().unwrap();
    assert!(why.contains("beyond the end of the image"), "{why}");
    let (outcome, found, losses) = taken(&mut volume, true);
    outcome.unwrap();
    assert!(!found.contains_key(&b"synced"[..]));
    hold("without its log", &all, &found, &losses, node as u64);
}
