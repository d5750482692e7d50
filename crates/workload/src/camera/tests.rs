//! The paper's numbers come out exactly, and what it leaves open does what it says.

use super::*;
use crate::files::{Expected, FileCalls, sound};
use alloc::collections::BTreeMap;
use proptest::prelude::*;

fn calls(spec: CameraSpec) -> Vec<FileCall> {
    CameraMs500::new(spec).unwrap().collect()
}

/// Bytes written to each file.
fn written(calls: &[FileCall]) -> BTreeMap<FileId, u64> {
    let mut files = BTreeMap::new();
    for call in calls {
        if let FileCall::Write { file, length, .. } = call {
            *files.entry(*file).or_default() += length;
        }
    }
    files
}

fn count(calls: &[FileCall], which: impl Fn(&FileCall) -> bool) -> usize {
    calls.iter().filter(|call| which(call)).count()
}

fn is_write(call: &FileCall) -> bool {
    matches!(call, FileCall::Write { .. })
}

/// Photos that exist after each transaction, as the calls have it.
fn left(spec: CameraSpec) -> Vec<usize> {
    let mut live = 0;
    let mut left = Vec::new();
    let mut made = 0;
    for call in CameraMs500::new(spec.clone()).unwrap() {
        match call {
            FileCall::Create { file } if file != INDEX => {
                if made > 0 && made % spec.photos == 0 {
                    left.push(live);
                }
                (made, live) = (made + 1, live + 1);
            }
            FileCall::Remove { .. } => live -= 1,
            _ => {}
        }
    }
    left.push(live);
    left
}

#[test]
fn the_default_writes_what_the_paper_says() {
    let calls = calls(CameraSpec::default());
    let written = written(&calls);
    let photos: u64 = written
        .iter()
        .filter(|(file, _)| **file != INDEX)
        .map(|(_, bytes)| bytes)
        .sum();
    assert_eq!((written.len() - 1, photos), (200, 163_164 * 512));
    assert_eq!(
        photos,
        79_670 * (1 << 20) / 1000 / 512 * 512,
        "79.67 MiB in whole units"
    );
    let sizes: Vec<u64> = written.iter().skip(1).map(|(_, bytes)| *bytes).collect();
    assert!(
        sizes
            .iter()
            .all(|bytes| (290 << 10..520 << 10).contains(bytes)),
        "300 to 500 KB, scaled a little"
    );
    assert!(sizes.iter().min() < Some(&(310 << 10)) && sizes.iter().max() > Some(&(490 << 10)));
    assert_eq!(
        count(&calls, |call| matches!(call, FileCall::Fsync { .. })),
        count(&calls, is_write) + 1,
        "one more when the index is cut"
    );
}

#[test]
fn photos_are_halved_and_the_sixth_transaction_clears_the_camera() {
    assert_eq!(
        left(CameraSpec::default()),
        [10, 20, 30, 40, 50, 0, 10, 20, 30, 40]
    );
    let later = CameraSpec {
        delete_all: DeleteAll::AfterDeletes,
        ..CameraSpec::default()
    };
    assert_eq!(left(later), [10, 20, 30, 40, 50, 60, 0, 10, 20, 30]);
}

#[test]
fn an_entry_takes_the_units_it_touches_or_its_own_bytes() {
    let index = |index_write| {
        let all = calls(CameraSpec {
            index_write,
            ..CameraSpec::default()
        });
        let of_index = |call: &&FileCall| is_write(call) && call.file() == Some(INDEX);
        all.iter().filter(of_index).copied().collect::<Vec<_>>()
    };
    // 200 entries made and 90 deleted one by one, of which every eighth lies in two units.
    let entries = index(IndexWrite::Entry);
    assert_eq!(entries.len(), 290);
    assert!(
        entries
            .iter()
            .all(|call| matches!(call, FileCall::Write { length: 96, .. }))
    );
    let units = index(IndexWrite::Units);
    assert!(
        (290 + 25..290 + 25 + 30).contains(&units.len()),
        "{}",
        units.len()
    );
    assert!(units.iter().all(|call| matches!(call, FileCall::Write { offset, length, .. } if offset % 512 == 0 && *length <= 512)));
}

#[test]
fn the_index_has_an_entry_for_each_photo_since_it_was_cut() {
    let length = |index_delete| {
        let mut expected = Expected::new(Contents::new(1));
        calls(CameraSpec {
            index_delete,
            ..CameraSpec::default()
        })
        .iter()
        .for_each(|call| expected.apply(call).unwrap());
        let lengths: BTreeMap<FileId, u64> = expected.files().collect();
        (lengths.len(), lengths[&INDEX])
    };
    assert_eq!(length(IndexDelete::Overwrite), (41, 80 * 96));
    assert_eq!(length(IndexDelete::Compact), (41, 40 * 96));
}

#[test]
fn seeds_draw_other_photos_and_the_same_total() {
    let photos = |seed| {
        written(&calls(CameraSpec {
            seed,
            ..CameraSpec::default()
        }))
    };
    let sum = |seed| photos(seed).values().skip(1).sum::<u64>();
    assert_eq!(photos(3), photos(3));
    assert_ne!(photos(3), photos(4));
    assert_eq!(sum(3), sum(4));
}

#[test]
fn fewer_transactions_write_as_much_in_each() {
    let spec = CameraSpec::default().for_transactions(3);
    let bytes: u64 = written(&calls(spec)).values().skip(1).sum();
    assert_eq!(bytes / 512, 163_164 * 3 / 10);
}

#[test]
fn without_fsync_there_is_none() {
    let calls = calls(CameraSpec {
        fsync: false,
        ..CameraSpec::default()
    });
    assert_eq!(
        count(&calls, |call| matches!(call, FileCall::Fsync { .. })),
        0
    );
}

#[test]
fn names_are_short_and_their_own() {
    let camera = CameraMs500::new(CameraSpec::default()).unwrap();
    assert_eq!(
        [0, 1, 99_999].map(|n| camera.name(FileId(n))),
        ["INDEX.DAT", "PIC00001.JPG", "PIC99999.JPG"]
    );
}

#[test]
fn what_is_no_camera_is_refused_by_name() {
    let key = |change: &dyn Fn(&mut CameraSpec)| sound::refused(CameraSpec::check, change).0;
    assert_eq!(key(&|_| ()), "accepted");
    assert_eq!(key(&|s| s.transactions = 0), "transactions");
    assert_eq!(key(&|s| s.photos = 0), "photos");
    assert_eq!(key(&|s| s.transactions = u32::MAX), "photos");
    assert_eq!(key(&|s| s.deletes = 21), "deletes");
    assert_eq!(key(&|s| s.unit = 0), "unit");
    assert_eq!(key(&|s| s.entry_bytes = 0), "entry");
    assert_eq!(key(&|s| s.photo_bytes_min = 511), "shortest photo");
    assert_eq!(key(&|s| s.photo_bytes_max = 1), "longest photo");
    assert_eq!(
        key(&|s| (s.unit, s.photo_bytes_min, s.photo_bytes_max) = (1000, 1001, 1999)),
        "longest photo"
    );
    assert_eq!(key(&|s| s.total = Some(1000)), "total");
    assert_eq!(key(&|s| s.total = Some(u64::MAX)), "total");
}

proptest! {
    /// Whatever the camera, its calls are sound and its photos add up.
    #[test]
    fn every_camera_is_sound(
        seed: u64, transactions in 1u32..6, photos in 1u32..8, share in 0u32..8, unit in 1u64..600, entry_bytes in 1u64..700,
        above in 0u32..20, least in 0u64..3, more in 0u64..4, total in prop::option::of(0u64..50_000), choice in 0u8..16,
    ) {
        let all = u64::from(transactions * photos);
        let spec = CameraSpec {
            seed, transactions, photos, unit, entry_bytes,
            deletes: share.min(photos),
            photo_bytes_min: unit * (1 + least),
            photo_bytes_max: unit * (1 + least + more),
            fsync: choice & 1 != 0,
            delete_all_above: above,
            delete_all: if choice & 2 != 0 { DeleteAll::AfterCreates } else { DeleteAll::AfterDeletes },
            index_write: if choice & 4 != 0 { IndexWrite::Units } else { IndexWrite::Entry },
            index_delete: if choice & 8 != 0 { IndexDelete::Overwrite } else { IndexDelete::Compact },
            total: total.map(|total| total + all * unit),
        };
        let camera = CameraMs500::new(spec.clone()).unwrap();
        let mut expected = Expected::new(camera.contents());
        let mut open = BTreeMap::new();
        let mut bytes = 0;
        for call in camera {
            expected.apply(&call).unwrap();
            match call {
                FileCall::Create { file } => prop_assert_eq!(open.insert(file, ()), None),
                FileCall::Close { file } => prop_assert_eq!(open.remove(&file), Some(())),
                FileCall::Remove { file } => prop_assert!(!open.contains_key(&file)),
                FileCall::Write { file, length, .. } => {
                    prop_assert!(open.contains_key(&file) && length > 0 && length <= unit);
                    bytes += if file == INDEX { 0 } else { length };
                }
                FileCall::Fsync { file } | FileCall::Truncate { file, .. } => prop_assert!(open.contains_key(&file)),
                _ => {}
            }
        }
        prop_assert!(open.is_empty());
        if let Some(total) = spec.total {
            prop_assert_eq!(bytes, total / unit * unit);
        }
    }
}
