//! Choices of JFFS2 in `[fs]`.

mod worked;

pub use worked::Worked;

use super::FsError;
use crate::value::Size;
use crate::{DescriptionError, HostDescription, Section};
use nandlab_jffs2::{Choice, Compression, Format, Jffs2, Jffs2Volume, Options, PAGE};
use nandlab_mtd::Mtd;
use nandlab_sim::Clock;

/// What only JFFS2 has.
pub(super) const KEYS: [&str; 5] = [
    "compression",
    "compressor",
    "summary",
    "sync-collects",
    "node-bytes",
];

/// JFFS2 as described.
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

    /// Makes it on a whole array.
    pub fn make(&self, mtd: &mut dyn Mtd) -> Result<(), FsError> {
        let Options {
            medium,
            compression,
            summary,
            ..
        } = self.mount;
        nandlab_jffs2::format(
            mtd,
            &Format {
                medium,
                compression,
                summary,
                ..Format::default()
            },
        )?;
        Ok(())
    }

    /// Mounts it.
    pub fn mount<M: Mtd>(
        &self,
        mtd: M,
        seed: u64,
        driven: Option<(HostDescription, Clock)>,
    ) -> Result<Worked<M>, FsError> {
        Ok(Worked::new(Jffs2::mount(mtd, self.options(seed))?, driven))
    }

    /// The file system as a recipe, without a processor or a page cache.
    pub fn recipe(&self, seed: u64) -> Jffs2Volume {
        Jffs2Volume {
            options: self.options(seed),
        }
    }

    fn options(&self, seed: u64) -> Options {
        Options {
            seed,
            node_bytes: self.node_bytes,
            ..self.mount
        }
    }
}
