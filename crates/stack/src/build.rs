//! A description becomes a stack: chip, contents, dump, translation layer, file system, in this
//! order.
//!
//! *Promises.* Here alone it is decided whether a file system lies on a disk or on flash
//! ([`Below`]).

use crate::dump::{self, DumpError, Loaded};
use crate::file::PageFile;
use crate::fs::{Machine, Medium, Mounted};
use crate::layer::{ChipFlash, Device, DiskLayer, Finish, FlashLayer, Processor};
use crate::{ChipDescription, Description, FsDescription, FsError, Memory, Translation};
use nandlab_block::{BlockDevice, BlockError};
use nandlab_ftl::AttachError;
use nandlab_ftl::write_cache::{CacheError, WriteCache};
use nandlab_mtd::{Layer, LayerError, Mtd, MtdError};
use nandlab_nand::{Chip, ChipSpec, Contents, SpecError};
use nandlab_sim::{Chain, Clock, MediumFault, Rail};
use nandlab_ubi::UbiError;
use std::error::Error;
use std::io;
use std::path::PathBuf;

/// What lies below a file system.
pub enum Below {
    /// A disk: a translation layer on a chip.
    Disk(Box<dyn Device>),
    /// Flash: the chip itself.
    Flash(Box<Chip>),
}

/// A stack ready for use.
pub struct Stack {
    /// The virtual time of the stack.
    pub clock: Clock,
    /// The power supply of the chip.
    pub rail: Rail,
    /// What lies below the file system.
    pub below: Below,
    /// The memory beside the chip, if the file system has one.
    pub nvram: Option<Memory>,
    /// What the dump held that the chip began with. `None` if there was no dump.
    pub loaded: Option<Loaded>,
    description: Description,
}

/// What stands between a file system and the medium below it: a driver that takes the processor's
/// time, or nothing ([`Direct`]).
pub trait Driver<'a> {
    /// The disk as the file system is to see it.
    fn disk(&mut self, device: &'a mut dyn Device) -> Box<dyn BlockDevice + 'a>;

    /// The chip as the layer above is to see it.
    fn flash(&mut self, chip: &'a mut Chip) -> Box<dyn ChipFlash + 'a>;

    /// The processor whose time the file system and UBI take.
    fn processor(&self) -> Option<Processor> {
        None
    }
}

/// No driver: calls take the medium's time alone.
pub struct Direct;

impl<'a> Driver<'a> for Direct {
    fn disk(&mut self, device: &'a mut dyn Device) -> Box<dyn BlockDevice + 'a> {
        Box::new(device)
    }

    fn flash(&mut self, chip: &'a mut Chip) -> Box<dyn ChipFlash + 'a> {
        Box::new(chip)
    }
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
        /// The available memory in MiB.
        available: u64,
    },
    /// The file for page data cannot be had.
    #[error("chip.contents-file: {}: {source}", path.display())]
    Contents {
        /// The file of the chip's contents.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A dump cannot be loaded or saved.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// A disk is needed, and there is none.
    #[error("ftl.scheme: found \"none\", expected a translation layer, since a disk is asked for")]
    Bare,
    /// The layer offers no flash.
    #[error("ftl.scheme: found \"{0}\", expected a layer that offers flash")]
    NoFlash(&'static str),
    /// The layer cannot be formatted on this chip.
    #[error("ftl: {0}")]
    Format(#[source] LayerError),
    /// The chip's user OOB bytes do not suffice.
    #[error(
        "chip.oob: found {found} user bytes, expected at least {expected} for ftl.scheme = \"{scheme}\""
    )]
    Oob {
        /// Bytes of OOB area that a page has.
        found: usize,
        /// Bytes of OOB area that the layer needs.
        expected: usize,
        /// The name of the layer.
        scheme: &'static str,
    },
    /// What is on the chip cannot be attached.
    #[error("ftl: {0}; ftl.format = true would erase what is on the chip")]
    Attach(#[source] LayerError),
    /// The write cache does not fit.
    #[error("nvram: {0}")]
    Cache(#[from] CacheError),
    /// UBI cannot be had.
    #[error("ubi: {0}")]
    Ubi(#[from] UbiError),
    /// The device has no such volume.
    #[error("ubi.volume: found volumes {found}, expected one that is called \"{expected}\"")]
    NoVolume {
        /// The volume name that was asked for.
        expected: String,
        /// Those that there are.
        found: String,
    },
    /// The file system cannot be made or mounted.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The layer could not write what it needs at the end.
    #[error("detaching the translation layer: {0}")]
    Detach(#[source] BlockError),
}

impl BuildError {
    /// Whether the description is to blame rather than the medium.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Detach(_) => false,
            Self::Format(error) | Self::Attach(error) => !is_medium_failure(&**error),
            Self::Fs(error) => !is_medium_failure(error),
            Self::Ubi(error) => !is_medium_failure(error),
            _ => true,
        }
    }
}

/// Whether an error or one of its sources is a failure of a disk or of flash.
fn is_medium_failure(error: &(dyn Error + 'static)) -> bool {
    Chain(error).links().any(|link| {
        let (block, mtd) = medium_errors(link);
        let asked = |error| matches!(error, MtdError::BadLength { .. } | MtdError::OutOfRange(_));
        link.is::<MediumFault>() || block.is_some() || mtd.is_some_and(|error| !asked(error))
    })
}

/// The errors of disk or flash that a link is or holds.
fn medium_errors(link: &(dyn Error + 'static)) -> (Option<BlockError>, Option<MtdError>) {
    let block = link.downcast_ref::<BlockError>().copied();
    let mtd = link.downcast_ref::<MtdError>().copied();
    // These print as the error that they hold, and are no links of their own.
    let (block, mtd) = match link.downcast_ref::<AttachError>() {
        Some(AttachError::Write(error)) => (Some(*error), mtd),
        Some(AttachError::Mtd(error)) => (block, Some(*error)),
        _ => (block, mtd),
    };
    let mtd = match link.downcast_ref::<UbiError>() {
        Some(UbiError::Mtd(error)) => Some(*error),
        _ => mtd,
    };
    (block, mtd)
}

impl Stack {
    /// Builds what `description` says: formatted, or attached where a dump was loaded.
    pub fn build(description: &Description) -> Result<Self, BuildError> {
        let clock = Clock::new();
        let rail = Rail::new();
        let (chip, loaded) = powered_chip(description, &clock, &rail)?;
        let (below, nvram) = if is_on_flash(description) {
            (Below::Flash(Box::new(chip)), None)
        } else {
            let device = disk(description, chip, loaded)?;
            let (device, nvram) = with_nvram(description, device, &clock, &rail)?;
            (Below::Disk(device), nvram)
        };
        let description = description.clone();
        Ok(Self {
            clock,
            rail,
            below,
            nvram,
            loaded,
            description,
        })
    }

    /// Attaches the described layer to a chip that holds it, such as one that a power cut left. The
    /// stack runs on the chip's clock and supply; `[chip]` and `[host]` play no part. A memory
    /// beside the chip begins empty.
    pub fn attach(description: &Description, chip: Chip) -> Result<Self, BuildError> {
        let clock = chip.clock().clone();
        let rail = chip.rail().clone();
        let (below, nvram) = if is_on_flash(description) {
            (Below::Flash(Box::new(chip)), None)
        } else {
            let device = attach_on(&description.ftl.layer, chip)?;
            let (device, nvram) = with_nvram(description, device, &clock, &rail)?;
            (Below::Disk(device), nvram)
        };
        Ok(Self {
            clock,
            rail,
            below,
            nvram,
            loaded: None,
            description: description.clone(),
        })
    }

    /// The disk. Fails if the stack has none.
    pub fn disk(&mut self) -> Result<&mut dyn Device, BuildError> {
        match &mut self.below {
            Below::Disk(device) => Ok(&mut **device),
            Below::Flash(_) => Err(BuildError::Bare),
        }
    }

    /// Returns the chip at the bottom of the stack.
    pub fn chip(&self) -> &Chip {
        match &self.below {
            Below::Disk(device) => device.medium(),
            Below::Flash(chip) => chip,
        }
    }

    /// Bytes of a sector; on flash, of a page.
    pub fn sector(&self) -> u64 {
        match &self.below {
            Below::Disk(device) => device.geometry().sector.into(),
            Below::Flash(chip) => chip.geometry().page.into(),
        }
    }

    /// Whether the stack is new, so that a file system has to be made on it.
    pub fn is_new(&self) -> bool {
        self.description.ftl.format.applies(self.loaded)
    }

    fn fs(&self) -> Result<FsDescription, BuildError> {
        Ok(self.description.fs.clone().ok_or(FsError::None)?)
    }

    /// Makes the described file system.
    pub fn make_fs(&mut self) -> Result<(), BuildError> {
        let fs = self.fs()?;
        match &mut self.below {
            Below::Disk(device) => Ok(fs.make(Medium::Disk(Box::new(&mut fs.partition(device)?)))?),
            Below::Flash(chip) => {
                let layer = flash_layer(&self.description.ftl.layer)?;
                layer.format(&mut *chip)?;
                if layer.is_volume() && !fs.layer.formats_volumes() {
                    return Ok(());
                }
                let flash = layer.attach(Box::new(&mut **chip), None)?;
                fs.make(Medium::Flash(flash.mtd))?;
                (flash.finish)()
            }
        }
    }

    /// Mounts the described file system behind `driver`. The seed is for choices that Linux leaves
    /// to its clock.
    pub fn mount<'a>(
        &'a mut self,
        seed: u64,
        driver: &mut dyn Driver<'a>,
    ) -> Result<MountedStack<'a>, BuildError> {
        let fs = self.fs()?;
        let mut machine = Machine {
            seed,
            processor: driver.processor(),
            memory: self.description.memory,
            nvram: None,
            on_volume: false,
        };
        match &mut self.below {
            Below::Disk(device) => {
                let nvram = self.nvram.as_mut();
                machine.nvram = nvram.map(|nvram| Box::new(nvram) as Box<dyn BlockDevice>);
                let disk = Box::new(fs.partition(driver.disk(&mut **device))?);
                let mounted = fs.mount(Medium::Disk(disk), machine)?;
                let finish: Finish<'a> = Box::new(|| Ok(()));
                Ok(MountedStack { mounted, finish })
            }
            Below::Flash(chip) => {
                let layer = flash_layer(&self.description.ftl.layer)?;
                let flash = layer.attach(driver.flash(chip), machine.processor.as_ref())?;
                machine.on_volume = layer.is_volume();
                let mounted = fs.mount(Medium::Flash(flash.mtd), machine)?;
                let finish = flash.finish;
                Ok(MountedStack { mounted, finish })
            }
        }
    }

    /// Puts the stack away: the translation layer is detached and the chip saved, if the
    /// description says where. Gives the chip.
    pub fn close(self) -> Result<Chip, BuildError> {
        let chip = &self.description.chip;
        let Some(path) = &chip.save else {
            return Ok(self.into_chip());
        };
        let mut saved = match self.below {
            Below::Disk(mut device) => {
                device.detach().map_err(BuildError::Detach)?;
                device.into_medium()
            }
            Below::Flash(chip) => *chip,
        };
        dump::save(path, chip.dump, &mut saved)?;
        Ok(saved)
    }

    /// Gives the chip back as it is, without another operation, as a power cut would.
    pub fn into_chip(self) -> Chip {
        match self.below {
            Below::Disk(device) => device.into_medium(),
            Below::Flash(chip) => *chip,
        }
    }
}

/// Whether the stack has no disk: its file system, or nothing, lies on flash.
fn is_on_flash(description: &Description) -> bool {
    let fs = description.fs.as_ref();
    fs.is_some_and(FsDescription::is_on_flash) || description.ftl.layer.disk.is_none()
}

/// A mounted file system on a stack.
pub struct MountedStack<'a> {
    /// The file system and its parts.
    pub mounted: Mounted<'a>,
    /// Completes the pending work of the layer below, after the unmount.
    pub finish: Finish<'a>,
}

fn flash_layer(layer: &Translation) -> Result<&dyn FlashLayer, BuildError> {
    layer
        .flash
        .as_deref()
        .ok_or(BuildError::NoFlash(layer.name))
}

/// The described translation layer on its chip.
fn disk(
    description: &Description,
    chip: Chip,
    loaded: Option<Loaded>,
) -> Result<Box<dyn Device>, BuildError> {
    let layer = &description.ftl.layer;
    if description.ftl.format.applies(loaded) {
        format_on(layer, chip)
    } else {
        attach_on(layer, chip)
    }
}

/// The described chip with the times that the processor sees, and what its dump held.
fn powered_chip(
    description: &Description,
    clock: &Clock,
    rail: &Rail,
) -> Result<(Chip, Option<Loaded>), BuildError> {
    let mut chip = new_chip(&driven(description))?;
    let mut loaded = None;
    if let Some(path) = &description.chip.load {
        // What the dump holds was there before the run.
        loaded = Some(dump::load(path, description.chip.dump, &mut chip)?);
        chip = chip.as_found();
    }
    Ok((chip.on_clock(clock).on_rail(rail), loaded))
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
        PageFile::create(path, g.page, g.pages()).map_err(|source| BuildError::Contents {
            path: path.clone(),
            source,
        })?;
    Ok(Chip::with_store(description.spec.clone(), Box::new(store))?)
}

/// Formats a layer on a chip.
fn format_on(layer: &Translation, chip: Chip) -> Result<Box<dyn Device>, BuildError> {
    let disk = disk_layer(layer)?;
    disk.format(chip)
        .map_err(|error| refused(layer, error).unwrap_or_else(BuildError::Format))
}

/// Attaches the layer that is on a chip.
fn attach_on(layer: &Translation, chip: Chip) -> Result<Box<dyn Device>, BuildError> {
    let disk = disk_layer(layer)?;
    disk.attach(chip)
        .map_err(|error| refused(layer, error).unwrap_or_else(BuildError::Attach))
}

/// The layer that a description chose, for the crash explorer.
impl Layer<Chip> for Translation {
    type Device = Box<dyn Device>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(format_on(self, chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(attach_on(self, chip)?)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_medium()
    }
}

fn disk_layer(layer: &Translation) -> Result<&dyn DiskLayer, BuildError> {
    layer.disk.as_deref().ok_or(BuildError::Bare)
}

/// An error that says by itself what to change. Any other comes back.
fn refused(layer: &Translation, error: LayerError) -> Result<BuildError, LayerError> {
    let error = match error.downcast::<BuildError>() {
        Ok(error) => return Ok(*error),
        Err(error) => error,
    };
    match error.downcast_ref::<AttachError>() {
        Some(AttachError::Mtd(MtdError::BadLength { found, expected })) => Ok(BuildError::Oob {
            found: *expected,
            expected: *found,
            scheme: layer.name,
        }),
        _ => Err(error),
    }
}

/// Refuses a chip whose tables would not fit; page data comes on top, as it is written.
fn check_memory(spec: &ChipSpec) -> Result<(), BuildError> {
    let pages = u64::from(spec.geometry.pages());
    let blocks = u64::from(spec.geometry.blocks);
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
        stack.disk().unwrap().write(Lba(40), &[0x77; 4096]).unwrap();
        let written = stack.close().unwrap().counts();
        assert!(written.programs > 0);
        for more in [
            "load = \"dump\"",
            "load = \"dump\"\ncontents = \"file\"\ncontents-file = \"pages\"",
            "load = \"dump\"\n[ftl]\nformat = false",
        ] {
            let mut stack = Stack::build(&description(&small(more), directory.path())).unwrap();
            let found = stack.chip().counts();
            let now = stack.clock.now();
            assert_eq!((found.programs, found.copies), (0, 0), "{more}");
            assert!(now < 100_000_000, "{more}: {now} ns for an attach");
            let mut buf = [0; 4096];
            stack.disk().unwrap().read(Lba(40), &mut buf).unwrap();
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
        stack.disk().unwrap().read(Lba(40), &mut buf).unwrap();
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
                    .disk()
                    .unwrap()
                    .write(Lba(i * 37 % 500), &[i as u8; 512])
                    .unwrap()
            });
            (stack.clock.now(), stack.close().unwrap().counts())
        };
        assert_eq!(run(), run());
    }
}
