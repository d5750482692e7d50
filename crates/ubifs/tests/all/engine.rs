//! Volumes of ours: made, written, and mounted again.

use nandlab_ubifs::format::KeyHash;
use nandlab_ubifs::{Bare, Format, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{FileSystem, Time};

type Volume = Ubifs<Bare<Vec<u8>>>;

fn blank(leb: u32, lebs: u32) -> Bare<Vec<u8>> {
    let bytes = vec![0xFF; leb as usize * lebs as usize];
    Bare::with(bytes, leb, lebs)
}

fn choices(page: u32) -> Format {
    Format {
        page: Some(page),
        uuid: *b"sixteen bytes of",
        now: Time::new(1_700_000_000),
        ..Format::default()
    }
}

fn made(leb: u32, lebs: u32, choices: &Format) -> Bare<Vec<u8>> {
    format(blank(leb, lebs), choices).unwrap()
}

/// Asserts that a check finds nothing.
fn assert_sound(fs: &mut Volume, what: &str) {
    let findings = fs.check().findings;
    let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(said.is_empty(), "{what}: {said:?}");
}

#[test]
fn an_empty_volume_is_sound_in_every_shape() {
    for (page, leb, lebs) in [(8, 65_536, 40), (512, 15_872, 200), (2048, 126_976, 17)] {
        for version in [4, 5] {
            for big in [None, Some(true)] {
                let choices = Format {
                    version,
                    big_lpt: big,
                    ..choices(page)
                };
                let lebs = made(leb, lebs, &choices);
                let mut fs = Ubifs::mount(lebs).unwrap();
                assert_eq!(fs.head().has_big_lpt(), big == Some(true));
                assert_eq!(fs.head().version, version);
                let what = format!("{page} {leb} {version} {big:?}");
                assert_sound(&mut fs, &what);
                assert_eq!(fs.getattr(nandlab_vfs::Ino::ROOT).unwrap().links, 2);
            }
        }
    }
}

fn rules() -> Rules {
    Rules {
        inodes_max: 200,
        ..Rules::unix()
    }
}

/// Runs, mounts anew after each round, and compares.
fn run(mut lebs: Bare<Vec<u8>>, seed: u64, rounds: u64, steps: u64) {
    let mut model = Model::new(seed, rules());
    for round in 0..rounds {
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        let outcome = model.run(&mut fs, steps);
        outcome.unwrap_or_else(|mismatch| panic!("{round}: {mismatch} {:?}", fs.cause()));
        assert_sound(&mut fs, "in use");
        model.release(&mut fs);
        fs.unmount().unwrap();
        let mut again = Ubifs::mount(fs.into_lebs()).unwrap();
        assert!(!again.journal().in_use && again.journal().nodes == 0);
        model.compare(&mut again).unwrap();
        assert_sound(&mut again, "unmounted");
        lebs = again.into_lebs();
    }
    assert!(model.judge().inodes() > 40, "a tree worth comparing");
}

#[test]
fn random_calls_answer_as_the_reference_on_every_shape() {
    for (seed, (page, leb, lebs)) in [(8, 65_536, 100), (512, 15_872, 500), (2048, 126_976, 90)]
        .into_iter()
        .enumerate()
    {
        for (version, compressor, key_hash) in [
            (4, 0, KeyHash::R5),
            (5, 1, KeyHash::Test),
            (4, 2, KeyHash::R5),
            (5, 3, KeyHash::R5),
        ] {
            let choices = Format {
                version,
                compressor,
                key_hash,
                big_lpt: Some(compressor % 2 == 1),
                ..choices(page)
            };
            let lebs = made(leb, lebs, &choices);
            run(lebs, seed as u64 * 10 + u64::from(compressor), 3, 1500);
        }
    }
}
