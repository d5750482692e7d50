//! The real kernel's UBI on our media, and ours on its: with and without sub-pages, large pages and
//! small, fastmap or not; mtd-utils' images; and ubi_reader on all that is ours.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and python3-venv with PyPI; fails naming the
//! Debian package that is missing. Debian's kernel has no fastmap: `fastmap` makes a module that
//! has.

use crate::fastmap;
use crate::reader;
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_oracle::{Disk, Guest, Oracle, Report};
use nandlab_sim::{Rng, rng};
use nandlab_testkit::share::whole_or;
use nandlab_ubi::format::{FLAG_AUTORESIZE, VolumeKind};
use nandlab_ubi::{
    Attached, Headers, ImageSpec, ImageVolume, LogOptions, Memory, Options, Ubi, VolumeSpec, image,
};
use rand::RngExt as _;
use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};

const FUNCTIONS: &str = include_str!("../guest.sh");
const PROGRAMS: [&str; 10] = [
    "nandwrite",
    "nanddump",
    "ubiattach",
    "ubidetach",
    "ubimkvol",
    "ubirmvol",
    "ubirsvol",
    "ubiupdatevol",
    "ubiformat",
    "ubirename",
];

/// The chip that nandsim simulates, and where headers lie.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    format: ImageFormat,
    write_unit: u32,
    headers: Headers,
}

const LARGE: ImageFormat = ImageFormat {
    page: 2048,
    oob: 0,
    pages_per_block: 64,
    layout: Layout::Raw,
    ecc: None,
};
const SHAPES: [Shape; 3] = [
    Shape {
        name: "large",
        format: LARGE,
        write_unit: 512,
        headers: Headers::At(512),
    },
    Shape {
        name: "large-whole",
        format: LARGE,
        write_unit: 2048,
        headers: Headers::At(2048),
    },
    Shape {
        name: "small",
        format: ImageFormat {
            page: 512,
            pages_per_block: 32,
            ..LARGE
        },
        write_unit: 256,
        headers: Headers::At(256),
    },
];

/// All shapes, or a sample of one of them.
fn shapes(sampled: usize) -> impl Iterator<Item = Shape> {
    let tried = whole_or(0..SHAPES.len(), sampled..sampled + 1);
    SHAPES[tried].iter().copied()
}

type Dump = Image<Vec<u8>>;

impl Shape {
    fn blocks(&self) -> u32 {
        if self.format.page == 512 { 512 } else { 128 }
    }

    fn dump(&self, bytes: Vec<u8>) -> Dump {
        Image::new(bytes, self.format).unwrap()
    }

    fn empty(&self) -> Dump {
        self.dump(vec![0xFF; self.format.bytes(self.blocks()) as usize])
    }

    fn options(&self, memory: Memory) -> Options {
        // The kernel reserves for bad blocks by the size of the whole chip, of which nandsim's
        // first partition is a quarter or half.
        let bad_per_1024 = if self.format.page == 512 { 40 } else { 80 };
        Options {
            headers: self.headers,
            memory,
            bad_per_1024,
            ..Options::default()
        }
    }
}

fn guest(script: &str) -> Guest {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let guest = PROGRAMS.iter().fold(oracle.guest(), |guest, program| {
        let path = Path::new("/usr/sbin").join(program);
        assert!(
            path.exists(),
            "{} is missing: install the Debian package mtd-utils",
            path.display()
        );
        guest.program(path)
    });
    guest
        .file("/ubi_fastmap.ko", fastmap::module(&oracle))
        .file("/noise", noise(1 << 20, 1))
        .memory(512)
        .timeout(Duration::from_secs(600))
        .script([FUNCTIONS, script].concat())
}

fn boot(guest: Guest) -> Report {
    let report = guest
        .run()
        .and_then(Report::success)
        .unwrap_or_else(|error| panic!("{error}"));
    println!("guest: {:?}, {:?}", report.wall, report.values);
    report
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64 / 8 + 1)
        .flat_map(|word| nandlab_sim::mix(seed, word).to_le_bytes())
        .take(bytes)
        .collect()
}

/// Every byte of a volume, as the kernel's character device has it.
fn contents(ubi: &mut Ubi<Dump>, name: &str) -> Vec<u8> {
    let id = ubi
        .find_volume(name)
        .unwrap_or_else(|| panic!("no volume {name}"));
    let info = ubi.volume(id).unwrap();
    let mut bytes = vec![0; info.used_bytes as usize];
    for (lnum, part) in (0..).zip(bytes.chunks_mut(info.leb_bytes as usize)) {
        ubi.read(id, lnum, 0, part)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    bytes
}

/// The first place where two volumes differ.
fn assert_same(ours: &[u8], theirs: &[u8], what: &str) {
    let differs = ours.iter().zip(theirs).position(|(a, b)| a != b);
    assert_eq!((ours.len(), differs), (theirs.len(), None), "{what}");
}

#[test]
fn what_the_kernel_wrote_is_attached() {
    let mut script = String::new();
    for shape in shapes(0) {
        let name = shape.name;
        for (key, module) in [("scan", ""), ("fast", "fastmap")] {
            script += &format!(
                "key={name}-{key}; flash {name} && attach $key {module} && /usr/sbin/ubimkvol /dev/ubi0 -n 0 -N fixed -t static -s 300000 >/dev/null &&
                 /usr/sbin/ubimkvol /dev/ubi0 -n 1 -N data -s 5000000 >/dev/null && /usr/sbin/ubimkvol /dev/ubi0 -n 5 -N aligned -a 4096 -s 300000 >/dev/null &&
                 dd if=/noise of=/tmp/some bs=1000 count=250 status=none && /usr/sbin/ubiupdatevol /dev/ubi0_0 /tmp/some && /usr/sbin/ubiupdatevol /dev/ubi0_5 /tmp/some &&
                 churn && /usr/sbin/ubirename /dev/ubi0 aligned moved && volumes $key && detach $key || exit 1\n"
            );
        }
    }
    let report = boot(guest(&script));
    for shape in shapes(0) {
        for (key, memory) in [
            ("scan", Memory::Scan),
            ("fast", Memory::Fastmap),
            ("fast", Memory::Scan),
        ] {
            let key = format!("{}-{key}", shape.name);
            let file = |what: &str| &report.files[&format!("{key}-{what}")];
            let mut ubi =
                Ubi::attach(shape.dump(file("medium").clone()), shape.options(memory)).unwrap();
            println!("{key}: {:?}", ubi.info());
            let expected = if memory == Memory::Fastmap {
                Attached::Fastmap
            } else {
                Attached::Scan
            };
            assert_eq!(ubi.info().attached, expected, "{key}");
            for name in ["fixed", "data", "moved"] {
                assert_same(
                    &contents(&mut ubi, name),
                    file(name),
                    &format!("{key}: {name}"),
                );
            }
            assert_eq!(ubi.check_volume(0), Ok(vec![]));
            // And it can be written.
            ubi.change(5, 1, &vec![9; 4096]).unwrap();
            ubi.remove_volume(1).unwrap();
            let mut ubi = Ubi::attach(ubi.detach().unwrap(), shape.options(memory)).unwrap();
            assert_eq!(
                (contents(&mut ubi, "moved").len(), ubi.find_volume("data")),
                (file("moved").len(), None)
            );
        }
    }
}

/// Random operations on volumes that a device has behind it.
fn operations() -> u64 {
    whole_or(20_000, 6_000)
}

/// A device that is used: volumes of the names that the guest knows, and one that comes and goes.
struct Life {
    ubi: Ubi<Dump>,
    random: Rng,
    lasting: [u32; 3],
    page: usize,
}

/// Counts of the events that a life met.
#[derive(Debug, Default)]
struct Happened {
    made: u32,
    removed: u32,
    resized: u32,
    renamed: u32,
    unmapped: u32,
    written: u32,
    changed: u32,
}

impl Life {
    fn begin(shape: &Shape, memory: Memory) -> Self {
        let options = Options {
            wear_threshold: 2,
            image_seq: 77,
            ..shape.options(memory)
        };
        let mut ubi = Ubi::format(shape.empty(), options).unwrap();
        let kinds = [
            ("fixed", VolumeKind::Static, 8, 1),
            ("data", VolumeKind::Dynamic, 32, 1),
            ("aligned", VolumeKind::Dynamic, 9, 4096),
        ];
        let lasting = kinds.map(|(name, kind, lebs, alignment)| {
            ubi.create_volume(&VolumeSpec {
                name: name.into(),
                kind,
                lebs,
                alignment,
                ..VolumeSpec::default()
            })
            .unwrap()
        });
        ubi.start_update(lasting[0], 50_001).unwrap();
        ubi.write_update(lasting[0], &noise(50_001, 3)).unwrap();
        Self {
            ubi,
            random: rng(7, shape.name),
            lasting,
            page: shape.format.page as usize,
        }
    }

    fn step(&mut self, round: u64, happened: &mut Happened) {
        let [_, data, aligned] = self.lasting;
        match (
            self.random.random_range(0..200),
            self.ubi.find_volume("guest"),
        ) {
            (0, None) => {
                let lebs = self.random.random_range(1..7);
                self.ubi
                    .create_volume(&VolumeSpec {
                        name: "guest".into(),
                        lebs,
                        ..VolumeSpec::default()
                    })
                    .unwrap();
                happened.made += 1;
            }
            (0, Some(guest)) => {
                self.ubi.remove_volume(guest).unwrap();
                happened.removed += 1;
            }
            (1, _) => {
                self.ubi
                    .resize_volume(data, self.random.random_range(28..34))
                    .unwrap();
                happened.resized += 1;
            }
            (2, _) => {
                let names = [data, aligned].map(|id| self.ubi.volume(id).unwrap().record.name);
                self.ubi
                    .rename_volumes(&[(data, &names[1]), (aligned, &names[0])])
                    .unwrap();
                happened.renamed += 1;
            }
            (3..20, Some(guest)) => self.block(guest, round, happened),
            (20..60, _) => self.block(aligned, round, happened),
            _ => self.block(data, round, happened),
        }
    }

    /// An operation on one of a volume's logical blocks, a few of which are hot.
    fn block(&mut self, id: u32, round: u64, happened: &mut Happened) {
        let lebs = self.ubi.volume(id).unwrap().record.reserved;
        let places = if self.random.random_bool(0.7) {
            lebs.min(4)
        } else {
            lebs
        };
        let lnum = self.random.random_range(0..places);
        let data = noise(self.page * self.random.random_range(1..5), round);
        match self.random.random_range(0..8) {
            0 => {
                self.ubi.unmap(id, lnum).unwrap();
                happened.unmapped += 1;
            }
            1..4 if !self.ubi.is_mapped(id, lnum).unwrap() => {
                let (first, rest) = data.split_at(self.page);
                self.ubi.write(id, lnum, 0, first).unwrap();
                self.ubi.write(id, lnum, self.page as u32, rest).unwrap();
                happened.written += 1;
            }
            _ => {
                self.ubi.change(id, lnum, &data).unwrap();
                happened.changed += 1;
            }
        }
    }
}

/// A device with a life behind it, in which blocks were moved for wear; the medium is left as a cut
/// would, or detached.
fn life(shape: &Shape, memory: Memory, detach: bool) -> Dump {
    let mut life = Life::begin(shape, memory);
    let mut happened = Happened::default();
    let operations = operations();
    for round in 0..operations {
        life.step(round, &mut happened);
        // The thread wakes now and then, and does what there is; a cut leaves some of it.
        while round % 3 == 0 && round + 10 < operations && life.ubi.work().unwrap() {}
    }
    let ubi = life.ubi;
    println!("{}: {happened:?}, {:?}", shape.name, ubi.info());
    let Happened {
        made,
        removed,
        resized,
        renamed,
        unmapped,
        written,
        changed,
    } = happened;
    assert!(
        [made, removed, resized, renamed]
            .iter()
            .all(|&count| u64::from(count) > operations / 800)
            && u64::from(unmapped + written + changed) > operations * 19 / 20
    );
    assert!(ubi.info().moves > operations / 200, "{:?}", ubi.info());
    if detach {
        ubi.detach().unwrap()
    } else {
        ubi.into_medium()
    }
}

/// What ubi_reader writes of a volume: up to the last logical block that is mapped; one that is
/// not, even where an alignment shortens blocks, as a whole one.
fn as_ubi_reader(ubi: &mut Ubi<Dump>, name: &str) -> Vec<u8> {
    let id = ubi.find_volume(name).unwrap();
    let whole = contents(ubi, name);
    let leb = ubi.volume(id).unwrap().leb_bytes as usize;
    let hole = ubi.info().shape.leb_bytes as usize;
    let mapped: Vec<bool> = (0..)
        .take(whole.chunks(leb).len())
        .map(|lnum| ubi.is_mapped(id, lnum).unwrap())
        .collect();
    let last = mapped
        .iter()
        .rposition(|&mapped| mapped)
        .map_or(0, |last| last + 1);
    let blocks = whole.chunks(leb).zip(mapped).take(last);
    blocks
        .flat_map(|(block, mapped)| {
            if mapped {
                block.to_vec()
            } else {
                vec![0xFF; hole]
            }
        })
        .collect()
}

/// ubi_reader finds the same volumes with the same bytes as a scan of ours.
fn assert_ubi_reader_agrees(shape: &Shape, dump: &[u8], what: &str) {
    let mut ubi = Ubi::attach(shape.dump(dump.to_vec()), shape.options(Memory::Scan)).unwrap();
    let theirs = reader::volumes(dump, shape.format.page * shape.format.pages_per_block);
    let names: BTreeSet<String> = ubi
        .volumes()
        .into_iter()
        .map(|volume| volume.record.name)
        .collect();
    assert_eq!(names, theirs.keys().cloned().collect(), "{what}");
    for (name, bytes) in &theirs {
        assert_same(
            &as_ubi_reader(&mut ubi, name),
            bytes,
            &format!("{what}: {name}, as ubi_reader extracts it"),
        );
    }
}

#[test]
fn what_we_wrote_is_attached_by_the_kernel_and_what_it_adds_by_us() {
    let scratch = tempfile::tempdir().unwrap();
    let memories = [
        ("scan", Memory::Scan, true),
        ("cut", Memory::Scan, false),
        ("fast", Memory::Fastmap, true),
        ("fastcut", Memory::Fastmap, false),
        ("log", Memory::Log(LogOptions::default()), true),
    ];
    let mut script = String::new();
    let mut media = Vec::new();
    let mut all = Vec::new();
    let all_shapes = SHAPES.into_iter();
    let tried = all_shapes.flat_map(|shape| memories.map(|memory| (shape, memory)));
    // UBIL's lists of small blocks do not fit a small page.
    let tried = tried.filter(|(shape, (kind, ..))| *kind != "log" || shape.format.page > 512);
    // A sample has each shape, and each kind of memory.
    for (shape, (kind, memory, detach)) in tried.step_by(whole_or(1, 4)) {
        let key = format!("{}-{kind}", shape.name);
        let dump = life(&shape, memory, detach).into_backing();
        assert_ubi_reader_agrees(&shape, &dump, &key);
        let module = if kind.starts_with("fast") {
            "fastmap"
        } else {
            ""
        };
        script += &format!(
            "dd if=/dev/vda of=/tmp/dump bs=65536 skip={} count={} status=none; key={key}; flash {} /tmp/dump && rm /tmp/dump && attach $key {module} && volumes $key &&
             /usr/sbin/ubirmvol /dev/ubi0 -N aligned && /usr/sbin/ubirsvol /dev/ubi0 -N data -s 2000000 && dd if=/noise of=/tmp/some bs=1000 count=90 status=none &&
             /usr/sbin/ubiupdatevol /dev/ubi0_0 /tmp/some && /usr/sbin/ubimkvol /dev/ubi0 -n 9 -N more -s 400000 >/dev/null &&
             /usr/sbin/ubiupdatevol /dev/ubi0_9 /tmp/some && volumes $key-left && detach $key || exit 1\n",
            all.len() / 65536,
            dump.len() / 65536,
            shape.name
        );
        all.extend_from_slice(&dump);
        media.push((key, shape, memory, dump));
    }
    let file = scratch.path().join("media");
    fs::write(&file, &all).unwrap();
    let report = boot(guest(&script).disk(Disk::File(file)));
    for (key, shape, memory, dump) in media {
        let fast = key.contains("fast");
        let value = |what: &str| {
            report
                .value(&format!("{key}-{what}"))
                .unwrap_or("?")
                .to_owned()
        };
        assert_eq!(
            (value("attached"), value("scanned"), value("complaints")),
            (u8::from(fast).to_string(), "0".into(), "0".into()),
            "{key}"
        );
        let mut ubi = Ubi::attach(shape.dump(dump), shape.options(memory)).unwrap();
        let names: Vec<String> = ubi
            .volumes()
            .into_iter()
            .map(|volume| volume.record.name)
            .collect();
        let sent = report.files.keys().filter(|file| {
            file.starts_with(&format!("{key}-"))
                && !file.contains("-left")
                && !file.ends_with("-medium")
        });
        assert_eq!(names.len(), sent.count(), "{key}: volumes");
        for name in &names {
            assert_same(
                &contents(&mut ubi, name),
                &report.files[&format!("{key}-{name}")],
                &format!("{key}: {name}"),
            );
        }
        let medium = shape.dump(report.files[&format!("{key}-medium")].clone());
        let mut ubi = Ubi::attach(medium, shape.options(memory)).unwrap();
        assert_eq!(
            (ubi.find_volume("aligned"), ubi.info().image_seq),
            (None, 77)
        );
        for name in ["fixed", "data", "more"] {
            assert_same(
                &contents(&mut ubi, name),
                &report.files[&format!("{key}-left-{name}")],
                &format!("{key}: {name}, left by the kernel"),
            );
        }
    }
}

/// What `ubinize` makes of the same volumes.
fn ubinized(shape: &Shape, fixed: &[u8], data: &[u8], size: u32) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("fixed"), fixed).unwrap();
    fs::write(dir.path().join("data"), data).unwrap();
    let config = format!(
        "[one]\nmode=ubi\nimage=fixed\nvol_id=0\nvol_type=static\nvol_name=fixed\nvol_flags=skip-check\n\
         [two]\nmode=ubi\nimage=data\nvol_id=3\nvol_type=dynamic\nvol_size={size}\nvol_name=data\nvol_alignment=4096\nvol_flags=autoresize\n"
    );
    fs::write(dir.path().join("config"), config).unwrap();
    let block = shape.format.page * shape.format.pages_per_block;
    let Headers::At(vid) = shape.headers else {
        panic!("an offset for ubinize")
    };
    let args = [
        ("-o", "image".to_owned()),
        ("-p", block.to_string()),
        ("-m", shape.format.page.to_string()),
        ("-s", shape.write_unit.to_string()),
        ("-O", vid.to_string()),
        ("-e", "5".into()),
        ("-Q", "1234".into()),
    ];
    let mut command = Command::new("/usr/sbin/ubinize");
    args.iter()
        .for_each(|(flag, value)| _ = command.arg(flag).arg(value));
    let output = command
        .arg("config")
        .current_dir(dir.path())
        .output()
        .unwrap_or_else(|error| panic!("ubinize of mtd-utils: {error}"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::read(dir.path().join("image")).unwrap()
}

fn our_image(shape: &Shape, fixed: &[u8], data: &[u8], lebs: u32) -> Vec<u8> {
    let geometry = nandlab_mtd::Geometry {
        write_unit: shape.write_unit,
        ..nandlab_mtd::Geometry::single_die(
            shape.format.page,
            0,
            shape.format.pages_per_block,
            shape.blocks(),
        )
    };
    let fixed_spec = VolumeSpec {
        id: Some(0),
        name: "fixed".into(),
        kind: VolumeKind::Static,
        flags: 2,
        ..VolumeSpec::default()
    };
    let data_spec = VolumeSpec {
        id: Some(3),
        name: "data".into(),
        lebs,
        alignment: 4096,
        flags: FLAG_AUTORESIZE,
        ..VolumeSpec::default()
    };
    let volumes = vec![
        ImageVolume {
            spec: fixed_spec,
            data: fixed.into(),
        },
        ImageVolume {
            spec: data_spec,
            data: data.into(),
        },
    ];
    image(&ImageSpec {
        geometry,
        headers: shape.headers,
        ec: 5,
        image_seq: 1234,
        volumes,
    })
    .unwrap()
}

#[test]
fn images_are_ubinizes_and_flashed_as_ubiformat_does() {
    let scratch = tempfile::tempdir().unwrap();
    let fixed = noise(70_001, 8);
    let data = [noise(30_000, 9), vec![0xFF; 40_000], noise(3, 10)].concat();
    let mut all = Vec::new();
    let mut script = String::new();
    for shape in shapes(1) {
        let data_offset = if shape.write_unit < shape.format.page {
            shape.format.page
        } else {
            2 * shape.format.page
        };
        let leb = shape.format.page * shape.format.pages_per_block - data_offset;
        let ours = our_image(&shape, &fixed, &data, 9);
        // ubinize counts a volume's blocks as if they were not shortened by the alignment.
        assert_same(&ours, &ubinized(&shape, &fixed, &data, 9 * leb), shape.name);
        let flashed = Ubi::flash_image(shape.empty(), shape.options(Memory::Scan), &ours)
            .unwrap()
            .detach()
            .unwrap();
        assert_ubi_reader_agrees(&shape, &flashed.into_backing(), shape.name);
        script += &format!(
            "dd if=/dev/vda of=/image bs=16384 skip={} count={} status=none; flash {} && /usr/sbin/ubiformat /dev/mtd0 -q -y $header -Q 99 -f /image && rm /image && medium {}-flashed &&
             attach {} && volumes {} && detach {} || exit 1\n",
            all.len() / 16384,
            ours.len() / 16384,
            shape.name,
            shape.name,
            shape.name,
            shape.name,
            shape.name
        );
        all.extend(ours);
    }
    all.resize(all.len().next_multiple_of(65536), 0);
    let file = scratch.path().join("images");
    fs::write(&file, &all).unwrap();
    let report = boot(guest(&script).disk(Disk::File(file)));
    for shape in shapes(1) {
        let file = |what: &str| report.files[&format!("{}-{what}", shape.name)].clone();
        let image = our_image(&shape, &fixed, &data, 9);
        let mut ours =
            Ubi::flash_image(shape.empty(), shape.options(Memory::Scan), &image).unwrap();
        for dump in [file("flashed-medium"), file("medium")] {
            let mut theirs = Ubi::attach(shape.dump(dump), shape.options(Memory::Scan)).unwrap();
            for name in ["fixed", "data"] {
                let volume = contents(&mut theirs, name);
                assert_same(
                    &contents(&mut ours, name),
                    &volume,
                    &format!("{}: {name}", shape.name),
                );
                assert_same(
                    &file(name),
                    &volume,
                    &format!("{}: {name}, as the kernel reads it", shape.name),
                );
            }
            let records = |ubi: &Ubi<Dump>| {
                ubi.volumes()
                    .into_iter()
                    .map(|volume| volume.record)
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                records(&ours),
                records(&theirs),
                "the same size out of what is left"
            );
        }
    }
}
