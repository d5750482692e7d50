//! The `[ftl]` section: which translation layer, and its choices.

mod logblock;
mod nftl;
mod page;

use crate::chip::ChipDescription;
use crate::dump::Loaded;
use crate::ubi::UbiDescription;
use crate::value::Value;
use crate::value::{Take, quote};
use crate::{DescriptionError, Document, FsDescription, Section, Setting};
use nandlab_ftl::logblock::LogBlockOptions;
use nandlab_ftl::nftl::NftlOptions;
use nandlab_ftl::page::PageOptions;

/// A translation layer as described.
#[derive(Clone, Debug, PartialEq)]
pub struct FtlDescription {
    /// Which.
    pub scheme: Scheme,
    /// Whether the chip is formatted first.
    pub format: Format,
}

/// The translation layers there are.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheme {
    /// Page mapping.
    Page(PageOptions),
    /// BAST, SAST or FAST.
    LogBlock(LogBlockOptions),
    /// Replacement blocks, as Linux's NFTL has them.
    Nftl(NftlOptions),
    /// Linux's cache of one erase block.
    Mtdblock,
    /// UBI, of which one volume is used: as a disk, or as the flash of a file system for flash.
    Ubi(UbiDescription),
    /// None: a file system for flash lies on the chip itself.
    Bare,
}

/// The names of the schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Page,
    Bast,
    Sast,
    Fast,
    Nftl,
    Mtdblock,
    Ubi,
    Bare,
}

impl Name {
    const ALL: [(&'static str, Self); 8] = [
        ("page", Self::Page),
        ("bast", Self::Bast),
        ("sast", Self::Sast),
        ("fast", Self::Fast),
        ("nftl", Self::Nftl),
        ("mtdblock", Self::Mtdblock),
        ("ubi", Self::Ubi),
        ("none", Self::Bare),
    ];

    fn text(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, name)| *name == self)
            .map_or("", |(text, _)| text)
    }

    /// The keys that the scheme understands, besides `scheme` and `format`.
    fn keys(self) -> Vec<&'static str> {
        match self {
            Self::Page => page::KEYS.to_vec(),
            Self::Bast => [&logblock::KEYS[..], &["victim"]].concat(),
            Self::Sast => [
                &logblock::KEYS[..],
                &["victim", "group-blocks", "group-logs"],
            ]
            .concat(),
            Self::Fast => [&logblock::KEYS[..], &["mismatch", "pending", "owner"]].concat(),
            Self::Nftl => nftl::KEYS.to_vec(),
            Self::Mtdblock | Self::Ubi | Self::Bare => Vec::new(),
        }
    }

    /// Refuses keys that only other schemes understand.
    fn refuse_others(self, section: &mut Section) -> Result<(), DescriptionError> {
        let own = self.keys();
        let mut others: Vec<&'static str> = Self::ALL
            .iter()
            .flat_map(|(_, name)| name.keys())
            .filter(|key| !own.contains(key))
            .collect();
        others.sort_unstable();
        others.dedup();
        others.into_iter().try_for_each(|key| {
            let takers = Self::ALL
                .iter()
                .filter(|(_, name)| name.keys().contains(&key))
                .map(|(text, _)| quote(text));
            section.inapplicable(
                &[key],
                &format!("scheme = {}", takers.collect::<Vec<_>>().join(" or ")),
            )
        })
    }
}

impl Scheme {
    /// Its name in descriptions.
    pub fn name(&self) -> &'static str {
        use nandlab_ftl::logblock::Scheme as LogScheme;
        match self {
            Self::Page(_) => "page",
            Self::LogBlock(LogBlockOptions {
                scheme: LogScheme::Bast { .. },
                ..
            }) => "bast",
            Self::LogBlock(LogBlockOptions {
                scheme: LogScheme::Sast { .. },
                ..
            }) => "sast",
            Self::LogBlock(LogBlockOptions {
                scheme: LogScheme::Fast { .. },
                ..
            }) => "fast",
            Self::Nftl(_) => "nftl",
            Self::Mtdblock => "mtdblock",
            Self::Ubi(_) => "ubi",
            Self::Bare => "none",
        }
    }
}

/// Whether the chip is formatted before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// If nothing is on it.
    Auto,
    /// In any case.
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
        chip: &ChipDescription,
        fs: Option<&FsDescription>,
    ) -> Result<(Self, Vec<Setting>), DescriptionError> {
        let mut section = document.section("ftl");
        let bare = fs.is_some_and(FsDescription::is_on_flash);
        let usual = match (document.has("ubi"), bare) {
            (true, _) => Name::Ubi,
            (false, true) => Name::Bare,
            (false, false) => Name::Page,
        };
        let name = section.choice("scheme", &Name::ALL, usual)?;
        match (bare, name) {
            (true, Name::Bare) | (_, Name::Ubi) => {}
            (true, other) => {
                let expected =
                    "\"none\" or \"ubi\", since fs.type = \"jffs2\" lies on flash itself";
                return Err(section.refuse("scheme", &quote(other.text()), expected));
            }
            (false, Name::Bare) => {
                return Err(section.refuse(
                    "scheme",
                    "\"none\"",
                    "a translation layer, or fs.type = \"jffs2\", which needs none",
                ));
            }
            (false, _) => {}
        }
        let mut of_ubi = Vec::new();
        let scheme = match name {
            Name::Ubi => {
                let (described, settings) = UbiDescription::take(document, chip)?;
                of_ubi = settings;
                Scheme::Ubi(described)
            }
            Name::Page => Scheme::Page(page::take(&mut section, chip)?),
            Name::Bast | Name::Sast | Name::Fast => {
                Scheme::LogBlock(logblock::take(&mut section, chip, name)?)
            }
            Name::Nftl => Scheme::Nftl(nftl::take(&mut section, chip)?),
            Name::Mtdblock => Scheme::Mtdblock,
            Name::Bare => Scheme::Bare,
        };
        let format = section.or("format", Format::Auto)?;
        if format == Format::Never && chip.load.is_none() {
            return Err(section.refuse(
                "format",
                "false",
                "true or \"auto\", since without chip.load there is nothing to attach",
            ));
        }
        name.refuse_others(&mut section)?;
        if name != Name::Ubi {
            UbiDescription::refuse(document)?;
        }
        let settings = section.finish()?.into_iter().chain(of_ubi).collect();
        Ok((Self { scheme, format }, settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use nandlab_ftl::Victim;
    use nandlab_ftl::logblock::{
        FirstWrite, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending, Scheme as LogScheme,
    };
    use nandlab_ftl::nftl::{Allocation, ChainVictim, Ordering};
    use std::path::Path;

    fn take(text: &str) -> Result<FtlDescription, String> {
        let text = format!("[chip]\npreset = \"slc-2k\"\n[ftl]\n{text}");
        let mut document =
            Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        Description::take(&mut document)
            .map(|description| description.ftl)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_are_the_layers_own() {
        assert_eq!(
            take("").unwrap(),
            FtlDescription {
                scheme: Scheme::Page(PageOptions::default()),
                format: Format::Auto
            }
        );
    }

    #[test]
    fn every_choice_arrives() {
        let all = "scheme = \"page\"\nover-provisioning = 0.28\nvictim = \"cost-benefit\"\nseparate-streams = false\nspare-blocks = 3\n\
                   map-interval = 9\nwear-threshold = 5\nscrub-bits = 2\nformat = true\n";
        let options = PageOptions {
            over_provisioning: 0.28,
            victim: Victim::CostBenefit,
            separate_streams: false,
            spare_blocks: 3,
            map_interval: 9,
            wear_threshold: 5,
            scrub_bits: 2,
            ..PageOptions::default()
        };
        assert_eq!(
            take(all).unwrap(),
            FtlDescription {
                scheme: Scheme::Page(options),
                format: Format::Always
            }
        );
    }

    #[test]
    fn every_choice_of_the_log_block_schemes_arrives() {
        let scheme = |text: &str| take(text).unwrap().scheme;
        let ascending = |options: LogBlockOptions| {
            Scheme::LogBlock(LogBlockOptions {
                page_order: PageOrder::Ascending,
                ..options
            })
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
        let options = LogBlockOptions {
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
        assert_eq!(scheme(all), ascending(options));
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
        assert_eq!(scheme("scheme = \"mtdblock\""), Scheme::Mtdblock);
    }

    #[test]
    fn every_choice_of_the_replacement_block_scheme_arrives() {
        let options = |text: &str| match take(&format!("scheme = \"nftl\"\n{text}")).unwrap().scheme
        {
            Scheme::Nftl(options) => options,
            other => panic!("{other:?}"),
        };
        assert_eq!(options(""), NftlOptions::default());
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
        assert_eq!(options(all), expected);
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
