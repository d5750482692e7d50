//! The real kernel mounts volumes that we made and wrote, unmounted or cut, with all of its own
//! checks at work. It sees our tree, writes one of its own, and we see that.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use crate::chips::{Chip, Dump, mounted};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::manifest::manifest;
use nandlab_testkit::xattrs::Attributes;
use nandlab_testkit::{kernel, tools, xattrs};
use nandlab_ubi::{Headers, Options, Ubi, VolumeSpec};
use nandlab_ubifs::format::KeyHash;
use nandlab_ubifs::{Format, UbiLebs, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{FileSystem, Time};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Calls that fill each volume, if another number of them is wanted.
const CALLS: &str = "NANDLAB_UBIFS_CALLS";
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
    seed: u64,
}

fn cases() -> Vec<Case> {
    let compressors = ["none", "lzo", "zlib", "zstd"];
    let mut cases = Vec::new();
    for (compressor, name) in (0..).zip(compressors) {
        for is_cut in [false, true] {
            let is_odd = compressor % 2 == 1;
            let version = if is_odd == is_cut { 5 } else { 4 };
            let key_hash = if is_odd { KeyHash::Test } else { KeyHash::R5 };
            let choices = Format {
                version,
                compressor,
                key_hash,
                big_lpt: is_odd.then_some(true),
                uuid: *b"made by this kit",
                now: Time::new(1_700_000_000),
                ..Format::default()
            };
            let end = if is_cut { "cut" } else { "clean" };
            let seed = u64::from(compressor);
            cases.push(Case {
                key: format!("{name}-{end}"),
                choices,
                is_cut,
                fixup: is_odd,
                seed,
            });
        }
    }
    cases
}

/// What is in a volume.
struct Seen {
    dump: Vec<u8>,
    manifest: Manifest,
    attributes: Attributes,
}

fn image(chip: Chip) -> Dump {
    let format = ImageFormat {
        page: chip.page,
        oob: 0,
        pages_per_block: chip.block / chip.page,
        layout: Layout::Raw,
        ecc: None,
    };
    Image::new(vec![0xFF; chip.bytes()], format).unwrap()
}

/// Makes a volume, fills it at random, and leaves it.
fn made(chip: Chip, case: &Case) -> Seen {
    let options = Options {
        headers: Headers::At(chip.page),
        image_seq: 5,
        ..Options::default()
    };
    let mut ubi = Ubi::format(image(chip), options).unwrap();
    let lebs = ubi.info().available;
    let spec = VolumeSpec {
        name: "root".into(),
        lebs,
        ..VolumeSpec::default()
    };
    let id = ubi.create_volume(&spec).unwrap();
    let lebs = format(UbiLebs::new(ubi, id).unwrap(), &case.choices).unwrap();
    let mut fs = Ubifs::mount_writable(lebs).unwrap();
    if case.fixup {
        fs.unmount().unwrap();
        fs.require_fixup().unwrap();
        fs = Ubifs::mount_writable(fs.into_lebs()).unwrap();
        assert!(fs.journal().fixup && !fs.head().needs_fixup());
    }
    let rules = Rules {
        inodes_max: 150,
        ..Rules::unix()
    };
    let mut model = Model::new(case.seed, rules);
    let calls = std::env::var(CALLS).map_or(3100, |text| text.parse().unwrap());
    // The last tenth is in the journal only.
    let parts = [calls * 9 / 40; 4].into_iter().chain([calls / 10]);
    for (part, calls) in parts.enumerate() {
        if part > 0 {
            fs.sync().unwrap();
        }
        let ran = model.run(&mut fs, calls);
        ran.unwrap_or_else(|mismatch| panic!("{}: {mismatch} {:?}", case.key, fs.cause()));
    }
    model.release(&mut fs);
    fs.fsync(nandlab_vfs::Ino::ROOT, nandlab_vfs::Sync::All)
        .unwrap();
    let attributes = xattrs::seen(&mut fs);
    let manifest = manifest(&mut fs);
    if !case.is_cut {
        fs.unmount().unwrap();
    }
    let mut ubi = fs.into_lebs().into_ubi();
    ubi.sync().unwrap();
    Seen {
        dump: ubi.into_medium().into_backing(),
        manifest,
        attributes,
    }
}

#[test]
fn volumes_on_pages_of_512_bytes_are_the_kernels() {
    judge(Chip {
        page: 512,
        block: 16 << 10,
        blocks: 768,
        nandsim: "id_bytes=0x98,0x73",
    });
}

#[test]
fn volumes_on_pages_of_2_kib_are_the_kernels() {
    judge(Chip {
        page: 2048,
        block: 128 << 10,
        blocks: 100,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x15",
    });
}

#[test]
fn volumes_on_pages_of_4_kib_are_the_kernels() {
    let chip = Chip {
        page: 4096,
        block: 256 << 10,
        blocks: 100,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x26",
    };
    let mut cases = cases();
    cases.retain(|case| case.is_cut && case.choices.compressor % 3 == 0);
    judge_cases(chip, cases);
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
        seed: 77,
    };
    judge_cases(chip, Vec::from([case]));
}

fn judge(chip: Chip) {
    judge_cases(chip, cases());
}

fn judge_cases(chip: Chip, cases: Vec<Case>) {
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

fn first_lines(text: &str) -> Result<(), String> {
    match text.is_empty() {
        true => Ok(()),
        false => Err(text.lines().take(6).collect::<Vec<_>>().join("\n")),
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
