//! Threaded logging starts where the real kernel's starts: the same calls on the same volume, with
//! blocks in holes counted on both sides. A sync ends each round, since the driver takes its own
//! checkpoints by the clock.

use crate::common::{assert_clean, ram};
use nandlab_block::Ram;
use nandlab_f2fs::{F2fs, Format, Options, format};
use nandlab_testkit::kernel::Volumes;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};

/// Bytes of a file, and of a write that an fsync follows.
const FILE: u64 = 4 << 20;
const PIECE: u64 = 1 << 20;
/// Rounds, each of which overwrites a piece of every file.
fn rounds() -> u64 {
    whole_or(16, 8)
}

/// Files on a volume.
fn file_count() -> u64 {
    whole_or(40, 16)
}

/// Shell: the same calls. After each round `NAME` says the blocks that filled holes, and those that
/// did not.
const WORK: &str = r#"
    piece() {
        dd if=/dev/zero of=/mnt/$1 bs=1M seek=$2 count=1 conv=notrunc,fsync 2> /dev/null || exit 1
    }
    blocks() { sed -n "s/^$1: \([0-9]*\) blocks.*/\1/p" /sys/kernel/debug/f2fs/status; }
    work() { # DEVICE NAME
        mount -t f2fs -o background_gc=off,noinline_data,nodiscard $1 /mnt || exit 1
        # On small volumes the driver overwrites in place wherever it can.
        echo 0 > /sys/fs/f2fs/${1#/dev/}/ipu_policy || exit 1
        f=0; while [ $f -lt FILES ]; do
            for at in 0 1 2 3; do piece $f $at; done
            f=$((f + 1))
        done
        sync; say $2 $(blocks SSR) $(blocks LFS)
        r=0; while [ $r -lt ROUNDS ]; do
            f=0; while [ $f -lt FILES ]; do piece $f $(((r + f) % 4)); f=$((f + 1)); done
            sync; say $2 $(blocks SSR) $(blocks LFS)
            r=$((r + 1))
        done
        cat /sys/kernel/debug/f2fs/status
        umount /mnt || exit 1
    }
    mp f2fs && mount -t debugfs d /sys/kernel/debug || exit 1
"#;

/// Blocks in holes and others, after each round.
type Blocks = Vec<(u64, u64)>;

fn ours(disk: &mut Ram) -> Blocks {
    let options = Options {
        inline_data: false,
        cleaning_interval: 0,
        discard: false,
        dirty_bytes_max: 64 << 20,
        ..Options::default()
    };
    let mut f2fs = F2fs::mount(disk, options).unwrap();
    let now = Time::new(1);
    let data = vec![0; PIECE as usize];
    let mut blocks = Blocks::new();
    let mut tell = |f2fs: &F2fs<_>| {
        let counts = f2fs.counts();
        let all: u64 = counts.written.iter().sum();
        blocks.push((counts.threaded, all - counts.threaded));
    };
    let mut files = Vec::new();
    for file in 0..file_count() {
        let name = file.to_string();
        let caller = Caller::root(now);
        let made = f2fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, caller);
        let ino = made.unwrap().ino;
        files.push(ino);
        for at in 0..FILE / PIECE {
            f2fs.write(ino, at * PIECE, &data, now).unwrap();
            f2fs.fsync(ino, Sync::All).unwrap();
        }
    }
    f2fs.sync().unwrap();
    tell(&f2fs);
    for round in 0..rounds() {
        for (file, ino) in (0..).zip(&files) {
            let at = (round + file) % (FILE / PIECE);
            f2fs.write(*ino, at * PIECE, &data, now).unwrap();
            f2fs.fsync(*ino, Sync::All).unwrap();
        }
        f2fs.sync().unwrap();
        tell(&f2fs);
    }
    f2fs.unmount().unwrap();
    blocks
}

/// The first round after which a block lies in a hole.
fn start(blocks: &Blocks) -> Option<usize> {
    blocks.iter().position(|(holes, _)| *holes > 0)
}

#[test]
fn threaded_logging_starts_in_the_round_in_which_the_kernels_starts() {
    let work = WORK.replace("FILES", &file_count().to_string());
    let mut volumes = Volumes::new(work.replace("ROUNDS", &rounds().to_string()));
    let mut found = Vec::new();
    let whole: &[_] = &[("segments", 384, 1), ("sections", 512, 4)];
    for &(name, mib, segs_per_sec) in whole_or(whole, &[("small", 160, 1)]) {
        let mut disk = ram(mib * 1024);
        let choices = Format {
            segs_per_sec,
            ..Format::default()
        };
        format(&mut disk, &choices).unwrap();
        volumes.add(name, &mut disk, |device| format!("work {device} {name}\n"));
        let blocks = ours(&mut disk);
        assert_clean(&mut disk, name);
        found.push((name, blocks));
    }
    assert!(found.iter().any(|(_, ours)| start(ours).is_some()));
    let report = volumes.boot();
    for (name, ours) in found {
        let pair = |said: &String| {
            let mut numbers = said.split(' ').map(|number| number.parse().unwrap());
            (numbers.next().unwrap(), numbers.next().unwrap())
        };
        let kernel: Blocks = report.values[name].iter().map(pair).collect();
        println!("{name}: ours {ours:?}\nkernel {kernel:?}");
        assert_eq!(kernel.len(), ours.len(), "{name}");
        assert_eq!(start(&ours), start(&kernel), "{name}");
        let [holes, theirs] = [&ours, &kernel].map(|blocks| blocks[blocks.len() - 1].0);
        assert!(
            holes.abs_diff(theirs) <= theirs / 4,
            "{name}: {holes}, {theirs}"
        );
    }
}
