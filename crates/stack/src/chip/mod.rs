//! The `[chip]` section: a preset, or every number, each overridable; where page data goes; dumps
//! to load and save.

mod shape;
mod slc;
mod spare;

use crate::dump::DumpFormat;
use crate::value::{Take, Time};
use crate::{DescriptionError, Document, Section, Setting};
use nandlab_nand::{
    ChipSpec, Contents, Ecc, PageOrder, Reliability, Rules, SpecError, Timing, preset,
};
use shape::geometry;
use slc::slc_mode;
use spare::dump_format;
use std::path::PathBuf;

/// The longest time of an operation: an hour.
const MAX_TIME: u64 = 3_600_000_000_000;

/// A chip as described.
#[derive(Clone, Debug)]
pub struct ChipDescription {
    /// The chip model with all its parameters.
    pub spec: ChipSpec,
    /// The file that holds page data while the stack lives; none: memory, or nowhere.
    pub contents_file: Option<PathBuf>,
    /// A dump to begin with.
    pub load: Option<PathBuf>,
    /// A dump to be written at the end.
    pub save: Option<PathBuf>,
    /// How both are laid out.
    pub dump: DumpFormat,
}

/// Where page data goes.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    Memory,
    Nowhere,
    File,
}

impl ChipDescription {
    /// Takes `[chip]` out of a document.
    pub(crate) fn take(document: &mut Document) -> Result<(Self, Vec<Setting>), DescriptionError> {
        let mut section = document.section("chip");
        let base = base(&mut section)?;
        let known = base.as_ref();
        let load = section.path("load")?;
        let save = section.path("save")?;
        let (mut geometry, spare) = geometry(
            &mut section,
            known.map(|spec| (&spec.geometry, spec.timing.oob_bus_bytes)),
        )?;
        let dumped = load.is_some() || save.is_some();
        let dump =
            section.beside_preset(|section| dump_format(section, &mut geometry, spare, dumped))?;
        let timing = timing(&mut section, known.map(|spec| &spec.timing), spare)?;
        let rules = rules(&mut section, known.map(|spec| spec.rules))?;
        let reliability = reliability(&mut section, known.map(|spec| &spec.reliability))?;
        let own = (timing.erase_ns, reliability.rated_erases);
        let spec = ChipSpec {
            slc: slc_mode(&mut section, known.and_then(|spec| spec.slc), own)?,
            timing,
            rules,
            reliability,
            seed: section.beside_preset(|section| section.or("seed", 1))?,
            contents: Contents::Kept,
            superblock: None,
            geometry,
        };
        check(&section, &spec)?;
        let spec = if section.or("superblock", false)? {
            spec.in_superblocks()
        } else {
            spec
        };
        check(&section, &spec)?;
        let (contents, contents_file) = section.beside_preset(contents)?;
        let dumped = [("load", &load), ("save", &save)]
            .into_iter()
            .find(|(_, path)| path.is_some());
        if let (Contents::Dropped, Some((key, _))) = (contents, dumped) {
            return Err(section.refuse(
                key,
                "a dump",
                "contents = \"kept\" or \"file\" beside it, since dropped data cannot be dumped",
            ));
        }
        if load.is_some() && spec.reliability.factory_bad > 0.0 {
            let found = spec.reliability.factory_bad.write();
            return Err(section.refuse(
                "factory-bad",
                &found,
                "0 beside chip.load, whose markers say which blocks are bad",
            ));
        }
        let settings = section.finish()?;
        Ok((
            Self {
                spec: ChipSpec { contents, ..spec },
                contents_file,
                load,
                save,
                dump,
            },
            settings,
        ))
    }
}

/// The preset's chip, if one is named.
fn base(section: &mut Section) -> Result<Option<ChipSpec>, DescriptionError> {
    let Some(name) = section.given::<String>("preset")? else {
        return Ok(None);
    };
    let Some(preset) = preset::find(&name) else {
        let names: Vec<&str> = preset::ALL.iter().map(|preset| preset.name).collect();
        return Err(section.refuse(
            "preset",
            &name.write(),
            &format!("one of {}", names.join(", ")),
        ));
    };
    section.on_preset(&name);
    Ok(Some(preset.spec()))
}

fn timing(
    section: &mut Section,
    base: Option<&Timing>,
    spare: u32,
) -> Result<Timing, DescriptionError> {
    let mut time = |key, base: Option<u64>| time(section, key, base);
    let read_ns = time("read", base.map(|t| t.read_ns))?;
    let program_ns = time("program", base.map(|t| t.program_ns))?;
    let erase_ns = time("erase", base.map(|t| t.erase_ns))?;
    let oob_read_ns = time(
        "oob-read",
        Some(base.and_then(|t| t.oob_read_ns).unwrap_or(read_ns)),
    )?;
    let oob_program_ns = time(
        "oob-program",
        Some(base.and_then(|t| t.oob_program_ns).unwrap_or(program_ns)),
    )?;
    let bus = section.needed(
        "bus-ns-per-byte",
        base.map(|t| t.bus_ps_per_byte as f64 / 1000.0),
    )?;
    if !(0.0..=1e6).contains(&bus) {
        return Err(section.refuse(
            "bus-ns-per-byte",
            &bus.write(),
            "nanoseconds from 0 to 1000000",
        ));
    }
    Ok(Timing {
        read_ns,
        program_ns,
        erase_ns,
        bus_ps_per_byte: (bus * 1000.0).round() as u64,
        oob_bus_bytes: spare,
        oob_read_ns: (oob_read_ns != read_ns).then_some(oob_read_ns),
        oob_program_ns: (oob_program_ns != program_ns).then_some(oob_program_ns),
        cache_program: section.or("cache-program", base.is_some_and(|t| t.cache_program))?,
        multi_plane: section.or("multi-plane", base.is_some_and(|t| t.multi_plane))?,
        copy_back: section.or("copy-back", base.is_some_and(|t| t.copy_back))?,
    })
}

/// A time of an operation; needed if there is no `base`.
fn time(
    section: &mut Section,
    key: &'static str,
    base: Option<u64>,
) -> Result<u64, DescriptionError> {
    let Time(ns) = section.needed(key, base.map(Time))?;
    if ns > MAX_TIME {
        Err(section.refuse(key, &Time(ns).write(), "at most an hour"))
    } else {
        Ok(ns)
    }
}

fn rules(section: &mut Section, base: Option<Rules>) -> Result<Rules, DescriptionError> {
    let orders = [("any", PageOrder::Any), ("ascending", PageOrder::Ascending)];
    Ok(Rules {
        order: section.choice(
            "order",
            &orders,
            base.map_or(PageOrder::Ascending, |rules| rules.order),
        )?,
        partial_programs: section.or(
            "partial-programs",
            base.map_or(1, |rules| rules.partial_programs),
        )?,
    })
}

fn reliability(
    section: &mut Section,
    base: Option<&Reliability>,
) -> Result<Reliability, DescriptionError> {
    let base = base.cloned().unwrap_or_default();
    Ok(Reliability {
        rated_erases: section.or("rated-erases", base.rated_erases)?,
        factory_bad: section.or("factory-bad", base.factory_bad)?,
        program_fail: section.or("program-fail", base.program_fail)?,
        erase_fail: section.or("erase-fail", base.erase_fail)?,
        bit_errors: section.or("bit-errors", base.bit_errors)?,
        bit_errors_per_read: section.or("bit-errors-per-read", base.bit_errors_per_read)?,
        bit_errors_per_day: section.or("bit-errors-per-day", base.bit_errors_per_day)?,
        ecc: section.or::<Ecc>("ecc", base.ecc)?,
    })
}

fn contents(section: &mut Section) -> Result<(Contents, Option<PathBuf>), DescriptionError> {
    let choices = [
        ("kept", Keep::Memory),
        ("dropped", Keep::Nowhere),
        ("file", Keep::File),
    ];
    let keep = section.choice("contents", &choices, Keep::Memory)?;
    if keep != Keep::File {
        section.inapplicable(&["contents-file"], "contents = \"file\"")?;
        return Ok((
            if keep == Keep::Memory {
                Contents::Kept
            } else {
                Contents::Dropped
            },
            None,
        ));
    }
    let file = section.path("contents-file")?;
    let file = file.ok_or_else(|| {
        section.missing(
            "contents-file",
            "the path of a file that does not exist yet",
        )
    })?;
    Ok((Contents::Kept, Some(file)))
}

/// The chip's own verdict, as one on the key it speaks of.
fn check(section: &Section, spec: &ChipSpec) -> Result<(), DescriptionError> {
    refuse_spec(section, spec.check())
}

fn refuse_spec(section: &Section, verdict: Result<(), SpecError>) -> Result<(), DescriptionError> {
    let (field, found, expected) = match verdict {
        Ok(()) => return Ok(()),
        Err(SpecError::Geometry(e)) if e.field.starts_with("blocks times") => {
            let key = if section.has("size") {
                "size"
            } else {
                "blocks"
            };
            return Err(section.refuse(key, &format!("{} pages in all", e.found), e.expected));
        }
        Err(SpecError::Geometry(e)) => (e.field, e.found.to_string(), e.expected),
        Err(SpecError::Value {
            field,
            found,
            expected,
        }) => (field, found.write(), expected),
    };
    // Fields of a pair are named "key, fresh", parts of a choice "key part".
    let key = field.split([',', ' ']).next().unwrap_or(field);
    Err(section.refuse(key, &found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use nandlab_mtd::Layout;
    use std::path::Path;

    fn take(text: &str) -> Result<Description, String> {
        let mut document =
            Document::parse("e.toml", Path::new(""), &format!("[chip]\n{text}"), &[])
                .map_err(|e| e.to_string())?;
        let description = Description::take(&mut document).map_err(|e| e.to_string())?;
        document.finish().map_err(|e| e.to_string())?;
        Ok(description)
    }

    #[test]
    fn a_preset_is_itself_until_a_key_says_otherwise() {
        for preset in preset::ALL {
            let chip = take(&format!("preset = \"{}\"", preset.name)).unwrap().chip;
            assert_eq!(chip.spec, preset.spec(), "{}", preset.name);
        }
        let chip =
            take("preset = \"slc-2k\"\nsize = \"1 GiB\"\nread = \"30 us\"\necc = \"bch-8/512\"\ncontents = \"dropped\"").unwrap().chip;
        let g = &chip.spec.geometry;
        assert_eq!(
            (
                g.bytes(),
                g.blocks,
                chip.spec.timing.read_ns,
                chip.spec.contents
            ),
            (1 << 30, 8192, 30_000, Contents::Dropped)
        );
        assert_eq!(
            chip.spec.reliability.ecc,
            Ecc::Bch {
                bits: 8,
                codeword: 512
            }
        );
    }

    const BARE: &str = "page = 2048\noob = 62\npages-per-block = 64\nblocks = 64\nread = \"25 us\"\nprogram = \"200 us\"\nerase = \"2 ms\"\nbus-ns-per-byte = 25\n";

    #[test]
    fn a_chip_without_preset_needs_its_numbers() {
        assert_eq!(take(BARE).unwrap().chip.spec.timing.oob_bus_bytes, 64);
        for line in BARE.lines() {
            let key = line.split(' ').next().unwrap();
            let error = take(&BARE.replace(&format!("{line}\n"), "")).unwrap_err();
            assert!(
                error.starts_with(&format!("e.toml:1:2: chip.{key}: missing, expected ")),
                "{error}"
            );
        }
    }

    #[test]
    fn every_setting_is_listed_once_with_a_value_that_reads_back() {
        let first = take("preset = \"slc-2k\"\nsave = \"x\"").unwrap();
        let mut keys: Vec<&str> = first.settings.iter().map(|s| s.key.as_str()).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
        let lines = |section: &str| {
            let of = first
                .settings
                .iter()
                .filter_map(|s| Some((s.key.strip_prefix(section)?.strip_prefix('.')?, &s.value)));
            of.map(|(key, value)| format!("{key} = {value}\n"))
                .collect::<String>()
        };
        let second = take(&format!("{}[ftl]\n{}", lines("chip"), lines("ftl"))).unwrap();
        assert_eq!(second.chip.spec, first.chip.spec);
        assert_eq!(format!("{:?}", second.ftl), format!("{:?}", first.ftl));
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let slc = |line: &str| {
            take(&format!("preset = \"slc-2k\"\n{line}"))
                .err()
                .unwrap_or_else(|| panic!("{line} was accepted"))
        };
        let cases = [
            (
                "page = 1000",
                "e.toml:3:8: chip.page: found 1000, expected a power of two from 256 to 65536",
            ),
            (
                "page = 5000000000",
                "e.toml:3:8: chip.page: found 5000000000, expected a power of two",
            ),
            (
                "oob = 4096",
                "e.toml:3:7: chip.oob: found 4096, expected no more than the page",
            ),
            (
                "pages-per-block = 0",
                "chip.pages-per-block: found 0, expected 1 to 65536",
            ),
            (
                "dies = 3",
                "chip.blocks: found 1024, expected a positive multiple of dies times planes",
            ),
            ("dies = 0", "chip.dies: found 0, expected 1 to 4096"),
            ("planes = 17", "chip.planes: found 17"),
            (
                "channels = 2",
                "chip.channels: found 2, expected 1 to the number of dies",
            ),
            (
                "write-unit = 3",
                "chip.write-unit: found 3, expected a divisor of the page",
            ),
            (
                "blocks = 4000000000",
                "chip.blocks: found 256000000000 pages in all, expected below 2^32",
            ),
            (
                "blocks = -1",
                "chip.blocks: found -1, expected a whole number",
            ),
            ("size = \"1 PiB\"", "chip.size: found "),
            (
                "size = \"100 KiB\"",
                "chip.size: found \"100 KiB\", expected a multiple of \"128 KiB\"",
            ),
            (
                "size = \"big\"",
                "chip.size: found \"big\", expected a size such as",
            ),
            (
                "size = \"1 GiB\"\nblocks = 8192",
                "e.toml:4:1: chip.blocks: conflicts with chip.size; give one of them",
            ),
            (
                "spare = 10",
                "chip.spare: found 10, expected space for the user bytes",
            ),
            (
                "oob = 70000",
                "chip.oob: found 70000, expected at most 65534",
            ),
            ("read = 25", "chip.read: found 25, expected a time such as"),
            (
                "erase = \"2 h\"",
                "chip.erase: found \"7200 s\", expected at most an hour",
            ),
            (
                "bus-ns-per-byte = -1",
                "chip.bus-ns-per-byte: found -1.0, expected nanoseconds",
            ),
            (
                "cache-program = 1",
                "chip.cache-program: found 1, expected true or false",
            ),
            (
                "order = \"random\"",
                "chip.order: found \"random\", expected one of \"any\", \"ascending\"",
            ),
            (
                "partial-programs = 0",
                "chip.partial-programs: found 0.0, expected at least 1",
            ),
            (
                "factory-bad = 1.5",
                "chip.factory-bad: found 1.5, expected a probability",
            ),
            (
                "program-fail = [0, 2]",
                "chip.program-fail: found 2.0, expected a probability",
            ),
            (
                "erase-fail = [1]",
                "chip.erase-fail: found [1], expected a number, or two",
            ),
            (
                "bit-errors = -1e-9",
                "chip.bit-errors: found -1e-9, expected a probability",
            ),
            (
                "ecc = \"hamming\"",
                "chip.ecc: found \"hamming\", expected \"none\"",
            ),
            (
                "ecc = \"hamming-0\"",
                "chip.ecc: found 0.0, expected at least 1 byte",
            ),
            (
                "contents = \"ram\"",
                "chip.contents: found \"ram\", expected one of \"kept\", \"dropped\", \"file\"",
            ),
            (
                "contents = \"file\"",
                "chip.contents-file: missing, expected the path of a file",
            ),
            (
                "contents-file = \"x\"",
                "chip.contents-file: has no effect, it needs contents = \"file\"",
            ),
            (
                "load = \"x\"\ncontents = \"dropped\"",
                "chip.load: found a dump, expected contents",
            ),
            (
                "load = \"x\"\nfactory-bad = 0.1",
                "chip.factory-bad: found 0.1, expected 0 beside chip.load",
            ),
            (
                "load = \"\"",
                "chip.load: found \"\", expected the path of a file",
            ),
            (
                "oob-layout = \"linux\"",
                "chip.oob-layout: found \"linux\", expected one of",
            ),
            (
                "oob-layout = \"linux-small-page\"",
                "chip.oob-layout: found \"linux-small-page\" on pages of 2048 + 64 bytes, expected pages of up to 512",
            ),
            (
                "ecc-code = \"hamming\"",
                "chip.ecc-code: has no effect, it needs chip.load, chip.save or chip.oob-layout",
            ),
            (
                "oob-layout = \"linux-large-page-64\"\necc-code = \"rs\"",
                "chip.ecc-code: found \"rs\", expected none, hamming, hamming-512",
            ),
            (
                "oob-layout = \"marker-only\"\npage = 1024\necc-code = \"bch-8-2048\"",
                "chip.ecc-code: found \"bch-8-2048\", expected a code whose steps fill pages of 1024 bytes",
            ),
            (
                "oob-layout = \"linux-large-page-end\"",
                "chip.ecc-code: found \"none\", expected a code: it says how many",
            ),
            (
                "oob-layout = \"linux-large-page-64\"\necc-code = \"bch-8\"",
                "chip.oob-layout: found \"linux-large-page-64\" on pages of 2048 + 64 bytes, expected pages of more than 512 bytes with 64 spare, at most 24 of them ECC",
            ),
            (
                "oob-layout = \"marker-only\"\noob = 63",
                "chip.oob: found 63, expected 62, which oob-layout",
            ),
            (
                "superblock = 1",
                "chip.superblock: found 1, expected true or false",
            ),
            ("preset = \"slc\"", "duplicate key"),
            (
                "seed = 1.5",
                "chip.seed: found 1.5, expected a whole number",
            ),
            (
                "pags = 1",
                "e.toml:3:1: chip.pags: unknown key, did you mean \"page\"?",
            ),
            (
                "voltage = 1",
                "chip.voltage: unknown key, expected one of preset, load, save, page",
            ),
        ];
        for (line, expected) in cases {
            let error = slc(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert!(
            take("preset = \"slc\"")
                .unwrap_err()
                .contains("chip.preset: found \"slc\", expected one of nandsim-jftl, ")
        );
    }

    #[test]
    fn superblocks_join_the_blocks_of_all_planes() {
        let g = take("preset = \"emmc-16GiB\"\nsuperblock = true")
            .unwrap()
            .chip
            .spec
            .geometry;
        assert_eq!(
            (g.dies, g.planes, g.pages_per_block, g.blocks, g.bytes()),
            (1, 1, 1024, 2048, 16 << 30)
        );
        let one = take("preset = \"slc-2k\"\nsuperblock = true")
            .unwrap()
            .chip
            .spec;
        assert_eq!((one.superblock, one.geometry.blocks), (None, 1024));
        let error =
            take("preset = \"ssd-512GiB\"\npages-per-block = 2048\nblocks = 64\nsuperblock = true")
                .unwrap_err();
        assert!(
            error.contains("chip.pages-per-block: found 131072, expected 1 to 65536"),
            "{error}"
        );
    }

    #[test]
    fn a_layout_decides_the_user_bytes() {
        let oob = |line: &str| {
            take(&format!("preset = \"slc-2k\"\n{line}"))
                .unwrap()
                .chip
                .spec
                .geometry
                .oob
        };
        assert_eq!(
            (
                oob(""),
                oob("save = \"x\""),
                oob("oob-layout = \"linux-large-page-64\"")
            ),
            (63, 62, 38)
        );
        assert_eq!(
            (
                oob("oob-layout = \"raw\""),
                oob("load = \"x\"\noob-layout = \"none\"")
            ),
            (64, 62)
        );
        assert_eq!(
            oob("oob-layout = \"linux-large-page-end\"\necc-code = \"bch-4\""),
            64 - 2 - 28
        );
        let small = take("preset = \"small-block-64MiB\"\nload = \"x\"")
            .unwrap()
            .chip;
        assert_eq!(
            (small.spec.geometry.oob, small.dump),
            (
                15,
                DumpFormat {
                    spare: 16,
                    layout: Layout::MarkerOnly,
                    ecc: None
                }
            )
        );
    }
}
