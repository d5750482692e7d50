//! Volumes of ours: made, written, and mounted again.

use nandlab_testkit::media::Media;
use nandlab_ubifs::format::KeyHash;
use nandlab_ubifs::{Bare, Format, Packed, Packer, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Time};

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

/// Linux refuses to mount a volume whose journal is longer than its main area.
#[test]
fn the_journal_fits_a_volume_that_never_grows() {
    for lebs in [60, 90, 150] {
        let choices = Format {
            lebs_max: Some(4000),
            ..choices(512)
        };
        let fs = Ubifs::mount(made(15_872, lebs, &choices)).unwrap();
        let head = fs.head();
        let main = head.geometry.main_bytes();
        let least = 3 * u64::from(head.geometry.leb);
        assert!((least..main).contains(&head.bud_bytes), "{lebs}: {head:?}");
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
    let bytes = lebs.into_bytes();
    Media::default()
        .bytes(&bytes)
        .assert(&format!("ubifs {seed} {}", bytes.len()));
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

/// Writes a file of random bytes; returns how many found room.
fn filled(fs: &mut Volume, name: &str, seed: u64, len: usize) -> usize {
    let by = Caller::root(Time::new(9));
    let made = fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by);
    let Ok(made) = made else {
        assert_eq!(made, Err(Errno::NoSpace));
        return 0;
    };
    let data = nandlab_testkit::files::bytes(seed, len);
    let mut done = 0;
    while done < len {
        match fs.write(made.ino, done as u64, &data[done..], Time::new(9)) {
            Ok(count) => done += count,
            Err(error) => {
                assert_eq!(error, Errno::NoSpace);
                break;
            }
        }
    }
    fs.forget(made.ino, 1);
    done
}

#[test]
fn a_full_volume_gives_all_its_room_back_again_and_again() {
    for (page, leb, lebs) in [(2048, 126_976, 30), (512, 15_872, 200)] {
        let mut fs = Ubifs::mount_writable(made(leb, lebs, &choices(page))).unwrap();
        let main = fs.head().geometry.main_bytes() as usize;
        let mut least = usize::MAX;
        for round in 0..6u64 {
            let mut total = 0;
            let mut count = 0;
            loop {
                let done = filled(
                    &mut fs,
                    &format!("file {count}"),
                    round * 999 + count,
                    30_000,
                );
                total += done;
                count += 1;
                if done < 30_000 {
                    break;
                }
            }
            assert_sound(&mut fs, &format!("full {round}"));
            least = least.min(total);
            // Every second file goes, others are written over, then all go.
            for number in (0..count).step_by(2).chain((1..count).step_by(2)) {
                let name = format!("file {number}");
                match fs.unlink(Ino::ROOT, name.as_bytes(), Time::new(10)) {
                    Ok(()) | Err(Errno::NoEntry) => {}
                    Err(error) => panic!("{round}: {error} {:?}", fs.cause()),
                }
                if number + 2 == count {
                    filled(&mut fs, &format!("other {round}"), round, main / 5);
                    assert_sound(&mut fs, &format!("half {round}"));
                }
            }
            let name = format!("other {round}");
            _ = fs.unlink(Ino::ROOT, name.as_bytes(), Time::new(10));
            assert_sound(&mut fs, &format!("empty {round}"));
        }
        assert!(least * 2 > main, "{page}: {least} of {main}");
        let counts = fs.counts();
        assert!(counts.collected > 10 && counts.moved > 50, "{counts:?}");
        fs.unmount().unwrap();
    }
}

/// A block gives only as many bytes as are dirty in it: a call collects many of them.
#[test]
fn free_bytes_that_lie_scattered_are_found_by_one_call() {
    let mut fs = Ubifs::mount_writable(made(126_976, 90, &choices(2048))).unwrap();
    let mut count = 0;
    while filled(&mut fs, &format!("file {count}"), count, 4096) == 4096 {
        count += 1;
    }
    for number in (0..count).step_by(9) {
        let name = format!("file {number}");
        fs.unlink(Ino::ROOT, name.as_bytes(), Time::new(10))
            .unwrap();
    }
    let space = fs.statfs().unwrap();
    let free = (space.available * u64::from(space.block_bytes)) as usize;
    assert!(free > 200_000, "{free}");
    assert_eq!(filled(&mut fs, "one more", 1, free / 2), free / 2);
    assert_sound(&mut fs, "full again");
}

#[test]
fn small_changes_in_many_files_keep_the_index_short() {
    let mut fs = Ubifs::mount_writable(made(15_872, 400, &choices(512))).unwrap();
    for number in 0..1500 {
        filled(&mut fs, &format!("file {number}"), number, 300);
    }
    for round in 0..400u64 {
        for step in 0..4 {
            let number = nandlab_sim::mix(round, step) % 1500;
            let ino = fs
                .lookup(Ino::ROOT, format!("file {number}").as_bytes())
                .unwrap()
                .ino;
            fs.write(ino, 0, &[round as u8; 200], Time::new(round as i64))
                .unwrap();
            fs.forget(ino, 1);
        }
        fs.sync().unwrap();
    }
    assert_sound(&mut fs, "changed");
    let master = fs.master();
    let needed = master.index_bytes.div_ceil(15_872);
    let used = u64::from(master.space.index_lebs);
    assert!(
        used <= 3 * needed + 2,
        "{used} blocks for an index of {needed}"
    );
}

#[test]
fn an_image_of_mkfs_ubifs_grows_into_its_volume_and_is_written() {
    let dir = tempfile::tempdir().unwrap();
    nandlab_testkit::host::tree(dir.path());
    for (shape, most) in crate::made::SHAPES.into_iter().zip(["900", "300", "4000"]) {
        let mut bytes = crate::made::made(dir.path(), shape, &["-c", most]);
        let old = bytes.len() / shape.1 as usize;
        let lebs = old + 200;
        bytes.resize(lebs * shape.1 as usize, 0xFF);
        let lebs = lebs.min(most.parse().unwrap());
        let mut fs = Ubifs::mount_writable(Bare::new(bytes).unwrap().unwrap()).unwrap();
        assert_eq!(fs.head().geometry.lebs as usize, lebs, "{shape:?}");
        let len = (lebs - old) / 2 * shape.1 as usize;
        assert_eq!(filled(&mut fs, "a long file", 7, len), len, "{shape:?}");
        nandlab_testkit::host::compare(&mut fs, Ino::ROOT, dir.path(), &["dev", "a long file"]);
        fs.unmount().unwrap();
        let mut again = Ubifs::mount(fs.into_lebs()).unwrap();
        assert_sound(&mut again, "grown");
        assert_eq!(again.master().lebs as usize, lebs);
    }
}

/// Linux reads the lists of a commit up to the one that is marked as the last. Without the mark it
/// would go on to lists of an older commit.
#[test]
fn the_last_list_of_orphans_is_marked_and_no_other() {
    const LEB: u32 = 15_872;
    // One list has as many as fit a block.
    let most = (LEB - 32) / 8;
    for (orphans, marks) in [(3, [true, false]), (most + 1, [false, true])] {
        let mut fs = Ubifs::mount_writable(made(LEB, 400, &choices(512))).unwrap();
        let by = Caller::root(Time::new(1));
        for number in 0..orphans {
            let name = format!("{number}");
            fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o600, by)
                .unwrap();
            // The caller still refers to it.
            fs.unlink(Ino::ROOT, name.as_bytes(), by.now).unwrap();
        }
        fs.sync().unwrap();
        let first = fs.head().geometry.orphan_first();
        let bytes = fs.into_lebs().into_bytes();
        let is_marked = [0, 1].map(|list| {
            let node = (first + list) as usize * LEB as usize;
            // Bit 63 of the number of the commit.
            let commit = bytes[node + 31];
            bytes[node..node + 4] == 0x0610_1831u32.to_le_bytes() && commit & 0x80 != 0
        });
        assert_eq!(is_marked, marks, "{orphans}");
    }
}

/// Writes random parts of a file, of contents that compress and of some that do not.
fn written(compressor: u16, is_packed_before: bool) -> Vec<u8> {
    let choices = Format {
        compressor,
        ..choices(512)
    };
    let mut fs = Ubifs::mount_writable(made(15_872, 200, &choices)).unwrap();
    let by = Caller::root(Time::new(5));
    let file = fs
        .create(Ino::ROOT, b"file", NewNode::File, 0o644, by)
        .unwrap()
        .ino;
    let mut packer = Packer::default();
    for step in 0..60 {
        let word = nandlab_sim::mix(7, step);
        let at = word % 60_000 / (1 + step % 3 * 4095) * (1 + step % 3 * 4095);
        let byte = |n: u64| nandlab_sim::mix(step, n / (1 + step % 7 * 30)) as u8;
        let data: Vec<u8> = (0..(word >> 32) % 30_000 + 1).map(byte).collect();
        let packed = match is_packed_before {
            true => Packed::new(&mut packer, compressor, at, &data),
            false => Packed::default(),
        };
        let count = fs.write_packed(file, at, (&data, &packed), by.now);
        assert_eq!(count, Ok(data.len()), "step {step}");
    }
    fs.forget(file, 1);
    fs.unmount().unwrap();
    fs.into_lebs().into_bytes()
}

#[test]
fn contents_that_were_packed_before_make_the_same_volume() {
    for compressor in 0..4 {
        let volumes = [false, true].map(|is| written(compressor, is));
        assert!(volumes[0] == volumes[1], "compressor {compressor}");
    }
}

#[test]
fn contents_that_do_not_compress_find_the_free_bytes_and_few_more() {
    let shapes = [
        (8, 65_536, 100),
        (512, 15_872, 500),
        (2048, 126_976, 90),
        (4096, 253_952, 60),
    ];
    for (page, leb, lebs) in shapes {
        let mut fs = Ubifs::mount_writable(made(leb, lebs, &choices(page))).unwrap();
        let space = fs.statfs().unwrap();
        let told = space.available * u64::from(space.block_bytes);
        assert!(space.blocks >= space.free);
        let mut took = 0;
        for number in 0.. {
            let done = filled(&mut fs, &format!("{number}"), number, 100_000);
            took += done as u64;
            if done < 100_000 {
                break;
            }
        }
        println!("{page}: {told} bytes told, {took} took");
        assert!(
            (told..told * 6 / 5).contains(&took),
            "{page}: {told} {took}"
        );
        let left = fs.statfs().unwrap().available;
        assert!(left < space.available / 20, "{page}: {left}");
    }
}
