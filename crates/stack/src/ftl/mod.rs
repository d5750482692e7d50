//! The `[ftl]` section: which translation layer, and its choices.

mod logblock;
mod mtdblock;
mod nftl;
mod page;

use crate::chip::ChipDescription;
use crate::dump::Loaded;
use crate::layer::BareChip;
use crate::ubi::UbiScheme;
use crate::value::{Take, Value, quote};
use crate::{
    DescriptionError, Document, FsDescription, Scheme, SchemeInput, Section, Setting, Translation,
};
use std::sync::Arc;

/// A translation layer as described.
#[derive(Clone, Debug)]
pub struct FtlDescription {
    /// The layer with its options.
    pub layer: Translation,
    /// Whether the chip is formatted first.
    pub format: Format,
}

/// Our own schemes, in the order in which messages list them.
pub(crate) fn standard() -> Vec<Arc<dyn Scheme>> {
    vec![
        Arc::new(page::PAGE),
        Arc::new(logblock::LogBlock::Bast),
        Arc::new(logblock::LogBlock::Sast),
        Arc::new(logblock::LogBlock::Fast),
        Arc::new(nftl::NFTL),
        Arc::new(mtdblock::MTDBLOCK),
        Arc::new(UbiScheme),
        Arc::new(NoLayer),
    ]
}

/// No layer: a file system for flash lies on the chip itself.
struct NoLayer;

impl Scheme for NoLayer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn is_disk(&self) -> bool {
        false
    }

    fn is_flash(&self) -> bool {
        true
    }

    fn take(&self, _: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        Ok(Translation::flash(self.name(), BareChip))
    }
}

/// Whether the chip is formatted before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// If nothing is on it.
    Auto,
    /// Formats the chip in any case.
    Always,
    /// Never: what is on it must be attached.
    Never,
}

impl Format {
    /// Whether a chip with what was loaded is to be formatted.
    pub(crate) fn applies(self, loaded: Option<Loaded>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => loaded.is_none_or(|loaded| loaded.pages == 0),
        }
    }
}

impl Take for Format {
    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self::Always),
            Value::Bool(false) => Some(Self::Never),
            Value::Text(text) if text == "auto" => Some(Self::Auto),
            _ => None,
        }
    }
    fn expected() -> String {
        "true, false or \"auto\" (format a blank chip, attach any other)".into()
    }
    fn write(&self) -> String {
        match self {
            Self::Auto => quote("auto"),
            Self::Always => "true".into(),
            Self::Never => "false".into(),
        }
    }
}

impl FtlDescription {
    /// Takes `[ftl]` out of a document.
    pub(crate) fn take(
        document: &mut Document,
        schemes: &[Arc<dyn Scheme>],
        chip: &ChipDescription,
        fs: Option<&FsDescription>,
    ) -> Result<(Self, Vec<Setting>), DescriptionError> {
        let mut section = document.section("ftl");
        let on_flash = fs.filter(|fs| fs.is_on_flash());
        let usual = match (document.has("ubi"), on_flash) {
            (true, _) => "ubi",
            (false, Some(_)) => "none",
            (false, None) => "page",
        };
        let scheme = chosen(&mut section, schemes, usual)?;
        refuse_wrong_medium(&section, schemes, scheme, on_flash)?;
        let mut settings = Vec::new();
        let layer = scheme.take(&mut SchemeInput {
            section: &mut section,
            document: &mut *document,
            settings: &mut settings,
            chip,
        })?;
        let format = section.or("format", Format::Auto)?;
        if format == Format::Never && chip.load.is_none() {
            return Err(section.refuse(
                "format",
                "false",
                "true or \"auto\", since without chip.load there is nothing to attach",
            ));
        }
        refuse_others(&mut section, schemes, scheme)?;
        for other in others(schemes, scheme) {
            other.refuse(document)?;
        }
        let settings = section.finish()?.into_iter().chain(settings).collect();
        Ok((Self { layer, format }, settings))
    }
}

/// The scheme that `ftl.scheme` names.
fn chosen<'s>(
    section: &mut Section,
    schemes: &'s [Arc<dyn Scheme>],
    usual: &str,
) -> Result<&'s dyn Scheme, DescriptionError> {
    let names: Vec<(&str, usize)> = schemes
        .iter()
        .enumerate()
        .map(|(at, scheme)| (scheme.name(), at))
        .collect();
    let usual = names.iter().position(|(name, _)| *name == usual);
    let at = section.choice("scheme", &names, usual.unwrap_or(0))?;
    Ok(&*schemes[at])
}

fn others<'s>(
    schemes: &'s [Arc<dyn Scheme>],
    chosen: &'s dyn Scheme,
) -> impl Iterator<Item = &'s Arc<dyn Scheme>> {
    schemes
        .iter()
        .filter(|scheme| scheme.name() != chosen.name())
}

/// Refuses a layer without flash below a file system for flash, and one without a disk elsewhere.
fn refuse_wrong_medium(
    section: &Section,
    schemes: &[Arc<dyn Scheme>],
    scheme: &dyn Scheme,
    on_flash: Option<&FsDescription>,
) -> Result<(), DescriptionError> {
    let expected = match on_flash {
        Some(_) if scheme.is_flash() => return Ok(()),
        None if scheme.is_disk() => return Ok(()),
        Some(fs) => {
            let names = schemes.iter().filter(|scheme| scheme.is_flash());
            let mut names: Vec<String> = names.map(|scheme| quote(scheme.name())).collect();
            names.sort_unstable();
            let fs = quote(fs.name());
            let names = names.join(" or ");
            format!("{names}, since fs.type = {fs} lies on flash itself")
        }
        None => "a translation layer, or fs.type = \"jffs2\", which needs none".into(),
    };
    Err(section.refuse("scheme", &quote(scheme.name()), &expected))
}

/// Refuses keys that only other schemes take.
fn refuse_others(
    section: &mut Section,
    schemes: &[Arc<dyn Scheme>],
    chosen: &dyn Scheme,
) -> Result<(), DescriptionError> {
    let own = chosen.keys();
    let mut foreign: Vec<&'static str> = others(schemes, chosen)
        .flat_map(|scheme| scheme.keys())
        .filter(|key| !own.contains(key))
        .collect();
    foreign.sort_unstable();
    foreign.dedup();
    foreign.into_iter().try_for_each(|key| {
        let takers = schemes
            .iter()
            .filter(|scheme| scheme.keys().contains(&key))
            .map(|scheme| quote(scheme.name()));
        let takers = takers.collect::<Vec<_>>().join(" or ");
        section.inapplicable(&[key], &format!("scheme = {takers}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use nandlab_ftl::Victim;
    use nandlab_ftl::logblock::{
        FirstWrite, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending,
        Scheme as LogScheme,
    };
    use nandlab_ftl::nftl::{Allocation, ChainVictim, NftlOptions, Ordering};
    use nandlab_ftl::page::{PageOptions, SlcOverflow};
    use std::path::Path;

    fn take(text: &str) -> Result<FtlDescription, String> {
        let text = format!("[chip]\npreset = \"slc-2k\"\n[ftl]\n{text}");
        let mut document =
            Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        Description::take(&mut document)
            .map(|description| description.ftl)
            .map_err(|e| e.to_string())
    }

    fn options(taken: &FtlDescription) -> String {
        format!("{:?}", taken.layer.disk.as_ref().unwrap())
    }

    #[test]
    fn defaults_are_the_layers_own() {
        let usual = take("").unwrap();
        assert_eq!(usual.layer.name, "page");
        assert_eq!(options(&usual), format!("{:?}", PageOptions::default()));
        assert_eq!(usual.format, Format::Auto);
    }

    #[test]
    fn every_choice_arrives() {
        let all = "scheme = \"page\"\nover-provisioning = 0.28\nvictim = \"cost-benefit\"\nseparate-streams = false\nspare-blocks = 3\n\
                   map-interval = 9\nmap-cache = \"64 KiB\"\n\
                   wear-threshold = 5\nscrub-bits = 2\nformat = true\n";
        let expected = PageOptions {
            over_provisioning: 0.28,
            victim: Victim::CostBenefit,
            separate_streams: false,
            spare_blocks: 3,
            map_interval: 9,
            map_cache: Some(65_536),
            wear_threshold: 5,
            scrub_bits: 2,
            ..PageOptions::default()
        };
        let taken = take(all).unwrap();
        assert_eq!(options(&taken), format!("{expected:?}"));
        assert_eq!(taken.format, Format::Always);
    }

    #[test]
    fn every_choice_of_the_log_block_schemes_arrives() {
        let scheme = |text: &str| options(&take(text).unwrap());
        let ascending = |options: LogBlockOptions| {
            let page_order = PageOrder::Ascending;
            format!(
                "{:?}",
                LogBlockOptions {
                    page_order,
                    ..options
                }
            )
        };
        assert_eq!(
            scheme("scheme = \"bast\""),
            ascending(LogBlockOptions::bast())
        );
        assert_eq!(
            scheme("scheme = \"sast\""),
            ascending(LogBlockOptions::sast(4, 2))
        );
        assert_eq!(
            scheme("scheme = \"fast\""),
            ascending(LogBlockOptions::fast())
        );
        let all = "scheme = \"fast\"\nlog-blocks = 9\nspare-blocks = 7\nfirst-write = \"log\"\nskip-stale = false\neager = true\nftl-seed = 3\nwear-threshold = 5\n\
                   mismatch = \"random\"\npending = \"logged\"\nowner = \"full\"\n";
        let fast = LogBlockOptions {
            scheme: LogScheme::Fast {
                mismatch: Mismatch::Random,
                pending: Pending::Logged,
                owner: OwnerMerge::Full,
            },
            log_blocks: 9,
            spare_blocks: 7,
            first_write: FirstWrite::Logged,
            skip_stale: false,
            eager: true,
            wear_threshold: 5,
            seed: 3,
            ..LogBlockOptions::fast()
        };
        assert_eq!(scheme(all), ascending(fast));
        let sast = LogScheme::Sast {
            blocks: 8,
            logs: 3,
            victim: LogVictim::Fifo,
        };
        let text = "scheme = \"sast\"\ngroup-blocks = 8\ngroup-logs = 3\nvictim = \"fifo\"";
        assert_eq!(
            scheme(text),
            ascending(LogBlockOptions {
                scheme: sast,
                ..LogBlockOptions::sast(8, 3)
            })
        );
        assert_eq!(
            take("scheme = \"mtdblock\"").unwrap().layer.name,
            "mtdblock"
        );
    }

    #[test]
    fn choices_that_need_planes_or_an_slc_mode_arrive_on_such_a_chip() {
        let taken = |ftl: &str| {
            let text = format!("[chip]\npreset = \"tlc-24GiB\"\n[ftl]\n{ftl}");
            let mut document = Document::parse("e.toml", Path::new(""), &text, &[]).unwrap();
            let description = Description::take(&mut document);
            description.map(|description| options(&description.ftl))
        };
        let all = "multi-plane-copies = true\nslc-cache-blocks = 2048\nslc-overflow = \"fold\"\n";
        let expected = PageOptions {
            multi_plane_copies: true,
            slc_cache_blocks: 2048,
            slc_overflow: SlcOverflow::Fold,
            ..PageOptions::default()
        };
        assert_eq!(taken(all).unwrap(), format!("{expected:?}"));
        assert_eq!(taken("").unwrap(), format!("{:?}", PageOptions::default()));
        let error = taken("slc-cache-blocks = 2049").unwrap_err().to_string();
        assert!(
            error.contains("found 2049, expected at most half of the chip's 4096 blocks"),
            "{error}"
        );
    }

    #[test]
    fn every_choice_of_the_replacement_block_scheme_arrives() {
        let taken = |text: &str| take(&format!("scheme = \"nftl\"\n{text}")).unwrap();
        let usual = format!("{:?}", NftlOptions::default());
        assert_eq!(options(&taken("")), usual);
        let all = "spare-units = 9\nvictim = \"min-copy\"\nallocation = \"least-worn\"\nverify-free = false\nordering = \"linux\"\n\
                   trust-free = true\nwear-threshold = 7\n";
        let expected = NftlOptions {
            spare_units: 9,
            victim: ChainVictim::MinCopy,
            allocation: Allocation::LeastWorn,
            verify_free: false,
            ordering: Ordering::Linux,
            trust_free: true,
            wear_threshold: 7,
            ..NftlOptions::default()
        };
        assert_eq!(options(&taken(all)), format!("{expected:?}"));
        assert!(taken("").layer.checks_erases && !taken(all).layer.checks_erases);
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "scheme = \"hybrid\"",
                "e.toml:4:10: ftl.scheme: found \"hybrid\", expected one of \"page\", \"bast\"",
            ),
            (
                "over-provisioning = 0",
                "ftl.over-provisioning: found 0.0, expected spare space over logical space",
            ),
            (
                "over-provisioning = \"7%\"",
                "ftl.over-provisioning: found \"7%\", expected a number",
            ),
            (
                "over-provisioning = nan",
                "ftl.over-provisioning: found nan, expected a number",
            ),
            (
                "victim = \"random\"",
                "ftl.victim: found \"random\", expected one of \"greedy\", \"cost-benefit\"",
            ),
            (
                "separate-streams = \"yes\"",
                "ftl.separate-streams: found \"yes\", expected true or false",
            ),
            (
                "spare-blocks = 1024",
                "ftl.spare-blocks: found 1024, expected fewer than the chip's 1024 blocks",
            ),
            (
                "map-interval = 0",
                "ftl.map-interval: found 0, expected at least 1",
            ),
            (
                "map-cache = 1000",
                "ftl.map-cache: found \"1000 B\", expected at least two map pages, \"4 KiB\"",
            ),
            (
                "slc-cache-blocks = 8",
                "ftl.slc-cache-blocks: found 8, expected 0 on a chip without an SLC mode",
            ),
            (
                "slc-overflow = \"fold\"",
                "ftl.slc-overflow: has no effect, it needs ftl.slc-cache-blocks above 0",
            ),
            (
                "multi-plane-copies = true",
                "ftl.multi-plane-copies: found true, expected false on a chip of one plane",
            ),
            (
                "scheme = \"fast\"\nmap-cache = \"1 MiB\"",
                "ftl.map-cache: has no effect, it needs scheme = \"page\"",
            ),
            (
                "wear-threshold = -1",
                "ftl.wear-threshold: found -1, expected a whole number",
            ),
            (
                "scrub-bits = 70000",
                "ftl.scrub-bits: found 70000, expected a whole number from 0 to 65535",
            ),
            (
                "format = \"yes\"",
                "ftl.format: found \"yes\", expected true, false or \"auto\"",
            ),
            (
                "format = false",
                "ftl.format: found false, expected true or \"auto\", since without chip.load",
            ),
            (
                "scheme = \"bast\"\nover-provisioning = 0.1",
                "ftl.over-provisioning: has no effect, it needs scheme = \"page\"",
            ),
            (
                "scheme = \"bast\"\nmismatch = \"random\"",
                "ftl.mismatch: has no effect, it needs scheme = \"fast\"",
            ),
            (
                "log-blocks = 3",
                "ftl.log-blocks: has no effect, it needs scheme = \"bast\" or \"sast\" or \"fast\"",
            ),
            (
                "scheme = \"bast\"\nlog-blocks = 0",
                "ftl.log-blocks: found 0, expected 1 to 1023",
            ),
            (
                "scheme = \"nftl\"\nspare-units = 1",
                "ftl.spare-units: found 1, expected 2 to 1023",
            ),
            (
                "scheme = \"nftl\"\nvictim = \"greedy\"",
                "ftl.victim: found \"greedy\", expected one of \"longest\", \"min-copy\"",
            ),
            (
                "scheme = \"fast\"\nlog-blocks = 1",
                "ftl.log-blocks: found 1, expected 2 to 1023",
            ),
            (
                "scheme = \"sast\"\ngroup-logs = 65",
                "ftl.group-logs: found 65, expected 1 to 64",
            ),
            (
                "scheme = \"sast\"\ngroup-blocks = 0",
                "ftl.group-blocks: found 0, expected at least 1",
            ),
            (
                "op = 0.07",
                "ftl.op: unknown key, expected one of scheme, over-provisioning",
            ),
        ];
        for (line, expected) in cases {
            let error = take(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
