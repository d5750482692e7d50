//! Linux recovers what we leave, and we what it leaves: volumes of mke2fs, used by the real kernel
//! and killed, or by us and dropped; judges are e2fsck and the kernel.
//!
//! Needs e2fsprogs, QEMU and the network once, for the kernel; without them it fails and says what
//! to install.

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_jbd::{Checkpoint, Journal, MAGIC, Map, Options, State};
use nandlab_oracle::manifest::differences;
use nandlab_oracle::{Disk, Oracle};
use nandlab_sim::mix;
use nandlab_testkit::share::whole_or;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// For a guest on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(900);
const VOLUME_BYTES: u64 = 32 << 20;
const MIB: usize = 1 << 20;
/// Offset of ext's superblock in bytes.
const EXT: usize = 1024;
/// What e2fsck changes in it when it has recovered the journal, which is not the journal's
/// business.
const EXT_FIELDS: [Range<usize>; 6] = [
    // Free blocks and free inodes, which it counts anew.
    EXT + 0x0C..EXT + 0x10,
    EXT + 0x10..EXT + 0x14,
    // The time of the last write, the number of mounts, the time of the last check.
    EXT + 0x30..EXT + 0x34,
    EXT + 0x34..EXT + 0x36,
    EXT + 0x40..EXT + 0x44,
    INCOMPATIBLE..INCOMPATIBLE + 1,
];
/// The incompatible features, and the one that asks for recovery.
const INCOMPATIBLE: usize = EXT + 0x60;
const NEEDS_RECOVERY: u8 = 4;

fn run(program: &str, words: &[&str], path: &Path) -> Output {
    let output = Command::new(program)
        .args(words)
        .arg(path)
        .env("LC_ALL", "C")
        .output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}; apt-get install e2fsprogs"));
    assert!(
        output.status.code().is_some_and(|code| code <= 1),
        "{program} {words:?}: {output:?}"
    );
    output
}

fn mke2fs(path: &Path, block: u32) {
    File::create(path).unwrap().set_len(VOLUME_BYTES).unwrap();
    // A journal of 4 MiB: 1024 blocks of 4096 bytes, the fewest that Linux works with.
    run(
        "/sbin/mke2fs",
        &[
            "-q",
            "-F",
            "-t",
            "ext3",
            "-b",
            &block.to_string(),
            "-J",
            "size=4",
        ],
        path,
    );
}

/// The first `count` blocks of a file, as debugfs finds them.
fn blocks_of(path: &Path, file: &str, count: u32) -> Vec<u64> {
    let mut commands = tempfile::NamedTempFile::new().unwrap();
    (0..count).for_each(|index| writeln!(commands, "bmap {file} {index}").unwrap());
    let output = run(
        "/sbin/debugfs",
        &["-f", commands.path().to_str().unwrap()],
        path,
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<u64> = text
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    assert_eq!(found.len(), count as usize, "{text:.300}");
    found
}

fn journal_map(path: &Path, block: u32) -> Map {
    blocks_of(path, "<8>", (4 << 20) / block)
        .into_iter()
        .collect()
}

fn load_disk(path: &Path) -> Ram {
    let mut disk = Ram::new(512, VOLUME_BYTES / 512);
    for (index, piece) in (0..).zip(fs::read(path).unwrap().chunks(MIB)) {
        disk.write(Lba(index * (MIB as u64 / 512)), piece).unwrap();
    }
    disk
}

fn bytes(disk: &mut Ram) -> Vec<u8> {
    let mut all = vec![0; VOLUME_BYTES as usize];
    disk.read(Lba(0), &mut all).unwrap();
    all
}

fn open(disk: Ram, map: &Map, block: u32, checkpoint: Checkpoint) -> Journal<Ram> {
    Journal::load(
        disk,
        map.clone(),
        block,
        Options {
            checkpoint,
            ..Options::default()
        },
    )
    .unwrap()
}

/// Places where two volumes differ, without those in `apart`.
fn differing(ours: &[u8], theirs: &[u8], apart: &[Range<usize>]) -> Vec<usize> {
    let pairs = ours
        .iter()
        .zip(theirs)
        .enumerate()
        .filter(|(_, (a, b))| a != b);
    pairs
        .map(|(at, _)| at)
        .filter(|at| !apart.iter().any(|range| range.contains(at)))
        .take(20)
        .collect()
}

/// Each size of blocks with each of two ways. A sample has the smallest with the first way and the
/// largest with the second.
fn cases<T: Copy>(ways: [T; 2]) -> impl Iterator<Item = (u32, T)> {
    let all = [1024, 2048, 4096].map(|block| ways.map(|way| (block, way)));
    all.into_iter().flatten().step_by(whole_or(1, 5))
}

/// Uses a volume in ways that leave everything a journal can hold: several transactions, revoked
/// metadata and data, blocks that look like the journal's own.
const USE: &str = r#"
    commit() { dd if=/dev/zero of=commit-$1 bs=1 count=1 conv=fsync 2> /dev/null || exit 1; }
    use_it() { # DEVICE MODE
        mount -t ext3 -o data=$2,commit=600 $1 /mnt && cd /mnt && mkdir -p a/b/c many dirs || exit 1
        printf '\300\073\071\230\0\0\0\001\0\0\0\003' > magic
        for i in 1 2 3 4 5 6 7; do head -c 4084 /dev/zero >> magic; printf '\300\073\071\230\0\0\0\002\0\0\0\004' >> magic; done
        i=0; while [ $i -lt 150 ]; do echo $i > many/file-with-a-name-$i; i=$((i + 1)); done
        i=0; while [ $i -lt 60 ]; do mkdir dirs/$i; i=$((i + 1)); done
        head -c 300000 /dev/urandom > large; commit 1
        cp magic a/b/magic; rm -r large dirs; mkdir gone; i=0; while [ $i -lt 40 ]; do echo $i > gone/$i; i=$((i + 1)); done; commit 2
        rm -r gone; head -c 200000 /dev/urandom > a/again; ln -s again a/link; commit 3
        mv many a/b/c/moved; rm a/b/c/moved/*7; head -c 100000 /dev/zero > zeros; cat magic magic > a/twice; commit 4
        echo last > last; commit 5
        echo uncommitted > uncommitted
        cd /
    }
"#;

#[test]
fn we_recover_what_the_kernel_left_as_e2fsck_and_the_kernel_do() {
    let scratch = tempfile::tempdir().unwrap();
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let cases: Vec<(u32, &str)> = cases(["journal", "ordered"]).collect();
    let mut guest = oracle.guest();
    let mut script = format!("{USE}\nmp ext4 || exit 1\n");
    let mut paths = Vec::new();
    for ((block, mode), device) in cases.iter().zip('a'..) {
        let path = scratch.path().join(format!("{block}-{mode}"));
        mke2fs(&path, *block);
        guest = guest.disk(Disk::File(path.clone()));
        script += &format!("(use_it /dev/vd{device} {mode}) || exit 1\n");
        paths.push(path);
    }
    let mut running = guest
        .timeout(PATIENCE)
        .script(script + "say ready yes\nsleep 900\n")
        .spawn()
        .unwrap();
    running.wait_for("ready", PATIENCE).unwrap();
    running.kill();
    assert!(running.wait().unwrap().qemu_killed);

    let mut total = nandlab_jbd::Recovery::default();
    for ((block, mode), path) in cases.iter().zip(&paths) {
        let found = compare_with_e2fsck(path, *block, &format!("{block} {mode}"));
        total.revoked += found.revoked;
        total.copied += found.copied;
    }
    let (revoked, copied) = whole_or((100, 600), (30, 200));
    assert!(
        total.revoked > revoked && total.copied > copied,
        "too little to judge by: {total:?}"
    );
    compare_with_the_kernel(&oracle, &paths);
}

/// Leaves what we recover at `path` + "ours".
fn compare_with_e2fsck(path: &Path, block: u32, id: &str) -> nandlab_jbd::Recovery {
    let theirs = path.with_extension("e2fsck");
    fs::copy(path, &theirs).unwrap();
    run("/sbin/e2fsck", &["-fy", "-E", "journal_only"], &theirs);
    let map = journal_map(path, block);
    let journal = open(load_disk(path), &map, block, Checkpoint::Copy);
    let found = journal.recovery();
    println!("{id}: {found:?}");
    assert!(
        found.transactions >= 4 && found.copied > 20,
        "{id}: {found:?}"
    );
    let ours = bytes(&mut journal.into_device());
    let theirs = fs::read(&theirs).unwrap();
    assert_eq!(differing(&ours, &theirs, &EXT_FIELDS), [], "{id}");
    let mut remapped = open(load_disk(path), &map, block, Checkpoint::Remap);
    assert!(
        remapped.recovery().remapped > 20 && remapped.checkpoint_mode() == Checkpoint::Remap,
        "{id}"
    );
    let home = |block_number: &u64| *block_number as usize * block as usize;
    let journal_blocks: Vec<_> = blocks_of(path, "<8>", map.blocks())
        .iter()
        .map(|number| home(number)..home(number) + block as usize)
        .collect();
    let mut remapped = bytes(remapped.device_mut());
    journal_blocks[1..]
        .iter()
        .for_each(|range| remapped[range.clone()].copy_from_slice(&ours[range.clone()]));
    assert_eq!(differing(&remapped, &ours, &[]), [], "{id}: remapped");
    fs::write(path.with_extension("ours"), ours).unwrap();
    found
}

/// The kernel recovers the crashed volume itself, and finds the same tree on the one that we
/// recovered.
fn compare_with_the_kernel(oracle: &Oracle, paths: &[PathBuf]) {
    let mut script = "mp ext4 || exit 1\n".to_owned();
    let mut guest = oracle.guest();
    let mut letters = 'a'..;
    for (index, path) in paths.iter().enumerate() {
        for (kind, path) in [
            ("theirs", path.clone()),
            ("ours", path.with_extension("ours")),
        ] {
            guest = guest.disk(Disk::File(path));
            let device = letters.next().unwrap();
            script += &format!(
                "mount -t ext3 /dev/vd{device} /mnt && manifest /mnt {index}-{kind} && umount /mnt || exit 1\n"
            );
        }
    }
    let report = guest
        .timeout(PATIENCE)
        .script(script)
        .run()
        .unwrap()
        .success()
        .unwrap();
    for (index, path) in paths.iter().enumerate() {
        let [theirs, ours] =
            ["theirs", "ours"].map(|kind| &report.manifests[&format!("{index}-{kind}")]);
        assert!(theirs.len() > 140, "a tree worth comparing");
        assert_eq!(differences(theirs, ours), "", "{}", path.display());
        run("/sbin/e2fsck", &["-fn"], &path.with_extension("ours"));
    }
}

/// A volume with one file of blocks that our transactions change.
struct Ours {
    path: PathBuf,
    block: u32,
    map: Map,
    /// The file's blocks on the file system.
    homes: Vec<u64>,
    /// What it holds behind the last committed transaction.
    contents: Vec<u8>,
}

const FILE_BLOCKS: u32 = 400;

fn contents(stamp: u64, block: u32) -> Vec<u8> {
    let mut data: Vec<u8> = (0..u64::from(block) / 8)
        .flat_map(|i| mix(stamp, i).to_be_bytes())
        .collect();
    if stamp.is_multiple_of(5) {
        data[..4].copy_from_slice(&MAGIC.to_be_bytes());
    }
    data
}

/// Fills the journal more than once round, revokes, writes behind the journal's back, and stops
/// with transactions that are not home.
fn write_ours(path: PathBuf, block: u32, checkpoint: Checkpoint) -> Ours {
    mke2fs(&path, block);
    let source = path.with_extension("source");
    let mut file: Vec<u8> = (0..u64::from(FILE_BLOCKS))
        .flat_map(|index| contents(1 << 40 | index, block))
        .collect();
    fs::write(&source, &file).unwrap();
    run(
        "/sbin/debugfs",
        &["-w", "-R", &format!("write {} file", source.display())],
        &path,
    );
    let map = journal_map(&path, block);
    let homes = blocks_of(&path, "file", FILE_BLOCKS);
    let mut journal = open(load_disk(&path), &map, block, checkpoint);
    let mut logged = 0;
    for round in 0u64.. {
        if logged > map.blocks() * 2 {
            break;
        }
        let count = 1 + mix(round, 1) as u32 % journal.credits_max().min(330);
        let mut handle = journal.start(count, 0).unwrap();
        for step in 0..u64::from(count) {
            let index = mix(round, step + 2) as usize % homes.len();
            let new = contents(round << 20 | step, block);
            journal.replace(&mut handle, homes[index], &new).unwrap();
            file[index * block as usize..][..block as usize].copy_from_slice(&new);
        }
        let tid = journal.stop(handle).unwrap();
        journal.sync(tid).unwrap();
        logged += count;
        if round % 4 == 1 {
            overwrite_behind(&mut journal, &homes, &mut file, block, round);
        }
    }
    last_transactions(&mut journal, &homes, &mut file, block);
    let mut disk = journal.into_device();
    let mut all = bytes(&mut disk);
    all[INCOMPATIBLE] |= NEEDS_RECOVERY;
    fs::write(&path, all).unwrap();
    Ours {
        path,
        block,
        map,
        homes,
        contents: file,
    }
}

/// Revokes a block that is in the log, and then writes to its place: recovery must not bring the
/// old copy back.
fn overwrite_behind(
    journal: &mut Journal<Ram>,
    homes: &[u64],
    file: &mut [u8],
    block: u32,
    round: u64,
) {
    let index = mix(round, 0) as usize % homes.len();
    let mut handle = journal.start(1, 0).unwrap();
    journal.revoke(&mut handle, homes[index]).unwrap();
    let tid = journal.stop(handle).unwrap();
    journal.sync(tid).unwrap();
    let new = contents(round << 30, block);
    journal
        .device_mut()
        .write(Lba(homes[index] * u64::from(block) / 512), &new)
        .unwrap();
    file[index * block as usize..][..block as usize].copy_from_slice(&new);
}

/// One transaction that is durable and not brought home; one more that is not committed, where that
/// leaves the first in the log.
fn last_transactions(journal: &mut Journal<Ram>, homes: &[u64], file: &mut [u8], block: u32) {
    for durable in [true, false] {
        let mut handle = journal.start(homes.len().div_ceil(3) as u32, 0).unwrap();
        for (index, home) in homes.iter().enumerate().step_by(3) {
            let new = contents(3 << 50 | index as u64 | u64::from(durable) << 40, block);
            journal.replace(&mut handle, *home, &new).unwrap();
            if durable {
                file[index * block as usize..][..block as usize].copy_from_slice(&new);
            }
        }
        journal.stop(handle).unwrap();
        journal.start_commit().unwrap();
        let end = if durable {
            State::Finished
        } else {
            State::Commit
        };
        while journal.state() != Some(end) {
            journal.step().unwrap();
        }
        if journal.checkpoint_mode() == Checkpoint::Remap {
            return;
        }
    }
    journal.step().unwrap();
}

#[test]
fn e2fsck_and_the_kernel_recover_what_we_left() {
    let scratch = tempfile::tempdir().unwrap();
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let mut guest = oracle.guest();
    let mut script = "mp ext4 || exit 1\n".to_owned();
    let mut volumes = BTreeMap::new();
    let cases = cases([Checkpoint::Copy, Checkpoint::Remap]);
    for ((block, checkpoint), device) in cases.zip('a'..) {
        let ours = write_ours(
            scratch.path().join(format!("{block}-{checkpoint:?}")),
            block,
            checkpoint,
        );
        compare_our_recovery(&ours);
        guest = guest.disk(Disk::File(ours.path.clone()));
        script += &format!(
            "mount -t ext3 /dev/vd{device} /mnt && send {device} /mnt/file && umount /mnt || exit 1\n"
        );
        volumes.insert(device.to_string(), ours);
    }
    let report = guest
        .timeout(PATIENCE)
        .script(script)
        .run()
        .unwrap()
        .success()
        .unwrap();
    for (device, ours) in volumes {
        assert!(
            report.files[&device] == ours.contents,
            "{}: as the kernel recovered it",
            ours.path.display()
        );
        run("/sbin/e2fsck", &["-fn"], &ours.path);
    }
}

/// e2fsck and we recover to the same bytes, and these hold the file.
fn compare_our_recovery(ours: &Ours) {
    let theirs = ours.path.with_extension("e2fsck");
    fs::copy(&ours.path, &theirs).unwrap();
    run("/sbin/e2fsck", &["-fy", "-E", "journal_only"], &theirs);
    let journal = open(
        load_disk(&ours.path),
        &ours.map,
        ours.block,
        Checkpoint::Copy,
    );
    let found = journal.recovery();
    println!("{}: {found:?}", ours.path.display());
    assert!(found.transactions > 0 && found.copied > 100, "{found:?}");
    let recovered = bytes(&mut journal.into_device());
    let theirs = fs::read(&theirs).unwrap();
    assert_eq!(
        differing(&recovered, &theirs, &EXT_FIELDS),
        [],
        "{}",
        ours.path.display()
    );
    for (index, home) in ours.homes.iter().enumerate() {
        let size = ours.block as usize;
        let expected = &ours.contents[index * size..][..size];
        assert!(
            &theirs[*home as usize * size..][..size] == expected,
            "{}: block {index} of the file",
            ours.path.display()
        );
    }
}
