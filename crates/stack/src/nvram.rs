//! The `[nvram]` section: memory beside the chip, and what it is for.

use crate::value::Size;
use crate::{ChipDescription, DescriptionError, Document, Section, Setting};
use nandlab_block::Nvram;
use nandlab_ftl::write_cache::{CacheOptions, CachePolicy};
use nandlab_sim::Rail;

/// Bytes that the memory takes whole or not at all, as the directories kept in it need.
const LINE: u64 = 64;
/// The most bytes of such a memory.
const MAX: u64 = 1 << 30;
/// What only a write cache has.
const CACHE_KEYS: [&str; 5] = [
    "policy",
    "padding",
    "compensation",
    "battery",
    "flush-through",
];

/// A memory beside the chip as described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramDescription {
    /// What it is for.
    pub holds: Holds,
    /// Its size in bytes.
    pub size: u64,
    /// It keeps its contents in a power cut.
    pub battery: bool,
}

/// What a memory beside the chip is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The file system's metadata: table and directories never reach the flash while the volume is
    /// mounted.
    Metadata,
    /// Pages written to the disk, inside the translation layer.
    Writes(CacheOptions),
}

/// The policies of a write cache, by name.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Lru,
    Fab,
    Bplru,
    LbClock,
}

impl NvramDescription {
    /// Takes `[nvram]` out of a document; none if there is no such memory.
    pub(crate) fn take(
        document: &mut Document,
        chip: &ChipDescription,
        has_fs: bool,
    ) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("nvram");
        let choices = [
            ("nothing", None),
            ("metadata", Some(false)),
            ("writes", Some(true)),
        ];
        let Some(writes) = section.choice("holds", &choices, None)? else {
            section.inapplicable(&["size"], "contents (nvram.holds)")?;
            section.inapplicable(&CACHE_KEYS, "holds = \"writes\"")?;
            return Ok((None, section.finish()?));
        };
        if !writes && !has_fs {
            return Err(section.refuse(
                "holds",
                "\"metadata\"",
                "a file system (fs.type) whose metadata it could hold",
            ));
        }
        let fine =
            |Size(bytes): &Size| (8 * LINE..=MAX).contains(bytes) && bytes.is_multiple_of(LINE);
        // 128 KiB: what the FTL study gave it, enough for all metadata of a 32 MiB volume.
        let expected = format!("a multiple of {LINE} bytes from {} to {MAX}", 8 * LINE);
        let Size(size) = section.checked("size", Size(128 << 10), fine, &expected)?;
        let (holds, battery) = if writes {
            let battery = section.or("battery", true)?;
            let options = cache(&mut section, chip.spec.geometry.pages_per_block, battery)?;
            (Holds::Writes(options), battery)
        } else {
            section.inapplicable(&CACHE_KEYS, "holds = \"writes\"")?;
            (Holds::Metadata, true)
        };
        let described = Self {
            holds,
            size,
            battery,
        };
        Ok((Some(described), section.finish()?))
    }

    /// Whether it is a write cache, and its choices.
    pub fn cache(&self) -> Option<CacheOptions> {
        if let Holds::Writes(options) = self.holds {
            Some(options)
        } else {
            None
        }
    }

    /// The memory, all zeros.
    pub(crate) fn build(&self, rail: &Rail) -> Nvram {
        Nvram::new(LINE as u32, self.size / LINE, rail.clone())
    }
}

fn cache(
    section: &mut Section,
    block_pages: u32,
    battery: bool,
) -> Result<CacheOptions, DescriptionError> {
    let policies = [
        ("lru", Policy::Lru),
        ("fab", Policy::Fab),
        ("bplru", Policy::Bplru),
        ("lb-clock", Policy::LbClock),
    ];
    let policy = match section.choice("policy", &policies, Policy::LbClock)? {
        Policy::Bplru => CachePolicy::Bplru {
            padding: section.or("padding", true)?,
            compensation: section.or("compensation", true)?,
        },
        other => {
            section.inapplicable(&["padding", "compensation"], "policy = \"bplru\"")?;
            match other {
                Policy::Lru => CachePolicy::Lru,
                Policy::Fab => CachePolicy::Fab,
                _ => CachePolicy::LbClock,
            }
        }
    };
    let flush_through = if battery {
        section.or("flush-through", false)?
    } else {
        section.inapplicable(&["flush-through"], "battery = true")?;
        true
    };
    Ok(CacheOptions {
        policy,
        flush_through,
        ..CacheOptions::new(block_pages)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use std::path::Path;

    fn take(text: &str) -> Result<Option<NvramDescription>, String> {
        let text = format!("[chip]\npreset = \"slc-2k\"\n[nvram]\n{text}");
        let mut document =
            Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        Description::take(&mut document)
            .map(|description| description.nvram)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn every_choice_arrives() {
        assert_eq!(take("").unwrap(), None);
        let cache = |text: &str| {
            take(&format!("holds = \"writes\"\n{text}"))
                .unwrap()
                .unwrap()
                .cache()
                .unwrap()
        };
        assert_eq!(cache(""), CacheOptions::new(64));
        let bplru = CachePolicy::Bplru {
            padding: false,
            compensation: true,
        };
        let expected = CacheOptions {
            policy: bplru,
            flush_through: true,
            ..CacheOptions::new(64)
        };
        assert_eq!(
            cache("policy = \"bplru\"\npadding = false\nflush-through = true"),
            expected
        );
        assert_eq!(cache("policy = \"fab\"").policy, CachePolicy::Fab);
        assert!(cache("battery = false").flush_through);
        let metadata = take("holds = \"metadata\"\n[fs]\ntype = \"fat16\"")
            .unwrap()
            .unwrap();
        assert_eq!(
            metadata,
            NvramDescription {
                holds: Holds::Metadata,
                size: 128 << 10,
                battery: true
            }
        );
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "holds = \"everything\"",
                "e.toml:4:9: nvram.holds: found \"everything\", expected one of \"nothing\", \"metadata\", \"writes\"",
            ),
            (
                "size = \"1 MiB\"",
                "nvram.size: has no effect, it needs contents (nvram.holds)",
            ),
            (
                "holds = \"metadata\"",
                "nvram.holds: found \"metadata\", expected a file system (fs.type)",
            ),
            (
                "holds = \"writes\"\nsize = 100",
                "nvram.size: found \"100 B\", expected a multiple of 64 bytes",
            ),
            (
                "holds = \"writes\"\npadding = true",
                "nvram.padding: has no effect, it needs policy = \"bplru\"",
            ),
            (
                "holds = \"writes\"\nbattery = false\nflush-through = false",
                "nvram.flush-through: has no effect, it needs battery = true",
            ),
            (
                "policy = \"lru\"",
                "nvram.policy: has no effect, it needs holds = \"writes\"",
            ),
        ];
        for (line, expected) in cases {
            let error = take(line)
                .err()
                .unwrap_or_else(|| panic!("{line} was accepted"));
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
