//! Volumes under small damage. A digest of all answers shows when one of them changes.

use crate::hostile::forge;
use nandlab_sim::mix;
use nandlab_testkit::hostile::{near, use_up};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_ubifs::{Bare, Format, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{FileSystem, Ino, SetAttr, Sync, Time};

const LEB: u32 = 15_872;
const LEBS: u32 = 90;

/// A volume with a journal in use, and files without a name.
fn volume(choices: Format) -> Vec<u8> {
    let choices = Format {
        page: Some(512),
        uuid: *b"sixteen bytes of",
        now: Time::new(1_700_000_000),
        ..choices
    };
    let blank = Bare::with(vec![0xFF; (LEB * LEBS) as usize], LEB, LEBS);
    let mut fs = Ubifs::mount_writable(format(blank, &choices).unwrap()).unwrap();
    let rules = Rules {
        inodes_max: 60,
        file_bytes_max: 20_000,
        ..Rules::unix()
    };
    let mut model = Model::new(11, rules);
    for calls in [300, 120] {
        model.run(&mut fs, calls).unwrap();
        fs.sync().unwrap();
    }
    model.run(&mut fs, 60).unwrap();
    let change = SetAttr {
        mode: Some(0o755),
        ..SetAttr::default()
    };
    fs.setattr(Ino::ROOT, &change, Time::new(9)).unwrap();
    fs.fsync(Ino::ROOT, Sync::All).unwrap();
    fs.into_lebs().into_bytes()
}

fn bare(bytes: &[u8]) -> Option<Bare<Vec<u8>>> {
    Bare::new(bytes.to_vec()).unwrap()
}

/// Everything that a caller sees of a volume, and the volume in the end.
fn outcome(bytes: &[u8]) -> Media {
    let mut seen = Media::default();
    let Some(lebs) = bare(bytes) else {
        seen.note(&"no superblock");
        return seen;
    };
    seen.note_or(Ubifs::mount(lebs), |mut fs, seen| {
        seen.note(&fs.check());
        seen.note(fs.journal());
        seen.note(fs.head());
        seen.add(use_up(&mut fs, 24));
    });
    match bare(bytes).map(Ubifs::mount_writable) {
        Some(Ok(mut fs)) => {
            seen.add(use_up(&mut fs, 24));
            seen.note(&fs.counts());
            seen.bytes(&fs.into_lebs().into_bytes())
        }
        Some(Err(error)) => {
            seen.note(&error.to_string());
            seen
        }
        None => seen,
    }
}

/// Places of bytes that are not erased: in the superblock and the master nodes, in the log, the
/// orphans and the properties, and behind them.
fn places(bytes: &[u8]) -> [Vec<usize>; 3] {
    let leb = LEB as usize;
    let fs = Ubifs::mount(bare(bytes).unwrap()).unwrap();
    let main = fs.head().geometry.main_first() as usize * leb;
    let within = |start: usize, end: usize| -> Vec<usize> {
        (start..end).filter(|at| bytes[*at] != 0xFF).collect()
    };
    [
        within(0, 3 * leb),
        within(3 * leb, main),
        within(main, bytes.len()),
    ]
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    let small = Format::default();
    let big = Format {
        version: 4,
        big_lpt: Some(true),
        fanout: 4,
        compressor: 0,
        ..Format::default()
    };
    // Other tests of damage have small properties trees.
    let volumes = [("small", small), ("big", big)];
    for (name, choices) in volumes.into_iter().skip(whole_or(0, 1)) {
        let bytes = volume(choices);
        let mut all = outcome(&bytes);
        for (part, places) in places(&bytes).into_iter().enumerate() {
            for seed in 0..130 {
                let mut struck = bytes.clone();
                let word = mix(part as u64, seed);
                let at = places[word as usize % places.len()];
                let byte = near(struck[at], word >> 40);
                match seed % 4 {
                    0 => struck[at] = byte,
                    _ => forge(&mut struck, at, &[byte]),
                }
                all.add(outcome(&struck));
            }
        }
        all.assert(&format!("damage, ubifs {name}"));
    }
}
