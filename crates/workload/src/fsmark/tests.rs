//! The program's calls, worked out by hand.

use super::*;
use crate::files::{FileCalls, sound};
use alloc::{vec, vec::Vec};
use proptest::prelude::*;

fn calls(spec: FsMarkSpec) -> sound::Sound {
    sound::run(FsMark::new(spec).unwrap())
}

const A: FileId = FileId(0);
const B: FileId = FileId(1);

fn made(file: FileId, fsync: bool) -> Vec<FileCall> {
    let write = |offset, length| FileCall::Write {
        file,
        offset,
        length,
        version: 0,
    };
    let mut calls = vec![
        FileCall::Create { file },
        write(0, 40),
        write(40, 40),
        write(80, 20),
    ];
    calls.extend(fsync.then_some(FileCall::Fsync { file }));
    calls.push(FileCall::Close { file });
    calls
}

fn synced(file: FileId) -> [FileCall; 3] {
    [
        FileCall::Open { file },
        FileCall::Fsync { file },
        FileCall::Close { file },
    ]
}

#[test]
fn files_are_made_durable_as_the_method_says() {
    let small = FsMarkSpec {
        files: 2,
        bytes: 100,
        piece: 40,
        ..FsMarkSpec::default()
    };
    let all = FileCall::Sync;
    let after: [(FsMarkSync, Vec<FileCall>); 7] = [
        (FsMarkSync::None, vec![]),
        (FsMarkSync::PerFile, vec![]),
        (FsMarkSync::Everything, [&[all][..], &synced(A)].concat()),
        (FsMarkSync::Reverse, [synced(B), synced(A)].concat()),
        (
            FsMarkSync::EverythingReverse,
            [&[all][..], &synced(B), &synced(A)].concat(),
        ),
        (FsMarkSync::InOrder, [synced(A), synced(B)].concat()),
        (
            FsMarkSync::EverythingInOrder,
            [&[all][..], &synced(A), &synced(B)].concat(),
        ),
    ];
    for ((sync, after), number) in after.into_iter().zip(0..) {
        assert_eq!(FsMarkSync::ALL[number], sync);
        let found = calls(FsMarkSpec {
            sync,
            ..small.clone()
        });
        let each = sync == FsMarkSync::PerFile;
        assert_eq!(
            found.of(FILES),
            [made(A, each), made(B, each)].concat(),
            "{sync:?}"
        );
        assert_eq!(found.of(SYNC), after, "{sync:?}");
        assert_eq!(
            found.of(REMOVE),
            [FileCall::Remove { file: A }, FileCall::Remove { file: B }],
            "{sync:?}"
        );
    }
}

#[test]
fn the_default_is_a_thousand_files_of_fifty_kibibytes() {
    let found = calls(FsMarkSpec {
        keep: true,
        ..FsMarkSpec::default()
    });
    assert!(
        found.expected.files().all(|(_, bytes)| bytes == 51_200)
            && found.expected.files().count() == 1000
    );
    assert_eq!(
        found.count(|call| matches!(call, FileCall::Fsync { .. })),
        1000
    );
    assert_eq!(
        found.count(|call| matches!(call, FileCall::Write { .. })),
        4000
    );
}

#[test]
fn names_have_forty_letters() {
    let one = FsMark::new(FsMarkSpec::default()).unwrap();
    let two = FsMark::new(FsMarkSpec {
        seed: 2,
        ..FsMarkSpec::default()
    })
    .unwrap();
    assert_eq!(one.name(A).len(), 40);
    assert!(one.name(A).ends_with("0000000000000000") && one.name(B).ends_with("0000000000000001"));
    assert_ne!(one.name(A), two.name(A));
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    let key = |change: &dyn Fn(&mut FsMarkSpec)| sound::refused(FsMarkSpec::check, change).0;
    assert_eq!(key(&|_| ()), "accepted");
    assert_eq!(key(&|s| s.files = 0), "files");
    assert_eq!(key(&|s| s.files = 1_000_001), "files");
    assert_eq!(key(&|s| s.bytes = u64::MAX), "bytes");
    assert_eq!(key(&|s| s.piece = 0), "piece");
    assert_eq!(key(&|s| s.threads = 65), "threads");
    assert_eq!(key(&|s| s.loops = 0), "loops");
    assert_eq!(key(&|s| s.loops = u64::MAX), "loops");
}

proptest! {
    /// Whatever the run, no call does what no program can, and files stay only if they are kept.
    #[test]
    fn every_stream_is_sound(files in 1u64..20, bytes in 0u64..300, piece in 1u64..200, threads in 1u64..4, loops in 1u64..4, sync in 0usize..7, keep: bool) {
        let sync = FsMarkSync::ALL[sync];
        let found = calls(FsMarkSpec { seed: 1, files, bytes, piece, threads, sync, loops, keep });
        prop_assert_eq!(found.expected.files().count() as u64, if keep { files * threads * loops } else { 0 });
    }
}
