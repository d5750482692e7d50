//! The player against the reference file system.

use super::*;
use nandlab_vfs::{MemFs, tree};
use nandlab_workload::camera::{CameraMs500, CameraSpec};
use nandlab_workload::files::Expected;

/// A stream that is a list. Files are called by number.
struct List<'a>(std::slice::Iter<'a, FileCall>);

impl Iterator for List<'_> {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        self.0.next().copied()
    }
}

impl FileCalls for List<'_> {
    fn name(&self, file: FileId) -> String {
        format!("file{}", file.0)
    }

    fn contents(&self) -> nandlab_workload::files::Contents {
        nandlab_workload::files::Contents::new(1)
    }

    fn share_done(&self) -> f64 {
        0.0
    }
}

const A: FileId = FileId(1);
const NOW: Time = Time::new(1_000_000_000);

fn list(calls: &[FileCall]) -> List<'_> {
    List(calls.iter())
}

fn write(offset: u64, length: u64, version: u32) -> FileCall {
    FileCall::Write {
        file: A,
        offset,
        length,
        version,
    }
}

/// Every kind of call, with holes, cuts and rewriting.
fn every_kind() -> Vec<FileCall> {
    vec![
        FileCall::Create { file: A },
        write(0, 3 << 20, 0),
        write(1000, 5000, 1),
        FileCall::Truncate {
            file: A,
            length: 4000,
        },
        write(100_000, 10, 2),
        FileCall::Read {
            file: A,
            offset: 3999,
            length: 90_000,
        },
        FileCall::Fsync { file: A },
        FileCall::Close { file: A },
        FileCall::Open { file: A },
        write(5, 1, 3),
        FileCall::Close { file: A },
        FileCall::Sync,
        FileCall::Create { file: FileId(2) },
        FileCall::Close { file: FileId(2) },
        FileCall::Create { file: FileId(3) },
        FileCall::Close { file: FileId(3) },
        FileCall::Remove { file: FileId(3) },
    ]
}

fn expected(calls: &[FileCall]) -> Expected {
    let mut expected = Expected::new(list(&[]).contents());
    calls.iter().for_each(|call| expected.apply(call).unwrap());
    expected
}

fn played(calls: &[FileCall]) -> (MemFs, Result<Played, PlayError>) {
    let mut fs = MemFs::new(8 << 20, NOW);
    let outcome = play(&mut fs, &mut list(calls), &mut || NOW, &mut |_, _| {});
    (fs, outcome)
}

#[test]
fn every_kind_of_call_is_carried_out_counted_and_found_again() {
    let calls = every_kind();
    let (mut fs, outcome) = played(&calls);
    let counts = outcome.unwrap();
    let right = Played {
        creates: 3,
        opens: 1,
        closes: 4,
        reads: 1,
        bytes_read: 90_000,
        writes: 4,
        bytes_written: (3 << 20) + 5011,
        truncates: 1,
        fsyncs: 1,
        removes: 1,
        syncs: 1,
        computes: 0,
    };
    assert_eq!((counts, counts.calls()), (right, calls.len() as u64));
    let expected = expected(&calls);
    let sums = verify(&mut fs, Ino::ROOT, &expected, &list(&[])).unwrap();
    assert_eq!(sums, expected_sums(&expected, &list(&[])));
    assert_eq!((sums[0].bytes, sums[1].name.as_str()), (100_010, "file2"));
    // SHA-256 of nothing.
    assert_eq!(
        sums[1].sha256,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn the_camera_plays_with_the_times_that_it_is_given_and_is_watched() {
    let spec = CameraSpec {
        photos: 4,
        deletes: 2,
        delete_all_above: 5,
        ..CameraSpec::default()
    }
    .for_transactions(3);
    let spec = CameraSpec {
        total: Some(1 << 20),
        ..spec
    };
    let mut camera = CameraMs500::new(spec).unwrap();
    let mut fs = MemFs::new(8 << 20, NOW);
    let mut expected = Expected::new(camera.contents());
    let mut tick = 0;
    let mut watched = 0;
    let mut now = || {
        tick += 1;
        Time::new(NOW.secs + tick)
    };
    let counts = play(&mut fs, &mut camera, &mut now, &mut |moment, call| {
        if let Moment::After = moment {
            watched += 1;
            expected.apply(call).unwrap();
        }
    });
    assert_eq!((counts.unwrap().calls(), tick), (watched, watched as i64));
    assert_eq!(camera.share_done(), 1.0);
    let sums = verify(&mut fs, Ino::ROOT, &expected, &camera).unwrap();
    assert_eq!(sums[0].name, "INDEX.DAT");
    let newest = tree::snapshot(&mut fs)
        .unwrap()
        .values()
        .map(|entry| entry.attr.mtime.secs)
        .max();
    assert!(newest > Some(NOW.secs + tick - 100), "{newest:?}");
}

#[test]
fn a_call_that_fails_is_named_with_its_number_and_file() {
    let error = |calls: &[FileCall]| played(calls).1.unwrap_err();
    let full = error(&[FileCall::Create { file: A }, write(0, 9 << 20, 0)]);
    assert_eq!(
        full.to_string(),
        "call 2, write 9437184 bytes at 0 of file1: no space left on device (ENOSPC)"
    );
    let short = error(&[
        FileCall::Create { file: A },
        FileCall::Read {
            file: A,
            offset: 0,
            length: 1,
        },
    ]);
    assert_eq!(short.cause, Cause::Short { done: 0, asked: 1 });
    let create = FileCall::Create { file: A };
    assert_eq!(
        error(&[create, FileCall::Close { file: A }, create]).cause,
        Cause::Refused(Errno::Exists)
    );
    assert_eq!(error(&[FileCall::Fsync { file: A }]).cause, Cause::NotOpen);
    assert_eq!(
        error(&[create, FileCall::Remove { file: A }]).to_string(),
        "call 2, remove of file1: the file is open"
    );
}

#[test]
fn whatever_differs_is_reported() {
    let calls = every_kind();
    let differs = |change: &dyn Fn(&mut MemFs)| {
        let (mut fs, _) = played(&calls);
        change(&mut fs);
        verify(&mut fs, Ino::ROOT, &expected(&calls), &list(&[]))
            .unwrap_err()
            .to_string()
    };
    let ino = |fs: &mut MemFs| fs.lookup(Ino::ROOT, b"file1").unwrap().ino;
    let removed = differs(&|fs| fs.unlink(Ino::ROOT, b"file2", NOW).unwrap());
    assert_eq!(removed, "file2: not found, expected a file of 0 bytes");
    let added = differs(&|fs| {
        fs.create(Ino::ROOT, b"other", NewNode::File, MODE, Caller::root(NOW))
            .unwrap();
    });
    assert_eq!(added, "other: found, expected no such name");
    let grown = differs(&|fs| {
        let file1 = ino(fs);
        fs.write(file1, 100_010, b"x", NOW).unwrap();
    });
    assert_eq!(grown, "file1: found 100011 bytes, expected 100010");
    let changed = differs(&|fs| {
        let file1 = ino(fs);
        fs.write(file1, 80_000, &[7], NOW).unwrap();
    });
    assert_eq!(changed, "file1: byte 80000 is 0x07, expected 0x00");
}
