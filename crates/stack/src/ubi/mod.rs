//! The `[ubi]` section: UBI on the chip, and the volume that the rest of the stack stands on.
//!
//! *Promises.* What is formatted has one volume; what is attached must have the volume that is
//! named. An attach takes the chip's time and, if there is a processor, the processor's. UBI's
//! thread is given a step of its work after each write and each erase, so that what it does takes
//! time, and can be cut, like everything else.

mod disk;
mod flash;

pub use disk::UbiDisk;
pub use flash::UbiFlash;

use crate::layer::{ChipFlash, Flash, FlashLayer, Processor};
use crate::value::{Size, quote};
use crate::{
    BuildError, ChipDescription, DescriptionError, Document, Scheme, SchemeInput, Setting,
    Translation,
};
use nandlab_mtd::{Layer, LayerError, Mtd};
use nandlab_nand::{Chip, Contents};
use nandlab_ubi::{
    Commit, Headers, LogOptions, Memory, Options, Shape, Superblock, Ubi, VolumeSpec,
};
use std::sync::Arc;

/// Every key but the first.
const KEYS: [&str; 15] = [
    "log-blocks",
    "compressed",
    "incremental",
    "chained",
    "headers",
    "vid-header-offset",
    "wear-threshold",
    "bad-per-1024",
    "scrub-bits",
    "trust-free",
    "image-seq",
    "volume",
    "volume-size",
    "background",
    "attach",
];
/// What only UBIL has.
const LOG_KEYS: [&str; 5] = [
    "log-blocks",
    "compressed",
    "incremental",
    "chained",
    "headers",
];

/// The settings of UBI in a description.
#[derive(Clone, Debug, PartialEq)]
pub struct UbiDescription {
    /// How the device is attached and run.
    pub options: Options,
    /// The name of the volume that is used.
    pub volume: String,
    /// Logical blocks that it is made with; none: all that are available.
    pub lebs: Option<u32>,
    /// Whether the thread works; otherwise blocks are erased when one is needed.
    pub background: bool,
}

/// UBI in `[ftl]`; its choices are in a section of their own.
pub(crate) struct UbiScheme;

impl Scheme for UbiScheme {
    fn name(&self) -> &'static str {
        "ubi"
    }

    fn is_flash(&self) -> bool {
        true
    }

    fn take(&self, input: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        let (described, settings) = UbiDescription::take(input.document, input.chip)?;
        input.settings.extend(settings);
        let described = Arc::new(described);
        Ok(Translation {
            name: self.name(),
            disk: Some(described.clone()),
            flash: Some(described),
            needs_contents: true,
            checks_erases: false,
            queues_flushes: false,
        })
    }

    fn refuse(&self, document: &mut Document) -> Result<(), DescriptionError> {
        let mut section = document.section("ubi");
        section.inapplicable(&KEYS, "ftl.scheme = \"ubi\"")?;
        section.finish()?;
        Ok(())
    }
}

impl Layer<Chip> for UbiDescription {
    type Device = UbiDisk;

    fn format(&self, chip: Chip) -> Result<UbiDisk, LayerError> {
        Ok(UbiDisk::format(self, chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<UbiDisk, LayerError> {
        Ok(UbiDisk::attach(self, chip)?)
    }

    fn power_off(&self, device: UbiDisk) -> Chip {
        device.into_chip()
    }
}

impl FlashLayer for UbiDescription {
    fn format(&self, chip: &mut Chip) -> Result<(), BuildError> {
        Ok(self.make(boxed(chip))?.finish_work()?)
    }

    fn is_volume(&self) -> bool {
        true
    }

    fn attach<'a>(
        &self,
        flash: Box<dyn ChipFlash + 'a>,
        processor: Option<&Processor>,
    ) -> Result<Flash<'a>, BuildError> {
        let volume = UbiFlash::new(self, self.open(flash, processor)?, processor)?;
        Ok(Flash {
            mtd: Box::new(volume.clone()),
            finish: Box::new(move || Ok(volume.finish_work()?)),
        })
    }

    fn format_chip(&self, chip: Chip) -> Result<Box<dyn ChipFlash>, BuildError> {
        let mut ubi = self.make(boxed(chip))?;
        ubi.finish_work()?;
        Ok(Box::new(UbiFlash::new(self, ubi, None)?))
    }

    fn attach_chip(&self, chip: Chip) -> Result<Box<dyn ChipFlash>, BuildError> {
        let ubi = self.open(boxed(chip), None)?;
        Ok(Box::new(UbiFlash::new(self, ubi, None)?))
    }
}

/// The one type for which UBI below a file system is compiled.
fn boxed<'a>(flash: impl ChipFlash + 'a) -> Box<dyn ChipFlash + 'a> {
    Box::new(flash)
}

/// The values of `ubi.attach`.
#[derive(Clone, Copy, PartialEq)]
enum Attach {
    Scan,
    Fastmap,
    Log,
}

impl UbiDescription {
    /// Takes `[ubi]` out of a document.
    pub(crate) fn take(
        document: &mut Document,
        chip: &ChipDescription,
    ) -> Result<(Self, Vec<Setting>), DescriptionError> {
        let mut section = document.section("ubi");
        let attaches = [
            ("scan", Attach::Scan),
            ("fastmap", Attach::Fastmap),
            ("ubil", Attach::Log),
        ];
        let attach = section.choice("attach", &attaches, Attach::Scan)?;
        if chip.spec.contents == Contents::Dropped {
            return Err(section.refuse(
                "attach",
                "chip.contents = \"dropped\"",
                "contents that are kept, since headers are contents",
            ));
        }
        let usual = Options::default();
        let (memory, headers) = match attach {
            Attach::Log => {
                let (log, headers) = log(&mut section)?;
                (Memory::Log(log), headers)
            }
            plain => {
                section.inapplicable(&LOG_KEYS, "attach = \"ubil\"")?;
                (
                    if plain == Attach::Scan {
                        Memory::Scan
                    } else {
                        Memory::Fastmap
                    },
                    true,
                )
            }
        };
        let at = section.given::<Size>("vid-header-offset")?;
        let headers = match at {
            Some(_) if !headers => {
                return Err(section.refuse(
                    "vid-header-offset",
                    "an offset",
                    "none, since headers = false",
                ));
            }
            Some(Size(bytes)) => Headers::At(u32::try_from(bytes).unwrap_or(u32::MAX)),
            None => {
                if headers {
                    Headers::Linux
                } else {
                    Headers::None
                }
            }
        };
        let shape = Shape::new(&chip.spec.geometry, headers).map_err(|error| {
            section.refuse(
                "vid-header-offset",
                &error.to_string(),
                "headers that fit the chip's pages and blocks",
            )
        })?;
        let options = Options {
            headers,
            memory,
            wear_threshold: section.checked(
                "wear-threshold",
                usual.wear_threshold,
                |n| (2..=65_536).contains(n),
                "2 to 65536",
            )?,
            bad_per_1024: section.checked(
                "bad-per-1024",
                usual.bad_per_1024,
                |n| *n <= 768,
                "0 to 768",
            )?,
            scrub_bits: section.checked(
                "scrub-bits",
                usual.scrub_bits,
                |n| *n > 0,
                "at least 1",
            )?,
            trust_free: section.or("trust-free", usual.trust_free)?,
            image_seq: section.or("image-seq", usual.image_seq)?,
            seeded_bug: None,
        };
        let named = |name: &String| (1..=127).contains(&name.len()) && !name.contains('\0');
        let volume = section.checked(
            "volume",
            "data".to_string(),
            named,
            "a name of 1 to 127 bytes",
        )?;
        let lebs = match section.given::<Size>("volume-size")? {
            None => None,
            Some(Size(bytes)) => {
                let lebs = bytes.div_ceil(shape.leb_bytes.into());
                let fits = u32::try_from(lebs)
                    .ok()
                    .filter(|lebs| (1..=shape.pebs).contains(lebs));
                let expected = format!("1 to {} blocks of {} bytes", shape.pebs, shape.leb_bytes);
                Some(
                    fits.ok_or_else(|| {
                        section.refuse("volume-size", &bytes.to_string(), &expected)
                    })?,
                )
            }
        };
        let background = section.or("background", true)?;
        Ok((
            Self {
                options,
                volume,
                lebs,
                background,
            },
            section.finish()?,
        ))
    }

    /// Makes an empty device with the volume on it.
    pub fn make<M: Mtd>(&self, mtd: M) -> Result<Ubi<M>, BuildError> {
        let mut ubi = Ubi::format(mtd, self.options)?;
        let lebs = self.lebs.unwrap_or(ubi.info().available);
        ubi.create_volume(&VolumeSpec {
            name: self.volume.clone(),
            lebs,
            ..VolumeSpec::default()
        })?;
        Ok(ubi)
    }

    /// Attaches a device. The processor's part takes its time on the clock.
    pub fn open<M: Mtd>(
        &self,
        mtd: M,
        processor: Option<&Processor>,
    ) -> Result<Ubi<M>, BuildError> {
        let ubi = Ubi::attach(mtd, self.options)?;
        if let Some(Processor { host, clock }) = processor {
            clock.spend(host.ubi_attach(&ubi.attach_cost()));
        }
        Ok(ubi)
    }

    /// The id of the volume that is used.
    pub fn volume_of<M: Mtd>(&self, ubi: &Ubi<M>) -> Result<u32, BuildError> {
        ubi.find_volume(&self.volume).ok_or_else(|| {
            let names: Vec<String> = ubi
                .volumes()
                .iter()
                .map(|volume| quote(&volume.record.name))
                .collect();
            let found = if names.is_empty() {
                "none".into()
            } else {
                names.join(", ")
            };
            BuildError::NoVolume {
                expected: self.volume.clone(),
                found,
            }
        })
    }
}

/// UBIL's own choices, and whether there are headers.
fn log(section: &mut crate::Section) -> Result<(LogOptions, bool), DescriptionError> {
    let usual = LogOptions::default();
    let log = LogOptions {
        blocks: section.checked(
            "log-blocks",
            usual.blocks,
            |n| (1..=256).contains(n),
            "1 to 256",
        )?,
        compress: section.or("compressed", usual.compress)?,
        commit: if section.or("incremental", false)? {
            Commit::Incremental
        } else {
            Commit::Full
        },
        superblock: if section.or("chained", false)? {
            Superblock::Chain
        } else {
            Superblock::Pair
        },
    };
    if log.compress && log.commit == Commit::Incremental {
        return Err(section.refuse(
            "compressed",
            "true",
            "false beside incremental = true: only full commits are compressed",
        ));
    }
    Ok((log, section.or("headers", true)?))
}

#[cfg(test)]
mod tests;
