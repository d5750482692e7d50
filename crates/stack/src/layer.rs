//! Translation layers as a stack sees them: named, described, open.
//!
//! *Promises.* A layer from another crate takes part in everything that ours do. It needs three
//! things: an [`Ftl`], a [`Layer`] that formats and attaches it, and a [`Scheme`] that reads its
//! keys from `[ftl]`. [`Registry::with_scheme`](crate::Registry::with_scheme) adds the scheme.
//!
//! *Knows nothing of* any particular layer.

use crate::{BuildError, ChipDescription, DescriptionError, Document, HostDescription};
use crate::{Section, Setting};
use nandlab_ftl::Ftl;
use nandlab_mtd::{Layer, LayerError, Mtd};
use nandlab_nand::Chip;
use nandlab_sim::Clock;
use nandlab_ubifs::Lebs;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A disk on a chip: any translation layer, attached.
pub trait Device: Ftl<Medium = Chip> + Send {}

impl<D: Ftl<Medium = Chip> + Send + ?Sized> Device for D {}

/// A translation layer with its options. Every [`Layer`] over a chip whose device is an [`Ftl`] is
/// one.
pub trait DiskLayer: fmt::Debug + Send + Sync {
    /// Puts a new layer on an erased chip.
    fn format(&self, chip: Chip) -> Result<Box<dyn Device>, LayerError>;

    /// Attaches the layer that the chip holds.
    fn attach(&self, chip: Chip) -> Result<Box<dyn Device>, LayerError>;
}

impl<L> DiskLayer for L
where
    L: Layer<Chip, Device: Device + 'static> + fmt::Debug + Send + Sync,
{
    fn format(&self, chip: Chip) -> Result<Box<dyn Device>, LayerError> {
        Ok(Box::new(Layer::format(self, chip)?))
    }

    fn attach(&self, chip: Chip) -> Result<Box<dyn Device>, LayerError> {
        Ok(Box::new(Layer::attach(self, chip)?))
    }
}

/// The processor that drives a stack: its costs, and the clock on which they are spent.
#[derive(Clone, Debug)]
pub struct Processor {
    /// What its work costs.
    pub host: HostDescription,
    /// The stack's virtual time.
    pub clock: Clock,
}

/// A layer that offers flash, for file systems that lie on flash.
pub trait FlashLayer: Any + fmt::Debug + Send + Sync {
    /// Puts a new layer on an erased chip.
    fn format(&self, chip: &mut Chip) -> Result<(), BuildError>;

    /// Whether the flash is a managed volume: no block is ever half erased, and a new volume reads
    /// as erased, so that the file system's own format is not needed.
    fn is_volume(&self) -> bool;

    /// Attaches the layer. With a processor, the attach and the calls take its time.
    fn attach<'a>(
        &self,
        flash: Box<dyn ChipFlash + 'a>,
        processor: Option<&Processor>,
    ) -> Result<Flash<'a>, BuildError>;

    /// Puts a new layer on an erased chip that it takes over.
    fn format_chip(&self, chip: Chip) -> Result<Box<dyn ChipFlash>, BuildError>;

    /// Attaches the layer that a chip holds, and takes the chip over.
    fn attach_chip(&self, chip: Chip) -> Result<Box<dyn ChipFlash>, BuildError>;
}

/// Flash that lies on a chip.
pub trait ChipFlash: Mtd {
    /// The chip as it is, without another operation, unless it is lent.
    fn into_chip(self: Box<Self>) -> Option<Chip> {
        None
    }

    /// The logical blocks, for a file system that maps and unmaps them. `None`: this is no managed
    /// volume.
    fn lebs(&mut self) -> Option<&mut dyn Lebs> {
        None
    }

    /// The clock of the chip, for a file system that spends time of its own.
    fn clock(&self) -> Clock;
}

impl ChipFlash for Chip {
    fn into_chip(self: Box<Self>) -> Option<Chip> {
        Some(*self)
    }

    fn clock(&self) -> Clock {
        Self::clock(self).clone()
    }
}

impl ChipFlash for &mut Chip {
    fn clock(&self) -> Clock {
        Chip::clock(self).clone()
    }
}

impl<'a> ChipFlash for &mut (dyn ChipFlash + 'a) {
    fn lebs(&mut self) -> Option<&mut dyn Lebs> {
        (**self).lebs()
    }

    fn clock(&self) -> Clock {
        (**self).clock()
    }
}

/// Completes a layer's pending work.
pub type Finish<'a> = Box<dyn Fn() -> Result<(), BuildError> + 'a>;

/// Flash that a layer offers.
pub struct Flash<'a> {
    /// The flash that the file system lies on.
    pub mtd: Box<dyn ChipFlash + 'a>,
    /// Completes pending work after the file system is unmounted.
    pub finish: Finish<'a>,
}

/// No layer: the file system lies on the chip itself.
#[derive(Clone, Copy, Debug)]
pub struct BareChip;

impl FlashLayer for BareChip {
    fn format(&self, _: &mut Chip) -> Result<(), BuildError> {
        Ok(())
    }

    fn is_volume(&self) -> bool {
        false
    }

    fn attach<'a>(
        &self,
        flash: Box<dyn ChipFlash + 'a>,
        _: Option<&Processor>,
    ) -> Result<Flash<'a>, BuildError> {
        let finish = Box::new(|| Ok(()));
        Ok(Flash { mtd: flash, finish })
    }

    fn format_chip(&self, chip: Chip) -> Result<Box<dyn ChipFlash>, BuildError> {
        Ok(Box::new(chip))
    }

    fn attach_chip(&self, chip: Chip) -> Result<Box<dyn ChipFlash>, BuildError> {
        Ok(Box::new(chip))
    }
}

/// A layer as a description chose it.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The value of `ftl.scheme`.
    pub name: &'static str,
    /// The layer as a disk, if it can be one.
    pub disk: Option<Arc<dyn DiskLayer>>,
    /// The layer as flash, if it can be that.
    pub flash: Option<Arc<dyn FlashLayer>>,
    /// It keeps its own structures in page data, not in spare bytes alone. Such a layer does not
    /// run on a chip that drops page data.
    pub needs_contents: bool,
    /// The driver reads a block after each erase, as Linux's NFTL does.
    pub checks_erases: bool,
    /// The driver takes a flush as a request of its own, as Linux's mtdblock does. The other
    /// drivers report that they have nothing to flush.
    pub queues_flushes: bool,
}

impl Translation {
    /// A layer that is a disk.
    pub fn disk(name: &'static str, layer: impl DiskLayer + 'static) -> Self {
        Self {
            name,
            disk: Some(Arc::new(layer)),
            flash: None,
            needs_contents: false,
            checks_erases: false,
            queues_flushes: false,
        }
    }

    /// A layer that is flash.
    pub fn flash(name: &'static str, layer: impl FlashLayer + 'static) -> Self {
        Self {
            name,
            disk: None,
            flash: Some(Arc::new(layer)),
            needs_contents: false,
            checks_erases: false,
            queues_flushes: false,
        }
    }
}

/// A kind of translation layer that `ftl.scheme` can name.
///
/// ```
/// use nandlab_ftl::page::PageOptions;
/// use nandlab_stack::{Description, DescriptionError, Document, Registry};
/// use nandlab_stack::{DiskScheme, Translation};
/// use std::path::Path;
///
/// /// Page mapping with one choice: how much space is spare.
/// const ROOMY: DiskScheme = DiskScheme {
///     name: "roomy",
///     keys: &["spare-share"],
///     take: |input| {
///         let over_provisioning = input.section.or("spare-share", 0.5)?;
///         let options = PageOptions { over_provisioning, ..PageOptions::default() };
///         Ok(Translation::disk("roomy", options))
///     },
/// };
///
/// let registry = Registry::standard().with_scheme(ROOMY);
/// let text = "[chip]\npreset = \"slc-2k\"\n[ftl]\nscheme = \"roomy\"\nspare-share = 0.3\n";
/// let mut document = Document::parse("roomy.toml", Path::new("."), text, &[])?;
/// let description = Description::take_with(&mut document, &registry)?;
/// assert_eq!(description.ftl.layer.name, "roomy");
/// # Ok::<(), DescriptionError>(())
/// ```
pub trait Scheme: Send + Sync {
    /// The value of `ftl.scheme`.
    fn name(&self) -> &'static str;

    /// The keys of `[ftl]` that it takes, besides `scheme` and `format`.
    fn keys(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether it can be the disk below a file system for disks.
    fn is_disk(&self) -> bool {
        true
    }

    /// Whether it can be the flash below a file system for flash.
    fn is_flash(&self) -> bool {
        false
    }

    /// Reads the scheme's keys from its section.
    fn take(&self, input: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError>;

    /// Refuses the sections that only this scheme has, because another one is chosen.
    fn refuse(&self, _document: &mut Document) -> Result<(), DescriptionError> {
        Ok(())
    }
}

/// A [`Scheme`] that is a disk and has no section of its own.
#[derive(Clone, Copy)]
pub struct DiskScheme {
    /// The value of `ftl.scheme`.
    pub name: &'static str,
    /// The keys of `[ftl]` that it takes.
    pub keys: &'static [&'static str],
    /// Reads the scheme's keys from its section.
    pub take: fn(&mut SchemeInput<'_>) -> Result<Translation, DescriptionError>,
}

impl Scheme for DiskScheme {
    fn name(&self) -> &'static str {
        self.name
    }

    fn keys(&self) -> Vec<&'static str> {
        self.keys.to_vec()
    }

    fn take(&self, input: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        (self.take)(input)
    }
}

/// What a [`Scheme`] takes its keys from.
pub struct SchemeInput<'a> {
    /// `[ftl]`, without `scheme` and `format`.
    pub section: &'a mut Section,
    /// The whole description, for sections of the scheme's own.
    pub document: &'a mut Document,
    /// Settings of such sections.
    pub settings: &'a mut Vec<Setting>,
    /// The chip below the layer, as described.
    pub chip: &'a ChipDescription,
}
