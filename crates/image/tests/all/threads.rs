//! What is taken out of an image does not depend on how many threads take it: files, losses,
//! failures.

use crate::common::{archive, bytes, formats, made, tree};
use nandlab_image::dir_out::DirOut;
use nandlab_image::sink::{Bytes, Fill, Nothing, Sink};
use nandlab_image::tree::{Data, Entry, Node, Tree};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk::Losses;
use nandlab_image::workers::Helpers;
use nandlab_image::{ImageError, dir_in};
use nandlab_vfs::Time;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use std::fs;
use std::io;
use std::iter;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// So many threads, and whether these read all contents.
const WORKERS: [(usize, bool); 5] = [(0, true), (1, true), (3, true), (1, false), (3, false)];

fn take(
    image: &Path,
    to: &Path,
    workers: (usize, bool),
    salvage: bool,
) -> Result<Losses, ImageError> {
    let mut sink = DirOut::new(to)?;
    let mut losses = pour(image, &mut sink, workers, salvage)?;
    losses.merge(sink.losses);
    Ok(losses)
}

fn pour(
    image: &Path,
    sink: &mut dyn Sink,
    (threads, unpack): (usize, bool),
    salvage: bool,
) -> Result<Losses, ImageError> {
    let open = || Volume::open(image, &Opening::default(), Access::Read);
    let mut volume = open()?;
    let mut ignored = |_| {};
    let mut walk = volume.walk(salvage, &mut ignored)?;
    walk.helpers = (threads > 0).then_some(Helpers {
        threads,
        open: &open,
        unpack,
    });
    let outcome = walk.run(b"", sink);
    let losses = std::mem::take(&mut walk.losses);
    outcome.map_err(|error| volume.explain(error))?;
    Ok(losses)
}

/// A file system with space for a number of bytes.
#[derive(Clone)]
struct Small(Arc<AtomicU64>);

impl Sink for Small {
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> Result<(), ImageError> {
        Box::new(self.clone()).fill(entry, bytes).map(drop)
    }

    fn begin(&mut self, _: &Entry, _: bool) -> Result<Option<Box<dyn Fill>>, ImageError> {
        Ok(Some(Box::new(self.clone())))
    }

    fn finish(&mut self) -> Result<(), ImageError> {
        Ok(())
    }
}

impl Fill for Small {
    fn fill(self: Box<Self>, _: &Entry, bytes: &mut dyn Bytes) -> Result<Losses, ImageError> {
        bytes.each(&mut |_, data| {
            let less = |room: u64| room.checked_sub(data.len() as u64);
            self.0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .map(drop)
                .map_err(|_| ImageError::File {
                    path: "target".into(),
                    error: io::ErrorKind::StorageFull.into(),
                })
        })?;
        Ok(Losses::default())
    }
}

#[test]
fn extraction_into_a_full_file_system_ends_with_its_message_on_any_number_of_threads() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let contents = scratch.path().join("contents");
    fs::write(&contents, bytes(1, 3_000_000)).unwrap();
    let mut tree = Tree::default();
    for number in 0..26 {
        let entry = Entry {
            node: Node::File { size: 3_000_000 },
            ..Entry::directory(format!("{number}").as_bytes())
        };
        tree.push(entry, Data::whole(contents.clone(), 3_000_000));
    }
    tree.normalize().unwrap();
    let (_, ext3) = formats().remove(2);
    made(&tree, ext3, &image, 2);
    for room in [0, 1 << 20, 8 << 20, 40 << 20, 77_000_000] {
        for workers in [0, 1, 2, 4]
            .into_iter()
            .flat_map(|n| [(n, true), (n, false)])
        {
            let image = image.clone();
            let (reported, outcome) = mpsc::channel();
            thread::spawn(move || {
                let mut sink = Small(Arc::new(AtomicU64::new(room)));
                reported.send(pour(&image, &mut sink, workers, false).map_err(|e| e.to_string()))
            });
            let error = outcome
                .recv_timeout(Duration::from_secs(60))
                .unwrap_or_else(|_| panic!("{workers:?} with {room} bytes hangs"))
                .unwrap_err();
            assert_eq!(
                error, "target: no storage space",
                "{workers:?} with {room} bytes"
            );
        }
    }
}

#[test]
fn a_directory_is_described_when_its_last_file_is_there() {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("to");
    let mut sink = DirOut::new(&to).unwrap();
    let described = |path: &str| Entry {
        mode: 0o555,
        mtime: Time { secs: 7, nanos: 8 },
        ..Entry::directory(path.as_bytes())
    };
    let file = |path: &str| Entry {
        node: Node::File { size: 0 },
        ..described(path)
    };
    for path in ["", "dir"] {
        sink.put(&described(path), &mut Nothing).unwrap();
    }
    let [late, named] = [("dir/late", false), ("dir/named", true)]
        .map(|(path, named)| sink.begin(&file(path), named).unwrap().unwrap());
    // Ends the one before.
    sink.put(&described("next"), &mut Nothing).unwrap();
    assert!(!to.join("dir/late").exists() && to.join("dir/named").exists());
    sink.finish().unwrap();
    let mode = |path: &str| fs::metadata(to.join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode(""), mode("dir"), mode("next")), (0o555, 0o700, 0o555));
    for (fill, path) in [(late, "dir/late"), (named, "dir/named")] {
        fill.fill(&file(path), &mut Nothing).unwrap();
    }
    assert_eq!(mode("dir"), 0o555);
    let taken = dir_in::read(&to).unwrap();
    for (entry, _) in &taken.entries {
        assert_eq!((entry.mode, entry.mtime.secs), (0o555, 7), "{entry:?}");
    }
    assert_eq!(taken.entries.len(), 5);
}

#[test]
fn the_number_of_threads_changes_nothing_that_is_taken_out() {
    for (name, format) in formats() {
        let scratch = tempfile::tempdir().unwrap();
        let image = scratch.path().join(name);
        made(&tree(scratch.path(), false), format, &image, 2);
        let taken = WORKERS.map(|workers| {
            let dir = scratch.path().join(format!("{workers:?}"));
            let losses = take(&image, &dir, workers, false).unwrap();
            (archive(&dir_in::read(&dir).unwrap()), losses)
        });
        assert!(taken.iter().all(|other| *other == taken[0]), "{name}");
    }
}

#[test]
fn the_first_failure_counts_and_losses_come_in_the_order_of_the_paths() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("f2fs");
    let (_, format) = formats().pop().unwrap();
    let tree = tree(scratch.path(), false);
    made(&tree, format, &image, 2);
    // Inodes of files, each found by its name in it: none is what it was.
    let mut bytes = fs::read(&image).unwrap();
    for name in [&b"of 60000"[..], b"of 300001", b"sparse"] {
        let block = |at: usize| at / 4096 * 4096;
        let found: Vec<usize> = (0..bytes.len() - 20)
            .filter(|at| bytes[*at..].starts_with(name))
            .map(block)
            .collect();
        let inode = found
            .into_iter()
            .find(|at| bytes[at + 92..].starts_with(name))
            .unwrap();
        // Numbers of blocks far outside, and no contents in the inode itself.
        bytes[inode + 360..inode + 500].fill(0xEE);
    }
    fs::write(&image, bytes).unwrap();
    let outcome = |workers, salvage| {
        let dir = scratch.path().join(format!("{workers:?} {salvage}"));
        take(&image, &dir, workers, salvage).map_err(|error| error.to_string())
    };
    let failures = WORKERS.map(|workers| outcome(workers, false).unwrap_err());
    assert!(
        failures[0].contains("of 300001") && failures.iter().all(|other| *other == failures[0]),
        "{failures:?}"
    );
    let losses = WORKERS.map(|workers| outcome(workers, true).unwrap());
    assert!(
        losses[0].list.len() >= 3 && losses.iter().all(|other| *other == losses[0]),
        "{losses:?}"
    );
}

#[test]
fn of_directories_that_cannot_be_read_the_first_by_its_path_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    for top in ["c", "a", "d", "b"] {
        // Deeper than a path may be long, so one inside the other.
        let mut dir = fs::File::open(scratch.path()).unwrap();
        for name in iter::once(top).chain(iter::repeat_n(&*"x".repeat(250), 17)) {
            mkdirat(&dir, name, Mode::RWXU).unwrap();
            dir = openat(&dir, name, OFlags::DIRECTORY, Mode::empty())
                .unwrap()
                .into();
        }
    }
    for _ in 0..20 {
        let error = dir_in::read(scratch.path())
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("a/xxx"), "{error}");
    }
}
