//! The `[ftl]` section: which translation layer, and its choices.

use crate::chip::ChipDescription;
use crate::value::Value;
use crate::value::{Take, quote};
use crate::{DescriptionError, Document, Setting};
use nandlab_ftl::Victim;
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
    pub(crate) fn take(document: &mut Document, chip: &ChipDescription) -> Result<(Self, Vec<Setting>), DescriptionError> {
        let mut section = document.section("ftl");
        section.choice("scheme", &[("page", ())], ())?;
        let default = PageOptions::default();
        let blocks = chip.spec.geometry.blocks;
        let victims = [("greedy", Victim::Greedy), ("cost-benefit", Victim::CostBenefit)];
        let options = PageOptions {
            over_provisioning: section.checked(
                "over-provisioning",
                default.over_provisioning,
                |share| *share > 0.0 && *share <= 100.0,
                "spare space over logical space, above 0 and up to 100",
            )?,
            victim: section.choice("victim", &victims, default.victim)?,
            separate_streams: section.or("separate-streams", default.separate_streams)?,
            spare_blocks: section.checked(
                "spare-blocks",
                default.spare_blocks,
                |n| *n < blocks,
                &format!("fewer than the chip's {blocks} blocks"),
            )?,
            map_interval: section.checked("map-interval", default.map_interval, |n| *n > 0, "at least 1 page program")?,
            wear_threshold: section.or("wear-threshold", default.wear_threshold)?,
            scrub_bits: section.or("scrub-bits", default.scrub_bits)?,
            ..default
        };
        let format = section.or("format", Format::Auto)?;
        if format == Format::Never && chip.load.is_none() {
            return Err(section.refuse("format", "false", "true or \"auto\", since without chip.load there is nothing to attach"));
        }
        Ok((Self { scheme: Scheme::Page(options), format }, section.finish()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use std::path::Path;

    fn take(text: &str) -> Result<FtlDescription, String> {
        let text = format!("[chip]\npreset = \"slc-2k\"\n[ftl]\n{text}");
        let mut document = Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        Description::take(&mut document).map(|description| description.ftl).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_are_the_layers_own() {
        assert_eq!(take("").unwrap(), FtlDescription { scheme: Scheme::Page(PageOptions::default()), format: Format::Auto });
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
        assert_eq!(take(all).unwrap(), FtlDescription { scheme: Scheme::Page(options), format: Format::Always });
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            ("scheme = \"hybrid\"", "e.toml:4:10: ftl.scheme: found \"hybrid\", expected one of \"page\""),
            ("over-provisioning = 0", "ftl.over-provisioning: found 0.0, expected spare space over logical space"),
            ("over-provisioning = \"7%\"", "ftl.over-provisioning: found \"7%\", expected a number"),
            ("over-provisioning = nan", "ftl.over-provisioning: found nan, expected a number"),
            ("victim = \"random\"", "ftl.victim: found \"random\", expected one of \"greedy\", \"cost-benefit\""),
            ("separate-streams = \"yes\"", "ftl.separate-streams: found \"yes\", expected true or false"),
            ("spare-blocks = 1024", "ftl.spare-blocks: found 1024, expected fewer than the chip's 1024 blocks"),
            ("map-interval = 0", "ftl.map-interval: found 0, expected at least 1"),
            ("wear-threshold = -1", "ftl.wear-threshold: found -1, expected a whole number"),
            ("scrub-bits = 70000", "ftl.scrub-bits: found 70000, expected a whole number from 0 to 65535"),
            ("format = \"yes\"", "ftl.format: found \"yes\", expected true, false or \"auto\""),
            ("format = false", "ftl.format: found false, expected true or \"auto\", since without chip.load"),
            ("op = 0.07", "ftl.op: unknown key, expected one of scheme, over-provisioning"),
        ];
        for (line, expected) in cases {
            let error = take(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
