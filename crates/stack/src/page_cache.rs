//! The `[memory]` section: the machine's memory, and when dirty data in it is written.
//!
//! The policy is Linux 2.6's ([`nandlab_pagecache::flusher`]), and so are the names of the limits.

use crate::value::{Size, Time};
use crate::{DescriptionError, Document, Setting};
use nandlab_pagecache::flusher::Limits;

/// What only a machine with a memory has.
const KEYS: [&str; 5] = [
    "page-cache",
    "dirty-background-ratio",
    "dirty-ratio",
    "dirty-expire",
    "dirty-writeback",
];
/// The least memory in bytes: Linux 2.6 on less is no machine.
const MIN: u64 = 1 << 20;

/// The memory as described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDescription {
    /// Its size and the limits of dirty data.
    pub limits: Limits,
}

impl MemoryDescription {
    /// Takes `[memory]` out of a document; none if file systems keep what they like and write it
    /// when they must.
    pub(crate) fn take(
        document: &mut Document,
        has_fs: bool,
    ) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("memory");
        let Some(Size(bytes)) = section.given("size")? else {
            section.inapplicable(&KEYS, "a memory (memory.size)")?;
            return Ok((None, section.finish()?));
        };
        if !has_fs {
            return Err(section.refuse(
                "size",
                &bytes.to_string(),
                "a file system (fs.type) that could use it",
            ));
        }
        if !(MIN..=1 << 50).contains(&bytes) {
            return Err(section.refuse("size", &bytes.to_string(), "at least 1 MiB"));
        }
        let usual = Limits::new(bytes);
        let fine = |percent: &u8| *percent <= 100;
        let mut percent = |key, usual| section.checked(key, usual, fine, "percent, 0 to 100");
        let page_cache_percent = percent("page-cache", usual.page_cache_percent)?;
        let background_percent = percent("dirty-background-ratio", usual.background_percent)?;
        let dirty_percent = percent("dirty-ratio", usual.dirty_percent)?;
        let Time(expire) = section.or("dirty-expire", Time(usual.expire))?;
        let Time(period) = section.or("dirty-writeback", Time(usual.period))?;
        let limits = Limits {
            memory: bytes,
            page_cache_percent,
            background_percent,
            dirty_percent,
            expire,
            period,
        };
        Ok((Some(Self { limits }), section.finish()?))
    }

    /// Bytes of the page cache.
    fn page_cache(&self) -> u64 {
        (u128::from(self.limits.memory) * u128::from(self.limits.page_cache_percent) / 100) as u64
    }

    /// Bytes that a file system may keep of clean data.
    pub fn clean_bytes(&self) -> u64 {
        self.page_cache().saturating_sub(self.limits.dirty())
    }

    /// Bytes of dirty data at which a file system writes by itself: all of the page cache, since
    /// the limits come before that.
    pub fn dirty_bytes_max(&self) -> u64 {
        self.page_cache().max(self.limits.dirty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;
    use std::path::Path;

    fn take(text: &str) -> Result<Description, String> {
        let text = format!("[chip]\npreset = \"slc-2k\"\n{text}");
        let mut document =
            Document::parse("e.toml", Path::new(""), &text, &[]).map_err(|e| e.to_string())?;
        Description::take(&mut document).map_err(|e| e.to_string())
    }

    #[test]
    fn a_memory_has_linuxs_limits_until_a_key_says_otherwise() {
        assert_eq!(take("[fs]\ntype = \"ext3\"").unwrap().memory, None);
        let usual = take("[fs]\ntype = \"ext3\"\n[memory]\nsize = \"256 MiB\"")
            .unwrap()
            .memory
            .unwrap();
        assert_eq!(usual.limits, Limits::new(256 << 20));
        let keys = "page-cache = 50\ndirty-background-ratio = 5\ndirty-ratio = 20\ndirty-expire = \"3 s\"\ndirty-writeback = \"1 s\"";
        let other = take(&format!(
            "[fs]\ntype = \"fat\"\n[memory]\nsize = \"100 MiB\"\n{keys}"
        ))
        .unwrap()
        .memory
        .unwrap()
        .limits;
        assert_eq!(
            (
                other.page_cache_percent,
                other.background_percent,
                other.dirty_percent
            ),
            (50, 5, 20)
        );
        assert_eq!((other.expire, other.period), (3_000_000_000, 1_000_000_000));
    }

    #[test]
    fn the_file_systems_cache_is_what_the_page_cache_leaves() {
        let memory = take("[fs]\ntype = \"ext2\"\n[memory]\nsize = \"100 MiB\"")
            .unwrap()
            .memory
            .unwrap();
        assert_eq!(memory.clean_bytes() >> 20, 40);
        assert_eq!(memory.dirty_bytes_max() >> 20, 80);
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "[memory]\nsize = \"1 GiB\"",
                "e.toml:4:8: memory.size: found 1073741824, expected a file system (fs.type)",
            ),
            (
                "[fs]\ntype = \"fat\"\n[memory]\nsize = 512",
                "memory.size: found 512, expected at least 1 MiB",
            ),
            (
                "[fs]\ntype = \"fat\"\n[memory]\ndirty-ratio = 10",
                "memory.dirty-ratio: has no effect, it needs a memory (memory.size)",
            ),
            (
                "[fs]\ntype = \"fat\"\n[memory]\nsize = \"1 GiB\"\ndirty-ratio = 101",
                "memory.dirty-ratio: found 101, expected percent, 0 to 100",
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
