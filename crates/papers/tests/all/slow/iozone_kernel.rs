//! IOzone on the real kernel's ext3 and on our file system: the same calls on the same volume, in
//! each mode; the blocks that reach the disk, side by side.
//!
//! Needs the tools of `nandlab-oracle`.

use crate::ext_parts::{Counts, Part, Reel, Volume};
use nandlab_block::Ram;
use nandlab_ext::{Ext, Format, Mode, format};
use nandlab_host::SharedDisk;
use nandlab_host::nbd::{Address, Options, Server};
use nandlab_lab::play::{Moment, play, verify};
use nandlab_oracle::{Disk, Oracle};
use nandlab_vfs::{FileSystem, Ino, Time};
use nandlab_workload::files::{Expected, FileCall, FileCalls};
use nandlab_workload::iozone::{Iozone, IozoneSpec};
use std::sync::Arc;
use std::time::Duration;

/// Sectors of the disk: 64 MiB.
const SECTORS: u64 = 64 << 11;
/// Blocks of the file, of 1 KiB: 4 MiB.
const FILE_BLOCKS: u64 = 4096;
/// Versions of the file's contents: written, and written again.
const VERSIONS: u32 = 2;
/// Blocks of the journal that mke2fs gives such a disk.
const USUAL: u32 = 4096;
/// Blocks of a journal that never has to free space.
const AMPLE: u32 = 16_384;
/// A guest without hardware support beside other tests is slow.
const PATIENCE: Duration = Duration::from_secs(900);

#[derive(Clone, Copy)]
struct Case {
    mode: Mode,
    /// As `mount` takes the mode.
    data: &'static str,
    /// Bytes of a record.
    record: u64,
    /// Blocks of the journal.
    journal: u32,
}

/// Each mode with small and with large records, and logged contents in a journal that holds all of
/// them.
fn cases() -> Vec<Case> {
    let modes = [
        (Mode::Journal, "journal"),
        (Mode::Ordered, "ordered"),
        (Mode::Writeback, "writeback"),
    ];
    let small = |(mode, data)| Case {
        mode,
        data,
        record: 4 << 10,
        journal: USUAL,
    };
    let mut cases: Vec<Case> = modes
        .map(small)
        .into_iter()
        .flat_map(|case| {
            [
                case,
                Case {
                    record: 1 << 20,
                    ..case
                },
            ]
        })
        .collect();
    cases.push(Case {
        journal: AMPLE,
        ..cases[0]
    });
    cases
}

impl Case {
    fn iozone(&self) -> Iozone {
        Iozone::new(IozoneSpec {
            record: self.record,
            ..IozoneSpec::default()
        })
        .unwrap()
    }

    /// An empty ext3 as mke2fs makes it.
    fn volume(&self) -> Ram {
        let mut disk = Ram::new(512, SECTORS);
        format(
            &mut disk,
            &Format {
                journal: true,
                journal_blocks: Some(self.journal),
                ..Format::default()
            },
        )
        .unwrap();
        disk
    }

    /// On our file system. A millisecond passes with each call, and no timer ends.
    fn ours(&self) -> (Reel, Expected) {
        let reel = Reel::new(self.volume());
        let options = nandlab_ext::Options {
            mode: self.mode,
            commit_interval: 1_000_000_000_000,
            ..nandlab_ext::Options::default()
        };
        let mut ext = Ext::mount(reel.clone(), options).unwrap();
        let mut calls = self.iozone();
        let mut millis = 0;
        let mut expected = Expected::new(calls.contents());
        let mut now = || {
            millis += 1;
            Time {
                secs: 1_000_000_000 + millis / 1000,
                nanos: (millis % 1000) as u32 * 1_000_000,
            }
        };
        let mut look = |moment, call: &FileCall| {
            if matches!(moment, Moment::After) {
                expected.apply(call).unwrap();
            }
        };
        play(&mut ext, &mut calls, &mut now, &mut look).unwrap_or_else(|error| panic!("{error}"));
        ext.unmount().unwrap();
        (reel, expected)
    }

    /// The file is there, byte for byte, and the volume has no faults. Gives the file's inode.
    fn found(&self, reel: &Reel, expected: &Expected) -> u64 {
        let mut ext = Ext::mount(
            reel.clone(),
            nandlab_ext::Options {
                read_only: true,
                ..nandlab_ext::Options::default()
            },
        )
        .unwrap();
        let calls = self.iozone();
        verify(&mut ext, Ino::ROOT, expected, &calls).unwrap_or_else(|error| panic!("{error}"));
        let report = ext.check().unwrap();
        assert_eq!((report.findings.as_slice(), report.more), (&[][..], 0));
        ext.lookup(
            Ino::ROOT,
            calls.name(expected.files().next().unwrap().0).as_bytes(),
        )
        .unwrap()
        .ino
        .0
    }
}

/// Every case on the kernel's, in one boot. The kernel's flusher sleeps meanwhile, and its
/// journal's timer is long: both are a matter of wall time.
fn theirs(cases: &[Case]) -> (String, Vec<Reel>) {
    let sockets = tempfile::tempdir().unwrap();
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let player = env!("CARGO_BIN_EXE_play-files");
    let mut guest = oracle.guest().program(player).timeout(PATIENCE);
    let mut script = String::from("mp ext4; echo 360000 >/proc/sys/vm/dirty_writeback_centisecs\n");
    let mut reels = Vec::new();
    let mut servers = Vec::new();
    for (case, drive) in cases.iter().zip('a'..) {
        let reel = Reel::new(case.volume());
        let socket = sockets.path().join(drive.to_string());
        let options = Options {
            dropped: Some(Arc::new(|why| panic!("a client was dropped: {why}"))),
            ..Options::default()
        };
        let disk = SharedDisk::new(Box::new(reel.clone()));
        servers.push(Server::start(disk, &Address::Unix(socket.clone()), options).unwrap());
        guest = guest.disk(Disk::Nbd { socket });
        let data = case.data;
        let bytes = IozoneSpec::default().bytes;
        let record = case.record;
        script += &format!(
            "mount -t ext3 -o data={data},commit=1000 /dev/vd{drive} /mnt && {player} /mnt iozone {bytes} {record} && umount /mnt || exit 1\n"
        );
        reels.push(reel);
    }
    let report = guest
        .script(script)
        .run()
        .and_then(|report| report.success())
        .unwrap_or_else(|error| panic!("{error}"));
    println!("guest: {:?}", report.wall);
    servers
        .into_iter()
        .for_each(|server| server.stop().unwrap());
    (oracle.kernel_release().into(), reels)
}

fn print(title: &str, ours: &Counts, theirs: &Counts) {
    println!(
        "{title}\n{:<26} {:>8} {:>8} {:>10}",
        "blocks written", "ours", "kernel", "difference"
    );
    let row = |name: &str, a: u64, b: u64| {
        println!("{name:<26} {a:>8} {b:>8} {:>+10}", a as i64 - b as i64)
    };
    Part::ALL
        .into_iter()
        .for_each(|part| row(&part.to_string(), ours.of(part), theirs.of(part)));
    row("all", ours.sum(|_| true), theirs.sum(|_| true));
    row("flushes", ours.flushes, theirs.flushes);
}

/// What does not go through the log, or goes home from it.
fn compare_home(case: &Case, ours: &Counts, theirs: &Counts) {
    let [contents, theirs_too] = [ours, theirs].map(|counts| counts.of(Part::Contents));
    if case.journal == AMPLE {
        // Committed contents are dirty pages of the file to Linux, and the next fsync writes them,
        // though the log holds them: the first version comes home before it is written over. Ours
        // stays in the log until the unmount, by which time the second has taken its place.
        assert_eq!((contents, theirs_too), (FILE_BLOCKS, 2 * FILE_BLOCKS));
    } else {
        assert_eq!((contents, theirs_too), (2 * FILE_BLOCKS, 2 * FILE_BLOCKS));
    }
    for part in [Part::Super, Part::Numbers] {
        assert_eq!(ours.of(part), theirs.of(part), "{part}");
    }
    // Which group has space for the file, and which block of an inode table its inode is in.
    for part in [Part::Bitmaps, Part::Inodes] {
        assert!(ours.of(part).abs_diff(theirs.of(part)) <= 1, "{part}");
    }
}

/// What goes through the log.
fn compare_log(case: &Case, ours: &Counts, theirs: &Counts) {
    assert_eq!(
        ours.of(Part::LoggedContents),
        if case.mode == Mode::Journal {
            2 * FILE_BLOCKS
        } else {
            0
        }
    );
    assert_eq!(
        ours.of(Part::LoggedContents),
        theirs.of(Part::LoggedContents)
    );
    assert_eq!((ours.of(Part::Revoke), theirs.of(Part::Revoke)), (0, 0));
    if case.mode != Mode::Journal {
        // Three transactions: the file, its contents, its times. One of them may hold one more
        // block of inodes.
        for part in [Part::Descriptor, Part::Commit] {
            assert_eq!((ours.of(part), theirs.of(part)), (3, 3), "{part}");
        }
        assert!(
            ours.of(Part::LoggedStructure)
                .abs_diff(theirs.of(Part::LoggedStructure))
                <= 1
        );
        // Ours when it is first used, when everything is home, and at the unmount; theirs two to
        // four times at the unmount alone.
        assert_eq!(ours.of(Part::JournalSuper), 3);
        assert!((3..=6).contains(&theirs.of(Part::JournalSuper)));
    } else {
        // Where transactions end differs: theirs at whatever block is the last that fits, while the
        // one before is still being written; ours between calls, and in the middle of one that is
        // more than half a transaction.
        let [ours, theirs] = [ours, theirs].map(|counts| counts.sum(Part::is_journal));
        assert!(
            ours.abs_diff(theirs) * 100 <= theirs,
            "{ours} blocks of the journal by us, {theirs} by the kernel, more than 1 % apart"
        );
    }
}

#[test]
fn the_kernel_writes_the_contents_that_we_write_and_its_journal_is_within_a_hundredth_of_ours() {
    let cases = cases();
    let (release, reels) = theirs(&cases);
    for (case, their_reel) in cases.iter().zip(reels) {
        let (our_reel, expected) = case.ours();
        let kinds = Volume::new(
            &mut case.volume(),
            case.iozone().contents(),
            IozoneSpec::default().bytes,
            VERSIONS,
        );
        let [ours, theirs] = [&our_reel, &their_reel].map(|reel| kinds.count(&reel.records()));
        let Case {
            data,
            record,
            journal,
            ..
        } = case;
        print(
            &format!(
                "IOzone, data={data}, records of {record} bytes, {journal} blocks of journal, Linux {release}"
            ),
            &ours,
            &theirs,
        );
        let inodes = [&our_reel, &their_reel].map(|reel| case.found(reel, &expected));
        // The number of the file that was made on trial and removed is given out again after the
        // next commit, Linux's at once.
        assert_eq!(inodes[0], inodes[1] + 1);
        compare_home(case, &ours, &theirs);
        compare_log(case, &ours, &theirs);
        for counts in [&ours, &theirs] {
            assert!(
                counts.flushes >= 2 * counts.of(Part::Commit),
                "the disk is flushed before and after each commit"
            );
        }
    }
}
