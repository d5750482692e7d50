//! JFFS2, UBI and UBIFS: of a medium that we call sound, the kernel reads what we read, and it does
//! not complain.
//!
//! No tool checks these formats, so the kernel itself is the judge. Many media share one boot.
//! Media that we call damaged are not asked about.
//!
//! Needs the tools of `nandlab-oracle` and mtd-utils; fails naming the Debian package that is
//! missing.

use super::{Campaign, Tally, keep, kind};
use nandlab_damage::edit::{Script, random};
use nandlab_damage::strike::{SECTOR, Strike};
use nandlab_damage::{jffs2, ubi, ubifs};
use nandlab_image::check::{Verdict, check};
use nandlab_image::detect::Hints;
use nandlab_image::raw::raw;
use nandlab_image::volume::{Access, Layer, Opening, UbiVolume, Volume};
use nandlab_jffs2::{Endian, Seen, What, survey};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Guest, OracleError, Report};
use nandlab_sim::mix;
use nandlab_testkit::share::whole_or;
use nandlab_testkit::{kernel, manifest};
use nandlab_ubi::{Headers, Options, Ubi, VolumeSpec};
use nandlab_vfs::FileSystem;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Media of a format, unless the environment says otherwise.
fn usual() -> u64 {
    whole_or(200, 40)
}
/// Media that one boot judges.
const BATCH: usize = 500;
/// Words of our finding about a free block that holds something.
const UNERASED: &str = "free, but it is not erased";
/// Shell functions for the guest.
const FUNCTIONS: &str = include_str!("flash.sh");

/// A format on flash.
struct Format {
    /// The function of [`FUNCTIONS`] that judges a medium.
    function: &'static str,
    bytes: usize,
    /// Bytes of an erase block.
    block: u32,
    medium: fn(Script<'_>) -> Vec<u8>,
    /// Whether the guest's kernel is built without something that the medium needs.
    foreign: fn(&[u8]) -> bool,
    read: fn(&mut Volume) -> Result<Contents, String>,
    /// What the kernel read.
    seen: fn(&Report, &str) -> Contents,
    /// Parts of the kernel's lines when it refuses a medium that we claim to read.
    refused: &'static [&'static str],
    /// Parts of the kernel's lines that are no damage, with the finding of ours that says the same,
    /// if one has to.
    known: &'static [(&'static str, Option<&'static str>)],
}

/// What a medium holds.
#[derive(Clone, Debug, PartialEq)]
enum Contents {
    Tree(Manifest),
    /// Volumes by number: name, kind and hash of the contents.
    Volumes(BTreeMap<u32, String>),
}

/// A medium that we call sound.
struct Case {
    number: u64,
    bytes: Vec<u8>,
    contents: Contents,
    findings: Vec<String>,
}

const JFFS2: Format = Format {
    function: "jffs2",
    bytes: jffs2::BYTES,
    block: 8192,
    medium: |script| {
        // NOR only: a guest writes it in a moment. The kernel knows the byte order of its machine.
        let seeds = jffs2::seeds().iter().filter(|seed| {
            seed.format.oob == 0 && seed.options.endian.unwrap_or_default() == Endian::Little
        });
        let seeds: Vec<_> = seeds.collect();
        seeds[script.seed % seeds.len()]
            .edited(script)
            .into_backing()
    },
    foreign: |bytes| {
        // Rubin.
        let is_rubin = |seen: Seen| matches!(seen.what, What::Inode { compr: 3..=5, .. });
        survey(Endian::Little, bytes).any(is_rubin)
    },
    read: |volume| {
        let fs = volume.fs().map_err(|error| error.to_string())?;
        Ok(Contents::Tree(tree(fs)?))
    },
    seen: |report, key| {
        let mut tree = report.manifests.get(key).cloned().unwrap_or_default();
        dateless_root(&mut tree);
        Contents::Tree(tree)
    },
    refused: &[],
    known: &[
        ("complete building xattr subsystem", None),
        ("Further such events", None),
        (
            "Magic bitmask 0x1985 not found",
            Some("bytes that are no node"),
        ),
        (
            "Magic bitmask 0x1985 not found",
            Some("checksum of the head"),
        ),
        ("has invalid CRC", Some("checksum of the head")),
        ("has invalid CRC", Some("bytes that are no node")),
        ("CRC failed on node", Some("checksum of the")),
        ("Name CRC failed on node", Some("is no name of a file")),
        ("Name CRC failed on node", Some("length of the name")),
        // Linux ends a name at a zero, and reports it in directories too that nothing leads to.
        ("Name CRC failed on node", Some("cannot be reached")),
        (
            "inode node header CRC is corrupted",
            Some("length of the data"),
        ),
        (
            "inode node header CRC is corrupted",
            Some("behind the end of the file"),
        ),
        ("Node header CRC failed", Some("checksum of the head")),
        // A node of a list in an erased place, as an interrupted erase leaves it.
        ("{ffff,ffff,ffffffff,ffffffff}", None),
        ("Wrong magic bitmask", Some("checksum of the head")),
        ("name CRC failed on dirent", Some("checksum of the name")),
        ("CRC failed on dirent node", Some("checksum of the node")),
        ("CRC failed on dnode", Some("checksum of the node")),
        ("wrong data CRC in data node", Some("checksum of the data")),
        ("node CRC failed at", Some("checksum of the node")),
        // Linux reads the whole block then.
        ("crc error, skipping summary", None),
    ],
};

const UBI: Format = Format {
    function: "ubi",
    bytes: ubi::BYTES,
    block: 8192,
    medium: |script| {
        // The kernel knows neither logs nor blocks without headers.
        let seeds = &ubi::seeds()[..2];
        seeds[script.seed % seeds.len()].edited(script)
    },
    foreign: |_| false,
    read: |volume| volumes(volume).map(Contents::Volumes),
    seen: |report, key| {
        let lines = report.values.get(&format!("{key}-volume"));
        let volume = |line: &String| {
            let (id, rest) = line.split_once(' ').expect("number, name, kind and hash");
            (id.parse().expect("a number"), rest.to_owned())
        };
        Contents::Volumes(lines.into_iter().flatten().map(volume).collect())
    },
    refused: &[],
    known: &[
        (
            "valid VID header but corrupted EC header",
            Some("erase-counter header"),
        ),
        ("volume table copy #", Some("of the volume table")),
        ("data moved to PEB", None),
    ],
};

/// Lines of a kernel that refuses a volume which a mount of ours recovers.
const UBIFS_REFUSED: &[&str] = &[
    // We take the pair of master nodes where Linux gives up.
    "failed to recover master node",
    // The totals of a master node decide nothing: a check calls wrong ones waste.
    "bad master node at offset",
    // The log ends at a block with garbage, which a torn erase may leave.
    "corrupt empty space LEB",
];

const UBIFS: Format = Format {
    function: "ubifs",
    bytes: UBIFS_BLOCKS * UBIFS_BLOCK,
    block: UBIFS_BLOCK as u32,
    medium: |script| {
        let seeds = ubifs::seeds();
        in_ubi(&seeds[script.seed % seeds.len()].edited(script))
    },
    foreign: |_| false,
    read: JFFS2.read,
    seen: JFFS2.seen,
    refused: UBIFS_REFUSED,
    known: &[
        (
            "valid VID header but corrupted EC header",
            Some("erase-counter header"),
        ),
        // A torn end, or a number that only an edit makes.
        ("bad node", Some("is still to be recovered")),
        ("creat_sqnum", None),
        ("data moved to PEB", None),
        ("switched to read-only mode, error -22", None),
    ],
};

/// Erase blocks of a flash with a volume of UBIFS, and their bytes.
const UBIFS_BLOCKS: usize = 40;
const UBIFS_BLOCK: usize = 16 << 10;

/// The logical blocks of a volume, in a volume of UBI.
fn in_ubi(volume: &[u8]) -> Vec<u8> {
    let format = ImageFormat {
        page: ubifs::PAGE,
        oob: 0,
        pages_per_block: UBIFS_BLOCK as u32 / ubifs::PAGE,
        layout: Layout::Raw,
        ecc: None,
    };
    let erased = vec![0xFF; UBIFS_BLOCKS * UBIFS_BLOCK];
    let options = Options {
        headers: Headers::At(ubifs::PAGE),
        ..Options::default()
    };
    let image = Image::new(erased, format).unwrap();
    let mut ubi = Ubi::format(image, options).unwrap();
    let root = VolumeSpec {
        name: "root".into(),
        lebs: ubifs::LEBS as u32,
        ..VolumeSpec::default()
    };
    let id = ubi.create_volume(&root).unwrap();
    for (lnum, leb) in (0..).zip(volume.chunks(ubifs::LEB)) {
        let used = leb.iter().rposition(|byte| *byte != 0xFF);
        let used = used.map_or(0, |last| last + 1);
        if used > 0 {
            let pages = used.next_multiple_of(ubifs::PAGE as usize);
            ubi.change(id, lnum, &leb[..pages]).unwrap();
        }
    }
    ubi.detach().unwrap().into_backing()
}

fn tree(fs: &mut dyn FileSystem) -> Result<Manifest, String> {
    let mut tree = manifest::listed(fs).map_err(|error| error.to_string())?;
    dateless_root(&mut tree);
    Ok(tree)
}

/// The kernel's JFFS2 dates a root of which no node is left with the time of the mount.
fn dateless_root(tree: &mut Manifest) {
    if let Some(root) = tree.get_mut(Path::new(".")) {
        root.mtime = 0;
    }
}

fn volumes(volume: &Volume) -> Result<BTreeMap<u32, String>, String> {
    let list = volume.layers.iter().find_map(|layer| match layer {
        Layer::Ubi { volumes, .. } => Some(volumes),
        _ => None,
    });
    let list = list.ok_or("no layer of UBI")?;
    list.iter()
        .map(|one| Ok((one.id, described(volume, one)?)))
        .collect()
}

fn described(volume: &Volume, one: &UbiVolume) -> Result<String, String> {
    let wanted = Opening {
        volume: Some(one.id.to_string()),
        ..opening(UBI.block)
    };
    let mut bytes = Vec::new();
    let (_, losses) = raw(volume, &wanted, &mut bytes).map_err(|error| error.to_string())?;
    match losses.list.first() {
        Some(loss) => Err(format!("volume {}: {loss}", one.id)),
        None => {
            let UbiVolume { name, kind, .. } = one;
            Ok(format!("{name} {kind} {}", hash(&bytes)))
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn opening(block: u32) -> Opening {
    Opening {
        hints: Hints {
            block: Some(block),
            ..Hints::default()
        },
        ..Opening::default()
    }
}

/// Sectors in which something was programmed.
fn places(bytes: &[u8]) -> Vec<u64> {
    let sectors = (0..).zip(bytes.chunks(SECTOR as usize));
    let used = sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0xFF));
    used.map(|(number, _)| number).collect()
}

impl Format {
    /// A damaged medium: edits with repaired checksums, damage that knows no structure, or both.
    fn damaged(&self, number: u64) -> Vec<u8> {
        let input = random(mix(number, 1), 4);
        let way = mix(number, 2) % 3;
        let edits = if way == 0 { 0 } else { input.len() };
        let mut bytes = (self.medium)(Script::new(&input[..edits.max(4)]));
        if way != 1 {
            let places = places(&bytes);
            let sectors = bytes.len() as u64 / SECTOR;
            for strike in 0..1 + mix(number, 3) % 3 {
                let seed = mix(number, 4 + strike);
                Strike::random(seed, &places, sectors, u64::from(self.block)).apply(&mut bytes);
            }
        }
        bytes
    }

    /// Judges a medium; gives it with what it holds if it is sound.
    fn judged(&self, number: u64, show: bool, tally: &Tally) -> Option<Case> {
        let bytes = self.damaged(number);
        let mut image = tempfile::NamedTempFile::new().unwrap();
        image.write_all(&bytes).unwrap();
        let opened = Volume::open(image.path(), &opening(self.block), Access::Read);
        let checked = opened.and_then(|mut volume| Ok((check(&mut volume)?, volume)));
        if show {
            let copy = image.path().with_extension("damaged");
            std::fs::copy(image.path(), &copy).unwrap();
            println!("{}", copy.display());
        }
        let (checked, mut volume) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                if show {
                    println!("not opened: {error}");
                }
                tally.count("not opened");
                return None;
            }
        };
        let verdict = checked.verdict();
        let findings: Vec<String> = checked.findings.iter().map(ToString::to_string).collect();
        if show {
            let layers = &volume.layers;
            println!("{layers:#?}\n{verdict}: {findings:#?}");
        }
        tally.count(&verdict.to_string());
        // UBI alone is "not looked at", since no file system is in its volumes.
        let sound = match verdict {
            Verdict::Sound => true,
            Verdict::NotLookedAt => self.function == UBI.function,
            _ => false,
        };
        if !sound {
            return None;
        }
        if (self.foreign)(&bytes) {
            tally.count("not asked: Debian's kernel does not know the compressor");
            return None;
        }
        match (self.read)(&mut volume) {
            Ok(contents) => Some(Case {
                number,
                bytes,
                contents,
                findings,
            }),
            Err(error) => {
                keep(
                    &tally.lenient,
                    kind(&error),
                    format!("{number:#x}: {error}"),
                );
                None
            }
        }
    }

    /// Asks the kernel about media, in one boot. A medium on which the kernel crashes, or
    /// that it cannot list, is sought among ever fewer of them.
    fn ask(&self, cases: &[Case], show: bool, tally: &Tally) {
        let report = match self.boot(cases) {
            Ok(report) => report,
            Err(_) if cases.len() > 1 => {
                let (first, second) = cases.split_at(cases.len() / 2);
                self.ask(first, show, tally);
                return self.ask(second, show, tally);
            }
            Err(error) => {
                let why = format!("{:#x}: no answer: {error}", cases[0].number);
                return keep(&tally.lenient, "no answer".into(), why);
            }
        };
        for (index, case) in cases.iter().enumerate() {
            let outcome = self.compared(&report, &format!("k{index}"), case);
            if show {
                let words = report.values.get(&format!("k{index}-words"));
                println!("{outcome:?}: {words:#?}");
            }
            tally.count("judged by the kernel");
            if let Err(why) = outcome {
                let number = case.number;
                keep(&tally.lenient, kind(&why), format!("{number:#x}: {why}"));
            }
        }
    }

    fn boot(&self, cases: &[Case]) -> Result<Report, OracleError> {
        let scratch = tempfile::tempdir().unwrap();
        let disk = scratch.path().join("disk");
        let file = File::create(&disk).unwrap();
        // A kernel that went on after a crash would never finish.
        let mut script = format!(
            "{FUNCTIONS}\necho 1 >/proc/sys/kernel/panic_on_oops\nprepare_{}\n",
            self.function
        );
        for (index, case) in cases.iter().enumerate() {
            file.write_all_at(&case.bytes, (index * self.bytes) as u64)
                .unwrap();
            script += &format!("{} k{index} {index}\n", self.function);
        }
        script += "true\n";
        guest(disk).script(script).run().and_then(Report::success)
    }

    fn compared(&self, report: &Report, key: &str, case: &Case) -> Result<(), String> {
        let values = |what: &str| report.values.get(&format!("{key}-{what}"));
        let done = values("done").is_some();
        let words = values("words").into_iter().flatten();
        let mut lines = words.flat_map(|words| words.lines()).map(undated);
        if let Some(refused) = values("refused") {
            let is_known = |line: &str| self.refused.iter().any(|words| line.contains(words));
            if lines.any(is_known) {
                return Ok(());
            }
            return Err(format!("refused: {}", refused.join(" ")));
        }
        if !done {
            return Err("the guest did not come to its end".into());
        }
        // Linux loses a block that it moves into one that is not erased.
        let moved = lines.clone().any(|line| line.contains("data moved to PEB"))
            && case.findings.iter().any(|our| our.contains(UNERASED));
        if !moved {
            same(&case.contents, &(self.seen)(report, key))?;
        }
        let unknown = lines
            .filter(|line| !line.is_empty())
            .find(|line| !self.is_known(line, case));
        unknown.map_or(Ok(()), |line| {
            let ours = case.findings.join("; ");
            Err(format!("{line} (ours: {ours})"))
        })
    }

    fn is_known(&self, line: &str, case: &Case) -> bool {
        self.known.iter().any(|(words, finding)| {
            let reported = |finding: &&str| case.findings.iter().any(|our| our.contains(*finding));
            line.contains(words) && finding.as_ref().is_none_or(reported)
        })
    }

    fn run(&self) {
        let campaign = Campaign::of(usual());
        let cases = Mutex::new(Vec::new());
        let show = campaign.is_one();
        let tally = campaign.run(|number, tally| {
            cases
                .lock()
                .unwrap()
                .extend(self.judged(number, show, tally));
        });
        let mut cases = cases.into_inner().unwrap();
        cases.sort_by_key(|case| case.number);
        for batch in cases.chunks(BATCH) {
            self.ask(batch, show, &tally);
        }
        if !show {
            let both = ["judged by the kernel", "damaged"].map(|what| tally.count_of(what));
            assert!(both.iter().all(|count| *count > 0), "{tally:?}");
        }
        tally.conclude();
    }
}

/// A line of the kernel's log without its time.
fn undated(line: &str) -> &str {
    let behind = line.split_once("] ").map(|(_, words)| words);
    behind.unwrap_or(line).trim()
}

fn same(ours: &Contents, theirs: &Contents) -> Result<(), String> {
    match (ours, theirs) {
        (Contents::Tree(ours), Contents::Tree(theirs)) => match differences(theirs, ours) {
            none if none.is_empty() => Ok(()),
            some => Err(some.lines().take(4).collect::<Vec<_>>().join(" | ")),
        },
        _ if ours == theirs => Ok(()),
        _ => Err(format!("found {ours:?}, expected {theirs:?}")),
    }
}

fn guest(disk: PathBuf) -> Guest {
    let programs = ["flash_erase", "nandwrite", "ubiattach", "ubidetach"];
    let guest = programs.iter().fold(kernel::guest(), |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    guest.disk(Disk::File(disk)).memory(512)
}

#[test]
fn jffs2_that_we_call_sound_is_what_the_kernel_reads() {
    JFFS2.run();
}

#[test]
fn ubi_in_which_we_find_no_damage_is_what_the_kernel_reads() {
    UBI.run();
}

#[test]
fn ubifs_that_we_call_sound_is_what_the_kernel_reads() {
    UBIFS.run();
}

#[test]
fn damage_of_a_medium_without_spare_bytes_is_not_taken_for_spare_bytes() {
    // Of two media most whole nodes lie where a dump with spare bytes has its pages. The third is
    // filled with a byte that looks like its own parity.
    for number in [
        0x9486_bac0_ca07_f75d,
        0x67c8_7fbd_83f3_bbce,
        0x4a13_0e53_b366_c67e,
    ] {
        let image = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(image.path(), JFFS2.damaged(number)).unwrap();
        let volume = Volume::open(image.path(), &opening(JFFS2.block), Access::Read).unwrap();
        let oob = volume.layers.iter().find_map(|layer| match layer {
            Layer::Flash { oob, .. } => Some(*oob),
            _ => None,
        });
        assert_eq!(oob, Some(0), "{number:#x}");
    }
}
