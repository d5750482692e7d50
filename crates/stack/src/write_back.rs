//! The `[write-back]` section: the write-back routine for JFFS2, in front of whatever file system.
//!
//! Names are those of the routine ([`nandlab_pagecache::write_back`]).

use crate::value::{Size, Time};
use crate::{
    ChipDescription, DescriptionError, Document, FsDescription, MemoryDescription, Setting,
};
use nandlab_pagecache::flusher::PAGE;
use nandlab_pagecache::write_back::Settings;

/// What only the routine has.
const KEYS: [&str; 5] = ["merge", "threshold", "slice", "flash-writeback", "memory"];

/// What a file of any of our file systems may have.
const FILE_BYTES_MAX: u64 = i32::MAX as u64;

/// The routine as described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBackDescription {
    /// How it goes about it.
    pub settings: Settings,
}

impl WriteBackDescription {
    /// Takes `[write-back]` out of a document; none if writes are not deferred.
    pub(crate) fn take(
        document: &mut Document,
        chip: &ChipDescription,
        fs: Option<&FsDescription>,
        memory: Option<&MemoryDescription>,
    ) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("write-back");
        if !section.or("deferred", false)? {
            section.inapplicable(&KEYS, "deferred = true")?;
            return Ok((None, section.finish()?));
        }
        if fs.is_none() {
            return Err(section.refuse(
                "deferred",
                "true",
                "a file system (fs.type) whose writes could be deferred",
            ));
        }
        let g = &chip.spec.geometry;
        let block = u64::from(g.page) * u64::from(g.pages_per_block);
        let usual = Settings {
            memory: memory.map_or(Settings::default().memory, |memory| memory.limits.dirty()),
            ..Settings::default()
        };
        let fine = |Size(bytes): &Size| {
            bytes.is_multiple_of(PAGE) && (PAGE..=block.max(PAGE)).contains(bytes)
        };
        let expected = format!("a multiple of 4 KiB up to the erase block of {block} bytes");
        let Size(merge_bytes) =
            section.checked("merge", Size(usual.merge_bytes), fine, &expected)?;
        let threshold = section.checked(
            "threshold",
            usual.threshold,
            |n| *n > 0,
            "at least 1 element",
        )?;
        let some = |Time(ns): &Time| *ns > 0;
        let Time(slice) = section.checked("slice", Time(usual.slice), some, "a time above 0")?;
        let Time(interval) = section.checked(
            "flash-writeback",
            Time(usual.interval),
            some,
            "a time above 0",
        )?;
        let Size(memory) = section.checked(
            "memory",
            Size(usual.memory),
            |Size(bytes)| *bytes >= PAGE,
            "at least a page of 4 KiB",
        )?;
        let settings = Settings {
            merge_bytes,
            threshold,
            slice,
            interval,
            memory,
            file_bytes_max: FILE_BYTES_MAX,
        };
        Ok((Some(Self { settings }), section.finish()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use std::path::Path;

    fn take(text: &str) -> Result<Option<Settings>, String> {
        let text = format!("[chip]\npreset = \"onenand-kfg1g16u2m\"\n{text}");
        let mut document =
            Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        Description::take(&mut document)
            .map(|stack| stack.write_back.map(|routine| routine.settings))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_routine_has_its_own_choices_and_the_machines_memory() {
        let jffs2 = "[fs]\ntype = \"jffs2\"\n";
        assert_eq!(take(jffs2).unwrap(), None);
        let usual = take(&format!("{jffs2}[write-back]\ndeferred = true"))
            .unwrap()
            .unwrap();
        assert_eq!(
            usual,
            Settings {
                file_bytes_max: i32::MAX as u64,
                ..Settings::default()
            }
        );
        let small = take(&format!(
            "{jffs2}[memory]\nsize = \"32 MiB\"\n[write-back]\ndeferred = true"
        ))
        .unwrap()
        .unwrap();
        assert_eq!(small.memory, (32 << 20) * 2 / 5);
        let keys = "[write-back]\ndeferred = true\nmerge = \"128 KiB\"\nthreshold = 7\nslice = \"5 ms\"\nflash-writeback = \"3 s\"\nmemory = 4096";
        let all = take(&format!("[fs]\ntype = \"ext2\"\n{keys}"))
            .unwrap()
            .unwrap();
        let expected = Settings {
            merge_bytes: 128 << 10,
            threshold: 7,
            slice: 5_000_000,
            interval: 3_000_000_000,
            memory: 4096,
            ..all
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "[write-back]\ndeferred = true",
                "write-back.deferred: found true, expected a file system (fs.type)",
            ),
            (
                "[fs]\ntype = \"jffs2\"\n[write-back]\nmerge = 4096",
                "write-back.merge: has no effect, it needs deferred = true",
            ),
            (
                "[fs]\ntype = \"jffs2\"\n[write-back]\ndeferred = true\nmerge = 5000",
                "found \"5000 B\", expected a multiple of 4 KiB up to the erase block of 131072",
            ),
            (
                "[fs]\ntype = \"jffs2\"\n[write-back]\ndeferred = true\nmerge = \"256 KiB\"",
                "write-back.merge: found",
            ),
            (
                "[fs]\ntype = \"jffs2\"\n[write-back]\ndeferred = true\nthreshold = 0",
                "write-back.threshold: found 0, expected at least 1",
            ),
            (
                "[fs]\ntype = \"jffs2\"\n[write-back]\ndeferred = true\nslice = \"0 s\"",
                "write-back.slice: found \"0 ns\", expected a time above 0",
            ),
        ];
        for (text, expected) in cases {
            let error = take(text)
                .err()
                .unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
