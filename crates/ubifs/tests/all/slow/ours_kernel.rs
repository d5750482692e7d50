//! The real kernel mounts volumes that we made and wrote, unmounted or cut, with all of its own
//! checks at work. It sees our tree, writes one of its own, and we see that. The volumes stay
//! nearly full, so that collection and commits are at work.
//!
//! `NANDLAB_UBIFS_CALLS=COUNT` takes every form of a volume, unmounted and cut, with `COUNT` calls;
//! `NANDLAB_UBIFS_FORMS=TEXT` only those whose names contain `TEXT`.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use super::forms::{COMPRESSORS, blank, calls, first_lines, is_chosen};
use crate::chips::{Chip, Dump, mounted};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::manifest::manifest;
use nandlab_testkit::share::{is_whole, whole_or};
use nandlab_testkit::xattrs::Attributes;
use nandlab_testkit::{kernel, tools, xattrs};
use nandlab_ubifs::format::KeyHash;
use nandlab_ubifs::{Counts, Format, LebError, LebShape, Lebs, Switches, UbiLebs, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, StatFs, Sync, Time};
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::time::Duration;

/// Calls that fill each volume in a plain run.
const USUAL: u64 = 3100;
/// Calls between two looks at the free space.
const STRETCH: u64 = 3;
/// The limit of a boot: a guest without hardware support is slow.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);
/// Images lie at multiples of this.
const UNIT: usize = 64 << 10;

/// A volume of ours.
struct Case {
    key: String,
    choices: Format,
    /// It is cut, not unmounted.
    is_cut: bool,
    /// It asked for a fix-up of its free space, which we did.
    fixup: bool,
    /// It stays nearly full.
    is_full: bool,
    /// Commits write between old index nodes. A cut falls into such a commit.
    prefers_gaps: bool,
    /// All names have one hash.
    collides: bool,
    seed: u64,
}

/// The cases of a plain run. A sample has only those with these compressors.
fn cases(sampled: Range<u16>) -> Vec<Case> {
    let mut cases = all_cases();
    cases.retain(|Case { choices, .. }| {
        choices.big_lpt == Some(choices.compressor % 2 == 1)
            && (is_whole() || sampled.contains(&choices.compressor))
    });
    cases
}

/// The cases that the environment picks, if it does.
fn picked(page: u32) -> Option<Vec<Case>> {
    calls()?;
    let mut cases = all_cases();
    cases.retain(|case| is_chosen(&format!("{page}-{}", case.key)));
    Some(cases)
}

fn all_cases() -> Vec<Case> {
    let forms = (0..).zip(COMPRESSORS);
    let forms = forms.flat_map(|form| [false, true].map(|is_big| (form, is_big)));
    let mut cases = Vec::new();
    for ((compressor, name), is_big) in forms {
        for is_cut in [false, true] {
            let is_odd = compressor % 2 == 1;
            let version = if is_odd == is_cut { 5 } else { 4 };
            let key_hash = if is_odd { KeyHash::Test } else { KeyHash::R5 };
            let choices = Format {
                version,
                compressor,
                key_hash,
                big_lpt: Some(is_big),
                uuid: *b"made by this kit",
                now: Time::new(1_700_000_000),
                ..Format::default()
            };
            let end = if is_cut { "cut" } else { "clean" };
            let lpt = if is_big { "big" } else { "small" };
            cases.push(Case {
                key: format!("{lpt}-{name}-{end}"),
                choices,
                is_cut,
                fixup: is_odd,
                is_full: true,
                prefers_gaps: is_odd == is_cut,
                collides: false,
                seed: u64::from(compressor),
            });
        }
    }
    cases
}

/// The contents of a volume.
struct Seen {
    dump: Vec<u8>,
    manifest: Manifest,
    attributes: Attributes,
    space: StatFs,
}

/// A volume whose power fails when the next commit would write its master nodes.
struct Stops {
    lebs: UbiLebs<Dump>,
    at_master: Rc<Cell<bool>>,
}

type Volume = Ubifs<Stops>;

impl Stops {
    fn written(&mut self, lnum: u32) -> Result<&mut UbiLebs<Dump>, LebError> {
        match self.at_master.get() && matches!(lnum, 1 | 2) {
            true => Err(LebError::ReadOnly),
            false => Ok(&mut self.lebs),
        }
    }
}

impl Lebs for Stops {
    fn shape(&self) -> LebShape {
        self.lebs.shape()
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.lebs.read(lnum, offs, buf)
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.written(lnum)?.write(lnum, offs, bytes)
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.written(lnum)?.change(lnum, bytes)
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        self.lebs.unmap(lnum)
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        self.lebs.renew(lnum)
    }

    fn sync(&mut self) -> Result<(), LebError> {
        self.lebs.sync()
    }
}

/// Makes a volume, fills it at random, and leaves it.
fn made(chip: Chip, case: &Case) -> Seen {
    let at_master = Rc::new(Cell::new(false));
    let lebs = Stops {
        lebs: format(blank(chip), &case.choices).unwrap(),
        at_master: at_master.clone(),
    };
    let mut fs = mounted_to_write(lebs, case);
    if case.fixup {
        fs.unmount().unwrap();
        fs.require_fixup().unwrap();
        fs = mounted_to_write(fs.into_lebs(), case);
        assert!(fs.journal().fixup && !fs.head().needs_fixup());
    }
    written(&mut fs, case);
    let space = fs.statfs().unwrap();
    let attributes = xattrs::seen(&mut fs);
    let manifest = manifest(&mut fs);
    if !case.is_cut {
        fs.unmount().unwrap();
    } else if case.prefers_gaps {
        let before = fs.counts().gaps_filled;
        at_master.set(true);
        assert!(fs.sync().is_err());
        assert!(fs.counts().gaps_filled > before, "{:?}", fs.counts());
    }
    let mut ubi = fs.into_lebs().lebs.into_ubi();
    ubi.sync().unwrap();
    Seen {
        dump: ubi.into_medium().into_backing(),
        manifest,
        attributes,
        space,
    }
}

fn mounted_to_write(lebs: Stops, case: &Case) -> Volume {
    let switches = Switches {
        prefers_gaps: case.prefers_gaps,
        ..Switches::default()
    };
    Ubifs::mount_switched(lebs, switches).unwrap()
}

/// Makes random calls, the last of which are durable.
fn written(fs: &mut Volume, case: &Case) {
    let usual = Rules::unix();
    let rules = Rules {
        inodes_max: 150,
        // The files that keep the volume full leave space for those of the calls.
        file_bytes_max: if case.is_full { 60_000 } else { 200_000 },
        names: if case.collides {
            &COLLIDING
        } else {
            usual.names
        },
        ..usual
    };
    let mut model = Model::new(case.seed, rules);
    let calls = calls().unwrap_or(USUAL);
    // The last tenth is in the journal only.
    let parts = [calls * 9 / 40; 4].into_iter().chain([calls / 10]);
    for (part, calls) in parts.enumerate() {
        if part > 0 {
            fs.sync().unwrap();
        }
        for first in (0..calls).step_by(STRETCH as usize) {
            if case.is_full {
                top_up(fs, &mut model, first, case.collides);
            }
            let ran = model.run(fs, STRETCH.min(calls - first));
            ran.unwrap_or_else(|mismatch| panic!("{}: {mismatch} {:?}", case.key, fs.cause()));
        }
    }
    // Every second commit fills gaps: the next one is to be one of these.
    while case.prefers_gaps && fs.master().commit.is_multiple_of(2) {
        fs.sync().unwrap();
        model.run(fs, 20).unwrap();
    }
    model.release(fs);
    fs.fsync(Ino::ROOT, Sync::All).unwrap();
    let counts = fs.counts();
    println!("{}: {calls} calls, {counts:?}", case.key);
    if case.is_full {
        assert_worked(counts, calls);
    }
    if case.prefers_gaps {
        assert!(counts.gaps_filled > calls / 400, "{counts:?}");
    }
}

/// Collection and commits were at work.
fn assert_worked(counts: Counts, calls: u64) {
    let least = calls / 100;
    assert!(
        counts.collected > least && counts.commits > least,
        "{counts:?}, expected more than {least}"
    );
}

/// Names with one hash.
const COLLIDING: [&[u8]; 9] = [
    b"name a",
    b"name b",
    b"name dir",
    b"name file.txt",
    b"name 001",
    b"name 002",
    b"name 003",
    b"name of some other length",
    b"name z",
];

/// Keeps the volume nearly full: makes files longer, in the reference too, or removes some.
fn top_up(fs: &mut Volume, model: &mut Model, turn: u64, collides: bool) {
    let here = fs.head().geometry;
    let part = here.main_bytes() / 32;
    let least = part + 2 * u64::from(here.leb);
    for number in 0..200 {
        let space = fs.statfs().unwrap();
        let free = space.available * u64::from(space.block_bytes);
        // The hash for tests takes the first four bytes of a name.
        let number = (turn + number) % 60;
        let name = match collides {
            true => format!("name {number:03}"),
            false => format!("{number:03} ballast"),
        };
        if free < least {
            let expected = model.judge().unlink(Ino::ROOT, name.as_bytes(), NOW);
            let found = fs.unlink(Ino::ROOT, name.as_bytes(), NOW);
            assert_eq!(expected, found, "{name}");
        } else if free > least + part {
            let bytes = nandlab_testkit::files::bytes(turn, 60_000);
            let expected = appended(model.judge(), &name, &bytes);
            let found = appended(fs, &name, &bytes);
            assert_eq!(
                expected,
                found,
                "{name} {free} {:?} {:?}",
                fs.counts(),
                fs.cause()
            );
        } else {
            return;
        }
    }
}

/// The time of all changes to files that take space.
const NOW: Time = Time::new(1_000_000_000);

/// Makes a file longer, or begins it anew if it is long. Returns the bytes that found space.
fn appended<F: FileSystem>(fs: &mut F, name: &str, bytes: &[u8]) -> Result<usize, Errno> {
    let name = name.as_bytes();
    let by = Caller::root(NOW);
    let attr = match fs.lookup(Ino::ROOT, name) {
        Err(Errno::NoEntry) => fs.create(Ino::ROOT, name, NewNode::File, 0o644, by)?,
        found => found?,
    };
    let offset = if attr.size < 440_000 { attr.size } else { 0 };
    let done = fs.write(attr.ino, offset, bytes, NOW);
    fs.forget(attr.ino, 1);
    done
}

#[test]
#[ignore = "takes a minute; pages of 2 KiB are always tried: `cargo xtask test whole` runs it"]
fn volumes_on_pages_of_512_bytes_are_the_kernels() {
    let chip = Chip {
        page: 512,
        block: 16 << 10,
        blocks: 768,
        nandsim: "id_bytes=0x98,0x73",
    };
    judge(chip, 0..2);
}

#[test]
fn volumes_on_pages_of_2_kib_are_the_kernels() {
    let chip = Chip {
        page: 2048,
        block: 128 << 10,
        blocks: 100,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x15",
    };
    judge(chip, 2..3);
}

#[test]
#[ignore = "takes a minute; pages of 2 KiB are always tried: `cargo xtask test whole` runs it"]
fn volumes_on_pages_of_4_kib_are_the_kernels() {
    let chip = Chip {
        page: 4096,
        block: 256 << 10,
        blocks: 100,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x26",
    };
    let mut few = cases(0..4);
    few.retain(|case| case.is_cut && case.choices.compressor % 3 == 0);
    judge_cases(chip, picked(4096).unwrap_or(few));
}

/// The properties of so many blocks do not fit one block: the tree takes its big form by itself.
#[test]
fn volumes_with_a_big_tree_of_properties_are_the_kernels() {
    let chip = Chip {
        page: 512,
        block: 16 << 10,
        blocks: 4200,
        nandsim: "id_bytes=0x98,0x79",
    };
    let case = Case {
        key: "big".into(),
        choices: Format {
            uuid: *b"made by this kit",
            ..Format::default()
        },
        is_cut: false,
        fixup: true,
        is_full: false,
        prefers_gaps: false,
        collides: false,
        seed: 77,
    };
    judge_cases(chip, Vec::from([case]));
}

/// The kernel's replay tells names of one hash apart, although collection moves and drops them.
#[test]
fn volumes_of_names_with_one_hash_are_the_kernels() {
    let chip = Chip {
        page: 512,
        block: 16 << 10,
        blocks: 400,
        nandsim: "id_bytes=0x98,0x73",
    };
    let mut cases = all_cases();
    cases.retain(|case| case.choices.key_hash == KeyHash::Test && case.is_cut);
    for (case, seed) in cases.iter_mut().zip(100..) {
        case.collides = true;
        case.seed = seed;
        case.key += "-one-hash";
    }
    cases.drain(..whole_or(0, cases.len() - 1));
    judge_cases(chip, cases);
}

fn judge(chip: Chip, sampled: Range<u16>) {
    judge_cases(chip, picked(chip.page).unwrap_or_else(|| cases(sampled)));
}

fn judge_cases(chip: Chip, cases: Vec<Case>) {
    if cases.is_empty() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("disk");
    let bytes = chip.bytes();
    let disk = File::create(&path).unwrap();
    let volumes: Vec<Seen> = cases.iter().map(|case| made(chip, case)).collect();
    for (index, volume) in volumes.iter().enumerate() {
        disk.write_all_at(&volume.dump, (index * bytes) as u64)
            .unwrap();
    }
    let programs = ["nandwrite", "nanddump", "ubiattach", "ubidetach"];
    let guest = programs.iter().fold(kernel::guest(), |guest, program| {
        guest.program(std::path::Path::new("/usr/sbin").join(program))
    });
    let guest = guest
        .file("/life", tools::compiled(include_str!("life.c")))
        .file("/xattrs", xattrs::program())
        .timeout(PATIENCE)
        .memory(900)
        .disk(Disk::File(path.clone()));
    let mut script = String::from(include_str!("life.sh"));
    script += include_str!("ours.sh");
    script += "mp ubi && mp ubifs && mount -t debugfs d /sys/kernel/debug || exit 1\n";
    let count = bytes / UNIT;
    for (index, case) in cases.iter().enumerate() {
        let place = index * count;
        let Case { key, .. } = case;
        let Chip {
            page,
            nandsim,
            blocks,
            ..
        } = chip;
        script += &format!(
            "ours {key} {place} {count} {page} {nandsim} parts={blocks} || {{ echo {key} failed; \
             dmesg | grep -v '^.*\t0000' | grep -iE 'ubifs|lprops|LEB' | head -40; exit 1; }}\n"
        );
    }
    let report = kernel::boot(guest.script(script));
    let disk = File::open(path).unwrap();
    let mut wrong = Vec::new();
    for (index, (case, volume)) in cases.iter().zip(&volumes).enumerate() {
        let mut dump = vec![0; bytes];
        disk.read_exact_at(&mut dump, (index * bytes) as u64)
            .unwrap();
        if let Err(why) = same(&report, &case.key, chip, volume, dump) {
            wrong.push(format!("{} {}: {why}", chip.page, case.key));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Compares the blocks and free blocks that the kernel tells with ours.
fn spaces(kernel: Option<&str>, ours: StatFs, main: u64) -> Result<(), String> {
    let said = kernel.unwrap_or_default();
    let numbers = said.split(' ').map(str::parse);
    let numbers: Result<Vec<u64>, _> = numbers.collect();
    let Ok([blocks, free]) = numbers.as_deref() else {
        return Err(format!("{said}, expected two numbers"));
    };
    println!(
        "space: the kernel {said}, ours {} {}, of {main}",
        ours.blocks, ours.free
    );
    let far = main / 40;
    match blocks.abs_diff(ours.blocks) <= far && free.abs_diff(ours.free) <= far {
        true => Ok(()),
        false => Err(format!("{said}, ours {ours:?}")),
    }
}

/// Compares what the kernel saw of our volume, and what we see of what it made of that.
fn same(report: &Report, key: &str, chip: Chip, ours: &Seen, dump: Vec<u8>) -> Result<(), String> {
    let of = |end: &str| {
        let attributes = &report.files[&format!("{key}-{end}-attributes")];
        let manifest = &report.manifests[&format!("{key}-{end}")];
        (manifest, xattrs::sent(attributes))
    };
    let (manifest_seen, attributes) = of("ours");
    first_lines(&differences(manifest_seen, &ours.manifest))?;
    let main = u64::from(chip.blocks) * u64::from(chip.block / ours.space.block_bytes);
    spaces(report.value(&format!("{key}-space")), ours.space, main)
        .map_err(|why| format!("free space: {why}"))?;
    first_lines(&xattrs::differences(&attributes, &ours.attributes))?;
    let (manifest_seen, attributes) = of("kernel");
    let mut fs = mounted(chip, dump).map_err(|error| error.to_string())?;
    if key == "big" && !fs.head().has_big_lpt() {
        return Err("the properties fit one block, expected more of them".into());
    }
    first_lines(&differences(manifest_seen, &manifest(&mut fs)))?;
    first_lines(&xattrs::differences(&attributes, &xattrs::seen(&mut fs)))?;
    let findings = fs.check().findings;
    let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
    first_lines(&said.join("\n"))
}
