//! A description becomes a stack: chip, contents, dump, translation layer, in this order.

use crate::dump::{self, DumpError, Loaded};
use crate::file::PageFile;
use crate::ubi::UbiDisk;
use crate::{ChipDescription, Description, FsDescription, FsError, Memory, Scheme};
use nandlab_block::BlockError;
use nandlab_ftl::logblock::LogBlockFtl;
use nandlab_ftl::mtdblock::MtdBlock;
use nandlab_ftl::nftl::Nftl;
use nandlab_ftl::page::PageFtl;
use nandlab_ftl::write_cache::{CacheError, WriteCache};
use nandlab_ftl::{AttachError, Ftl};
use nandlab_mtd::{Layer, LayerError, MtdError};
use nandlab_nand::{Chip, ChipSpec, Contents, SpecError};
use nandlab_sim::{Clock, Rail};
use nandlab_ubi::UbiError;
use std::io;
use std::path::PathBuf;

/// A translation layer on a chip, of whatever scheme.
pub trait Device: Ftl<Medium = Chip> + Send {
    /// Gives the chip back, without any further write.
    fn into_chip(self: Box<Self>) -> Chip;
}

macro_rules! devices {
    ($($layer:ident),*) => {$(
        impl Device for $layer<Chip> {
            fn into_chip(self: Box<Self>) -> Chip {
                self.into_medium()
            }
        }
    )*};
}
devices!(PageFtl, LogBlockFtl, Nftl, MtdBlock);

/// The memory's contents go with it: [`Ftl::detach`] first.
impl Device for WriteCache<Box<dyn Device>, Memory> {
    fn into_chip(self: Box<Self>) -> Chip {
        self.into_parts().0.into_chip()
    }
}

/// A stack ready for use.
pub struct Stack {
    /// Its virtual time.
    pub clock: Clock,
    /// Its supply.
    pub rail: Rail,
    /// The disk on top.
    pub device: Box<dyn Device>,
    /// The memory that survives power cuts, if the file system has one.
    pub nvram: Option<Memory>,
    /// What the dump held that the chip began with; none if there was no dump.
    pub loaded: Option<Loaded>,
    description: ChipDescription,
}

/// A chip ready for a file system that needs no translation layer.
pub struct BareFlash {
    /// Its virtual time.
    pub clock: Clock,
    /// Its supply.
    pub rail: Rail,
    /// The chip.
    pub chip: Chip,
    /// What the dump held that the chip began with; none if there was no dump.
    pub loaded: Option<Loaded>,
    description: ChipDescription,
}

/// A stack that cannot be built, or not be put away.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The chip is impossible.
    #[error("chip: {0}")]
    Chip(#[from] SpecError),
    /// The chip's tables do not fit into memory.
    #[error(
        "chip of {pages} pages: its tables need about {needed} MiB of memory, {available} MiB are available"
    )]
    Memory {
        /// Pages of the chip.
        pages: u32,
        /// MiB needed, without page data.
        needed: u64,
        /// MiB there are.
        available: u64,
    },
    /// The file for page data cannot be had.
    #[error("chip.contents-file: {}: {error}", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A dump cannot be loaded or saved.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// A disk is needed, and there is none.
    #[error("ftl.scheme: found \"none\", expected a translation layer, since a disk is asked for")]
    Bare,
    /// The layer cannot be formatted on this chip.
    #[error("ftl: {0}")]
    Format(AttachError),
    /// The chip's user OOB bytes do not suffice.
    #[error(
        "chip.oob: found {found} user bytes, expected at least {expected} for ftl.scheme = \"{scheme}\""
    )]
    Oob {
        /// Bytes there are.
        found: usize,
        /// Bytes needed.
        expected: usize,
        /// By whom.
        scheme: &'static str,
    },
    /// What is on the chip cannot be attached.
    #[error("ftl: {error}; ftl.format = true would erase what is on the chip")]
    Attach {
        /// Why not.
        error: AttachError,
    },
    /// The write cache does not fit.
    #[error("nvram: {0}")]
    Cache(#[from] CacheError),
    /// UBI cannot be had.
    #[error("ubi: {0}")]
    Ubi(#[from] UbiError),
    /// The device has no such volume.
    #[error("ubi.volume: found volumes {found}, expected one that is called \"{expected}\"")]
    NoVolume {
        /// The name.
        expected: String,
        /// Those that there are.
        found: String,
    },
    /// The file system that lies on flash could not be made.
    #[error(transparent)]
    Fs(#[from] Box<FsError>),
    /// The layer could not write what it needs at the end.
    #[error("detaching the translation layer: {0}")]
    Detach(BlockError),
}

impl Stack {
    /// Builds what `description` says: formatted, or attached where a dump was loaded.
    pub fn build(description: &Description) -> Result<Self, BuildError> {
        let (clock, rail) = (Clock::new(), Rail::new());
        let (chip, loaded) = powered_chip(description, &clock, &rail)?;
        let device = if description.ftl.format.applies(loaded) {
            format_on(&description.ftl.scheme, chip)?
        } else {
            attach_on(&description.ftl.scheme, chip)?
        };
        let (device, nvram) = with_nvram(description, device, &clock, &rail)?;
        Ok(Self {
            clock,
            rail,
            device,
            nvram,
            loaded,
            description: description.chip.clone(),
        })
    }

    /// Whether the translation layer is new, and so the disk empty.
    pub fn was_formatted(&self, description: &Description) -> bool {
        description.ftl.format.applies(self.loaded)
    }

    /// Puts the stack away: the translation layer is detached and the chip saved, if the
    /// description says where. Gives the chip.
    pub fn close(self) -> Result<Chip, BuildError> {
        let Self {
            mut device,
            description,
            ..
        } = self;
        let Some(path) = &description.save else {
            return Ok(device.into_chip());
        };
        device.detach().map_err(BuildError::Detach)?;
        let mut chip = device.into_chip();
        dump::save(path, description.dump, &mut chip)?;
        Ok(chip)
    }
}

impl BareFlash {
    /// Builds the chip of `description`: as it comes from the factory, or as the dump has it.
    pub fn build(description: &Description) -> Result<Self, BuildError> {
        let (clock, rail) = (Clock::new(), Rail::new());
        let (chip, loaded) = powered_chip(description, &clock, &rail)?;
        Ok(Self {
            clock,
            rail,
            chip,
            loaded,
            description: description.chip.clone(),
        })
    }

    /// Whether what is on it is to be replaced by a new file system.
    pub fn is_to_be_formatted(&self, description: &Description) -> bool {
        description.ftl.format.applies(self.loaded)
    }

    /// Makes the file system, on the chip or on a volume of UBI's: a new one reads as erased, and
    /// nothing can come back in it, so that for JFFS2 it is an empty file system.
    pub fn make(
        &mut self,
        description: &Description,
        fs: &FsDescription,
    ) -> Result<(), BuildError> {
        match &description.ftl.scheme {
            Scheme::Ubi(described) => Ok(described.format(&mut self.chip)?.settle()?),
            _ => Ok(fs.make_on_flash(&mut self.chip).map_err(Box::new)?),
        }
    }

    /// Puts it away: it is saved, if the description says where. Gives the chip.
    pub fn close(self) -> Result<Chip, BuildError> {
        let Self {
            mut chip,
            description,
            ..
        } = self;
        if let Some(path) = &description.save {
            dump::save(path, description.dump, &mut chip)?;
        }
        Ok(chip)
    }
}

/// The described chip with the times that the processor sees, and what its dump held.
fn powered_chip(
    description: &Description,
    clock: &Clock,
    rail: &Rail,
) -> Result<(Chip, Option<Loaded>), BuildError> {
    let mut chip = new_chip(&driven(description))?
        .on_clock(clock)
        .on_rail(rail);
    let loaded = match &description.chip.load {
        Some(path) => Some(dump::load(path, description.chip.dump, &mut chip)?),
        None => None,
    };
    Ok((chip, loaded))
}

/// The memory goes to the file system, or into the translation layer.
fn with_nvram(
    description: &Description,
    device: Box<dyn Device>,
    clock: &Clock,
    rail: &Rail,
) -> Result<(Box<dyn Device>, Option<Memory>), BuildError> {
    let Some(nvram) = &description.nvram else {
        return Ok((device, None));
    };
    let memory = Memory::new(nvram, description.host.as_ref(), clock, rail);
    match nvram.cache() {
        None => Ok((device, Some(memory))),
        Some(options) => Ok((Box::new(WriteCache::attach(device, memory, options)?), None)),
    }
}

/// The chip with the times that the processor sees.
fn driven(description: &Description) -> ChipDescription {
    let mut chip = description.chip.clone();
    if let Some(host) = &description.host {
        chip.spec.timing = host.driven(&chip.spec.timing);
    }
    chip
}

/// The chip, fresh from the factory.
pub fn new_chip(description: &ChipDescription) -> Result<Chip, BuildError> {
    description.spec.check()?;
    check_memory(&description.spec)?;
    let Some(path) = &description.contents_file else {
        return Ok(Chip::new(description.spec.clone())?);
    };
    let g = &description.spec.geometry;
    let store =
        PageFile::create(path, g.page, g.pages()).map_err(|error| BuildError::Contents {
            path: path.clone(),
            error,
        })?;
    Ok(Chip::with_store(description.spec.clone(), Box::new(store))?)
}

/// Formats a layer on a chip.
fn format_on(scheme: &Scheme, chip: Chip) -> Result<Box<dyn Device>, BuildError> {
    let built: Result<Box<dyn Device>, AttachError> = match scheme {
        Scheme::Ubi(described) => return UbiDisk::format(described, chip).map(boxed),
        Scheme::Page(options) => PageFtl::format(chip, options.clone()).map(boxed),
        Scheme::LogBlock(options) => LogBlockFtl::format(chip, options.clone()).map(boxed),
        Scheme::Nftl(options) => Nftl::format(chip, options.clone()).map(boxed),
        Scheme::Mtdblock => MtdBlock::format(chip).map(boxed),
        Scheme::Bare => return Err(BuildError::Bare),
    };
    built.map_err(|error| refused(scheme, error).unwrap_or_else(BuildError::Format))
}

/// Attaches the layer that is on a chip.
fn attach_on(scheme: &Scheme, chip: Chip) -> Result<Box<dyn Device>, BuildError> {
    let built: Result<Box<dyn Device>, AttachError> = match scheme {
        Scheme::Ubi(described) => return UbiDisk::attach(described, chip).map(boxed),
        Scheme::Page(options) => PageFtl::attach(chip, options.clone()).map(boxed),
        Scheme::LogBlock(options) => LogBlockFtl::attach(chip, options.clone()).map(boxed),
        Scheme::Nftl(options) => Nftl::attach(chip, options.clone()).map(boxed),
        Scheme::Mtdblock => MtdBlock::attach(chip).map(boxed),
        Scheme::Bare => return Err(BuildError::Bare),
    };
    built.map_err(|error| {
        refused(scheme, error).unwrap_or_else(|error| BuildError::Attach { error })
    })
}

impl Layer<Chip> for Scheme {
    type Device = Box<dyn Device>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(format_on(self, chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(attach_on(self, chip)?)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_chip()
    }
}

fn boxed<D: Device + 'static>(layer: D) -> Box<dyn Device> {
    Box::new(layer)
}

/// A refusal that a setting of the chip is to blame for; any other comes back.
fn refused(scheme: &Scheme, error: AttachError) -> Result<BuildError, AttachError> {
    match error {
        AttachError::Mtd(MtdError::BadLength { found, expected }) => Ok(BuildError::Oob {
            found: expected,
            expected: found,
            scheme: scheme.name(),
        }),
        error => Err(error),
    }
}

/// Refuses a chip whose tables would not fit; page data comes on top, as it is written.
fn check_memory(spec: &ChipSpec) -> Result<(), BuildError> {
    let (pages, blocks) = (
        u64::from(spec.geometry.pages()),
        u64::from(spec.geometry.blocks),
    );
    // A page: OOB tag 7, map 4, slot 4 where data is kept, partial programs 1, two bits; a block:
    // about 120.
    let slot = if spec.contents == Contents::Kept {
        4
    } else {
        0
    };
    let needed = (pages * (13 + slot) + blocks * 120) >> 20;
    match available_memory() {
        Some(available) if needed > available => Err(BuildError::Memory {
            pages: spec.geometry.pages(),
            needed,
            available,
        }),
        _ => Ok(()),
    }
}

/// MiB of memory that the system could give; none where it does not say.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;
    use nandlab_block::Lba;
    use std::path::Path;

    fn description(text: &str, directory: &Path) -> Description {
        Description::take(&mut Document::parse("e.toml", directory, text, &[]).unwrap()).unwrap()
    }

    fn small(more: &str) -> String {
        format!(
            "[chip]\npreset = \"slc-2k\"\nblocks = 256\npages-per-block = 16\noob-layout = \"marker-only\"\n{more}"
        )
    }

    #[test]
    fn what_was_written_survives_a_dump_and_an_attach() {
        let directory = tempfile::tempdir().unwrap();
        let mut stack =
            Stack::build(&description(&small("save = \"dump\""), directory.path())).unwrap();
        stack.device.write(Lba(40), &[0x77; 4096]).unwrap();
        let written = stack.close().unwrap().counts();
        assert!(written.programs > 0);
        for more in [
            "load = \"dump\"",
            "load = \"dump\"\ncontents = \"file\"\ncontents-file = \"pages\"",
            "load = \"dump\"\n[ftl]\nformat = false",
        ] {
            let mut stack = Stack::build(&description(&small(more), directory.path())).unwrap();
            let mut buf = [0; 4096];
            stack.device.read(Lba(40), &mut buf).unwrap();
            assert_eq!(
                (buf, stack.loaded.unwrap().bad),
                ([0x77; 4096], 0),
                "{more}"
            );
        }
        let mut stack = Stack::build(&description(
            &small("load = \"dump\"\n[ftl]\nformat = true"),
            directory.path(),
        ))
        .unwrap();
        let mut buf = [1; 4096];
        stack.device.read(Lba(40), &mut buf).unwrap();
        assert_eq!(buf, [0; 4096]);
    }

    #[test]
    fn data_of_someone_else_is_never_erased_unasked() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = 2112 * 16 * 256;
        let mut dump = vec![0xFF; bytes];
        dump[5] = 0;
        std::fs::write(directory.path().join("dump"), &dump).unwrap();
        let build = |more: &str| {
            Stack::build(&description(&small(more), directory.path()))
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        let foreign = "ftl: no header of this translation layer found on the medium; ftl.format = true would erase what is on the chip";
        assert_eq!(build("load = \"dump\""), Err(foreign.into()));
        assert_eq!(build("load = \"dump\"\n[ftl]\nformat = true"), Ok(()));
        std::fs::write(directory.path().join("dump"), vec![0xFF; bytes]).unwrap();
        assert_eq!(build("load = \"dump\""), Ok(()));
        assert_eq!(
            build("load = \"dump\"\n[ftl]\nformat = false"),
            Err(foreign.into())
        );
    }

    #[test]
    fn a_stack_that_cannot_be_is_refused_in_words() {
        let build = |text: &str| {
            Stack::build(&description(text, Path::new("/nonexistent")))
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        let oob =
            build("[chip]\npreset = \"small-block-64MiB\"\noob-layout = \"linux-small-page\"\n");
        assert_eq!(
            oob,
            "chip.oob: found 8 user bytes, expected at least 15 for ftl.scheme = \"page\""
        );
        assert!(
            build("[chip]\npreset = \"slc-2k\"\nblocks = 2\n")
                .contains("ftl: 2 erase blocks cannot hold")
        );
        assert!(build(&small("load = \"dump\"")).starts_with("/nonexistent/dump: No such file"));
        assert!(
            build(&small("contents = \"file\"\ncontents-file = \"x\""))
                .starts_with("chip.contents-file: /nonexistent/x: No such file")
        );
    }

    #[test]
    fn one_description_builds_two_stacks_that_behave_alike() {
        let run = || {
            let text = small("factory-bad = 0.01\nprogram-fail = 1e-3\n");
            let mut stack = Stack::build(&description(&text, Path::new(""))).unwrap();
            (0..3000u64).for_each(|i| {
                stack
                    .device
                    .write(Lba(i * 37 % 500), &[i as u8; 512])
                    .unwrap()
            });
            (stack.clock.now(), stack.close().unwrap().counts())
        };
        assert_eq!(run(), run());
    }
}
