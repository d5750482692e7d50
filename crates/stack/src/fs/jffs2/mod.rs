//! JFFS2 in `[fs]`.

mod paged;
mod worked;

pub use worked::Worked;

use super::{
    FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted, Recipe, Undivided, flash,
};
use crate::value::Size;
use crate::{DescriptionError, Section};
use nandlab_jffs2::{Choice, Compression, Format, Jffs2, Jffs2Volume, Options, PAGE};
use nandlab_pagecache::PageCache;
use paged::Paged;
use std::sync::Arc;

pub(super) struct Jffs2Kind;

impl FsKind for Jffs2Kind {
    fn names(&self) -> Vec<&'static str> {
        vec!["jffs2"]
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![KeyGroup {
            keys: &[
                "compression",
                "compressor",
                "summary",
                "sync-collects",
                "node-bytes",
            ],
            types: &["jffs2"],
            needs: "type = \"jffs2\"",
        }]
    }

    fn shared(&self) -> &'static [&'static str] {
        &["sync"]
    }

    fn take(
        &self,
        _: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError> {
        let jffs2 = Jffs2Description::take(section)?;
        Ok((Arc::new(jffs2), FsPlace::default()))
    }
}

/// The settings of JFFS2 in a description.
#[derive(Clone, Debug)]
pub struct Jffs2Description {
    /// How it is mounted.
    pub mount: Options,
    /// Bytes of a file that a node holds at most, and from a multiple of which on.
    pub node_bytes: u32,
    /// Bytes of clean pages kept in memory.
    pub cache_bytes: u64,
}

impl Jffs2Description {
    pub(super) fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let only = |lzo, zlib, rtime| Compression {
            choice: Choice::Priority,
            lzo,
            zlib,
            rtime,
        };
        let sets = [
            ("none", Compression::NONE),
            ("classic", Compression::CLASSIC),
            ("linux", Compression::LINUX),
            ("zlib", only(false, true, false)),
            ("lzo", only(true, false, false)),
            ("rtime", only(false, false, true)),
        ];
        let mut compression = section.choice("compression", &sets, Compression::default())?;
        if compression.choice == Choice::None {
            section.inapplicable(&["compressor"], "a compression (fs.compression)")?;
        } else {
            let choices = [
                ("priority", Choice::Priority),
                ("size", Choice::Size),
                ("favour-lzo", Choice::FavourLzo),
            ];
            compression.choice = section.choice("compressor", &choices, Choice::Priority)?;
        }
        let usual = Options::default();
        let mount = Options {
            compression,
            summary: section.or("summary", usual.summary)?,
            sync_collects: section.or("sync-collects", usual.sync_collects)?,
            sync: section.or("sync", usual.sync)?,
            ..usual
        };
        let fine = |Size(bytes): &Size| {
            bytes.is_power_of_two() && (u64::from(PAGE)..=1 << 20).contains(bytes)
        };
        let Size(node) = section.checked(
            "node-bytes",
            Size(PAGE.into()),
            fine,
            "a power of two from 4 KiB to 1 MiB",
        )?;
        // As with the other file systems' default: a small cache of their own.
        Ok(Self {
            mount,
            node_bytes: node as u32,
            cache_bytes: 1 << 20,
        })
    }
}

impl Jffs2Description {
    fn options(&self, seed: u64, on_volume: bool) -> Options {
        let medium = on_volume.then_some(nandlab_jffs2::Medium::Unmarked);
        Options {
            seed,
            node_bytes: self.node_bytes,
            medium: medium.or(self.mount.medium),
            ..self.mount
        }
    }
}

impl FsLayer for Jffs2Description {
    fn name(&self) -> &'static str {
        "jffs2"
    }

    fn is_on_flash(&self) -> bool {
        true
    }

    fn make(&self, medium: Medium<'_>, _: &Section) -> Result<(), FsError> {
        let mut mtd = flash(medium, self.name())?;
        let format = Format {
            medium: self.mount.medium,
            compression: self.mount.compression,
            summary: self.mount.summary,
            ..Format::default()
        };
        nandlab_jffs2::format(&mut mtd, &format).map_err(FsError::make)?;
        Ok(())
    }

    fn mount<'a>(&self, medium: Medium<'a>, machine: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let options = self.options(machine.seed, machine.on_volume);
        let mtd = flash(medium, self.name())?;
        let jffs2 = Jffs2::mount(mtd, options).map_err(FsError::mount)?;
        let worked = Worked::new(jffs2, machine.processor.clone());
        let clean = machine.memory.map(|memory| memory.clean_bytes());
        let cache = PageCache::new(worked, clean.unwrap_or(self.cache_bytes));
        let cache = match self.node_bytes {
            PAGE => cache.of_whole_pages(),
            _ => cache,
        };
        Ok(Mounted {
            fs: Box::new(Paged::new(cache, machine.processor)),
            parts: Arc::new(Undivided { sectors: 0 }),
        })
    }
    fn recipe(&self, seed: u64, on_volume: bool) -> Option<Recipe> {
        let options = self.options(seed, on_volume);
        Some(Recipe::Flash(Box::new(Jffs2Volume { options })))
    }
}
