//! The one crate that knows every layer: a description in, a running stack out.
//!
//! *Promises.* A description is checked whole before anything is built: an unknown key, a wrong
//! type or an impossible value is an error that names file, line, column, key, what was found and
//! what was expected. Every setting in effect is listed, defaults included. What is built from one
//! description behaves alike for ever.
//!
//! *In terms of* `nand`, `ftl`, `mtd`, `block`, `vfs`, `fat`, `ext`, `f2fs`, `jffs2`, `ubi`, and
//! files of the operating system. *Knows nothing of* workloads, measurements, or how a description
//! is used.
//!
//! | module | its one idea |
//! |---|---|
//! | [`document`], [`section`] | TOML with places and overrides; keys taken one by one, the rest refused |
//! | [`value`], [`units`] | what a key may hold: numbers, sizes, times, choices |
//! | [`chip`], [`ftl`], [`mod@ubi`], [`fs`], [`nvram`], [`host`], [`page_cache`], [`mod@write_back`] | the sections that describe a stack |
//! | [`layer`], [`Registry`] | what other crates implement to take part |
//! | [`build`] | a description becomes a stack |
//! | `memory` | the non-volatile memory, with the time that it takes |
//! | [`dump`] | chips as `nanddump -o` and `nandwrite -o` exchange them |
//! | [`mod@file`] | files that hold an image or page data |

#![forbid(unsafe_code)]

mod beside;
pub mod build;
pub mod chip;
pub mod document;
pub mod dump;
mod error;
pub mod file;
pub mod fs;
pub mod ftl;
pub mod host;
pub mod layer;
mod memory;
pub mod nvram;
pub mod page_cache;
mod registry;
pub mod section;
mod setting;
mod suggest;
pub mod ubi;
pub mod units;
pub mod value;
pub mod write_back;

pub use build::{Below, BuildError, Direct, Driver, MountedStack, Stack};
pub use chip::ChipDescription;
pub use document::Document;
pub use error::{DescriptionError, Place};
pub use fs::{
    DiskFs, FsDescription, FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted,
    Parts, Region,
};
pub use ftl::{Format, FtlDescription};
pub use host::HostDescription;
pub use layer::{
    Device, DiskLayer, DiskScheme, Flash, FlashLayer, Processor, Scheme, SchemeInput, Translation,
};
pub use memory::Memory;
pub use nvram::NvramDescription;
pub use page_cache::MemoryDescription;
pub use registry::Registry;
pub use section::Section;
pub use setting::{Origin, Setting};
pub use ubi::{UbiDescription, UbiFlash};
pub use write_back::WriteBackDescription;

/// A whole stack, described and checked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The flash chip at the bottom.
    pub chip: ChipDescription,
    /// The translation layer on it.
    pub ftl: FtlDescription,
    /// The file system on top, if there is one.
    pub fs: Option<FsDescription>,
    /// The memory that survives power cuts, if there is one.
    pub nvram: Option<NvramDescription>,
    /// What the processor's work costs, if it costs anything.
    pub host: Option<HostDescription>,
    /// The machine's memory, if a policy governs its dirty data.
    pub memory: Option<MemoryDescription>,
    /// The deferred writes in front of the file system, if there are any.
    pub write_back: Option<WriteBackDescription>,
    /// Every setting in effect.
    pub settings: Vec<Setting>,
}

impl Description {
    /// Takes the sections of a stack out of `document`; what else it holds is the caller's
    /// business, who ends with [`Document::finish`].
    pub fn take(document: &mut Document) -> Result<Self, DescriptionError> {
        Self::take_with(document, &Registry::standard())
    }

    /// The same with layers and file systems of your own.
    pub fn take_with(
        document: &mut Document,
        registry: &Registry,
    ) -> Result<Self, DescriptionError> {
        let (chip, mut settings) = ChipDescription::take(document)?;
        // Whether there is a layer depends on the file system above it.
        document.know("ftl");
        let (fs, of_fs) = FsDescription::take(document, &registry.file_systems)?;
        let (ftl, more) = FtlDescription::take(document, &registry.schemes, &chip, fs.as_ref())?;
        settings.extend(more.into_iter().chain(of_fs));
        let (nvram, more) = NvramDescription::take(
            document,
            &chip,
            fs.as_ref().is_some_and(|fs| fs.layer.knows_nvram()),
        )?;
        settings.extend(more);
        let (host, more) = HostDescription::take(document)?;
        settings.extend(more);
        let (memory, more) = MemoryDescription::take(document, fs.is_some())?;
        settings.extend(more);
        let (write_back, more) =
            WriteBackDescription::take(document, &chip, fs.as_ref(), memory.as_ref())?;
        settings.extend(more);
        Ok(Self {
            chip,
            ftl,
            fs,
            nvram,
            host,
            memory,
            write_back,
            settings,
        })
    }
}
