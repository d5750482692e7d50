//! The real kernel reads what went through our journal, and recovers what we left in it; we recover
//! what it left when it was killed.

use super::kernel::assert_seen_alike;
use crate::common::{assert_clean, manifest, needs_recovery, ram};
use nandlab_block::Ram;
use nandlab_ext::{Checkpoint, Ext, Format, Mode, Options, format};
use nandlab_oracle::manifest::differences;
use nandlab_testkit::kernel::{Volumes, listed};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::FileSystem;
use nandlab_vfs::model::{Model, Rules};

/// Shell: loads the kernel's driver.
pub(super) const EXT4: &str = "mp ext4 || exit 1\n";

/// Random calls on each volume.
fn calls() -> u64 {
    whole_or(10_000, 3_000)
}

/// How a volume is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    Unmounted,
    /// With a journal to be recovered, and changes that no commit has taken.
    Crashed,
}

fn block(mode: Mode) -> u32 {
    match mode {
        Mode::Journal => 1024,
        Mode::Ordered => 2048,
        Mode::Writeback | Mode::Unjournaled => 4096,
    }
}

/// A volume after many calls.
fn used(mode: Mode, checkpoint: Checkpoint, left: Left, seed: u64) -> Ram {
    let mut disk = ram(64 * 1024);
    format(
        &mut disk,
        &Format {
            journal: true,
            block: Some(block(mode)),
            journal_blocks: Some(1024),
            ..Format::default()
        },
    )
    .unwrap();
    let options = Options {
        mode,
        checkpoint,
        ..Options::default()
    };
    let rules = Rules {
        xattrs: mode != Mode::Journal,
        ..Rules::unix()
    };
    used_with(&mut disk, options, left, (seed, rules, calls()));
    disk
}

/// Works on a volume, and leaves it.
pub(super) fn used_with(
    disk: &mut Ram,
    options: Options,
    left: Left,
    (seed, rules, calls): (u64, Rules, u64),
) {
    let mut ext = Ext::mount(disk, options).unwrap();
    ext.rmdir(
        nandlab_vfs::Ino::ROOT,
        b"lost+found",
        nandlab_vfs::Time::new(1_000_000_000),
    )
    .unwrap();
    let mut model = Model::new(seed, rules);
    for _ in 0..4 {
        model
            .run(&mut ext, calls / 4)
            .unwrap_or_else(|mismatch| panic!("{options:?}: {mismatch} ({:?})", ext.fault()));
        ext.sync().unwrap();
    }
    if left == Left::Unmounted {
        model.release(&mut ext);
        ext.unmount().unwrap();
    } else {
        // Files are open that have no name, changes wait that nobody has synced.
        model.run(&mut ext, 300).unwrap();
        drop(ext);
    }
}

#[test]
fn the_kernel_reads_what_went_through_our_journal_and_recovers_what_we_left_in_it() {
    let mut volumes = Volumes::new(EXT4);
    let mut ours = Vec::new();
    for (seed, mode) in (1..).zip([Mode::Journal, Mode::Ordered, Mode::Writeback]) {
        let crashed = [Checkpoint::Copy, Checkpoint::Remap, Checkpoint::RemapLate]
            .map(|checkpoint| (checkpoint, Left::Crashed));
        // A sample has another way home for each mode.
        let (first, count) = whole_or((0, 3), (seed as usize - 1, 1));
        for (checkpoint, left) in crashed
            .into_iter()
            .skip(first)
            .take(count)
            .chain([(Checkpoint::Remap, Left::Unmounted)])
        {
            let name = format!("{mode:?}-{checkpoint:?}-{left:?}");
            let mut disk = used(mode, checkpoint, left, seed);
            assert_eq!(needs_recovery(&mut disk), left == Left::Crashed);
            volumes.add_listed(&name, &mut disk, "ext3");
            let mut ext = Ext::mount(
                &mut disk,
                Options {
                    mode,
                    checkpoint,
                    ..Options::default()
                },
            )
            .unwrap();
            ours.push((name.clone(), manifest(&mut ext)));
            ext.unmount().unwrap();
            assert_clean(&mut disk, &name);
        }
    }
    assert_seen_alike(&mut volumes, ours);
}

/// Shell: a function that works on a volume until the test kills it.
pub(super) fn work() -> String {
    format!("rounds={}\n{WORK}", whole_or(300, 60))
}

/// Names, contents, cuts, removals, now and then an fsync. A file in `/tmp` tells of many rounds.
const WORK: &str = r#"
    work() { # DEVICE DIRECTORY MODE TYPE NAME
        mkdir $2 && mount -t ${4:-ext3} -o data=$3,commit=1 $1 $2 && cd $2 && mkdir a b || exit 1
        n=0
        while :; do
            n=$((n + 1))
            echo $n > "a/number $n"; head -c $((n * 977 % 70000)) /dev/urandom > b/$((n % 40))
            mv "a/number $n" b/moved-$((n % 100)); ln -s "number $n" a/link-$n
            [ $((n % 3)) = 0 ] && truncate -s $((n * 31 % 9000)) b/$((n * 7 % 40))
            [ $((n % 4)) = 0 ] && rm -f a/link-$((n - 3)) b/$((n * 3 % 40))
            [ $((n % 5)) = 0 ] && dd if=/dev/zero of=a/synced-$((n % 20)) bs=1000 count=3 conv=fsync 2> /dev/null
            [ $n = $rounds ] && echo > /tmp/${5:-$3}
        done
    }
    mp ext4 || exit 1
"#;

#[test]
fn we_recover_what_the_kernel_left_when_it_was_killed_to_the_tree_that_it_recovers() {
    let modes = [("journal", 1024), ("ordered", 2048), ("writeback", 4096)];
    let mut volumes = Volumes::new(work());
    for (mode, block) in modes {
        let choices = Format {
            journal: true,
            block: Some(block),
            ..Format::default()
        };
        let mut disk = ram(48 * 1024);
        format(&mut disk, &choices).unwrap();
        volumes.add(mode, &mut disk, |device| {
            format!("work {device} /{mode} {mode} &\n")
        });
    }
    volumes.kill_when_ready(&modes.map(|(mode, _)| mode));

    volumes.shell(EXT4);
    let mut ours = Vec::new();
    for (mode, _) in modes {
        for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
            let mut disk = volumes.load(mode);
            assert!(needs_recovery(&mut disk));
            let mut ext = Ext::mount(
                &mut disk,
                Options {
                    checkpoint,
                    ..Options::default()
                },
            )
            .unwrap();
            ours.push((mode, manifest(&mut ext)));
            ext.unmount().unwrap();
            assert_clean(&mut disk, mode);
        }
        volumes.attach(mode, |device| listed(mode, device, "ext3"));
    }
    let report = volumes.boot();
    for (mode, ours) in ours {
        assert!(
            ours.len() > whole_or(100, 60),
            "{mode}: a tree worth comparing"
        );
        assert_eq!(
            differences(&report.manifests[mode], &ours),
            "",
            "{mode}: the kernel's recovery and ours"
        );
    }
}
