//! A layer between flash and its user: formatted, attached, and taken off again.
//!
//! *Promises.* [`Layer`] is a recipe: the options of a layer, without a medium. Everything that
//! runs layers or cuts their power stands on these three calls, so a layer of your own needs no
//! more than one `impl`.
//!
//! *Knows nothing of* what the attached layer is to its user: a disk, flash again, or something of
//! the layer's own.

use alloc::boxed::Box;
use core::error::Error;

/// Why a layer cannot be formatted or attached. It keeps the layer's own error and its sources.
pub type LayerError = Box<dyn Error + Send + Sync>;

/// How a layer gets onto a medium `M`, and off it.
///
/// ```
/// use nandlab_mtd::{Layer, LayerError, Mtd, Page};
///
/// /// Keeps one byte on flash, in the first page.
/// struct OneByte;
///
/// struct Attached<M> {
///     flash: M,
///     byte: u8,
/// }
///
/// impl<M: Mtd> Layer<M> for OneByte {
///     type Device = Attached<M>;
///
///     fn format(&self, mut flash: M) -> Result<Attached<M>, LayerError> {
///         let page = vec![7; flash.geometry().page as usize];
///         flash.program(Page(0), &page, &[])?;
///         flash.sync()?;
///         Ok(Attached { flash, byte: 7 })
///     }
///
///     fn attach(&self, mut flash: M) -> Result<Attached<M>, LayerError> {
///         let mut page = vec![0; flash.geometry().page as usize];
///         flash.read(Page(0), &mut page, &mut [])?;
///         Ok(Attached { flash, byte: page[0] })
///     }
///
///     fn power_off(&self, device: Attached<M>) -> M {
///         device.flash
///     }
/// }
///
/// # use nandlab_mtd::{Image, ImageFormat, Layout};
/// # let format = ImageFormat { page: 256, oob: 0, pages_per_block: 4, layout: Layout::Raw, ecc: None };
/// let flash = Image::new(vec![0xFF; 4096], format)?;
/// let flash = OneByte.power_off(OneByte.format(flash)?);
/// assert_eq!(OneByte.attach(flash)?.byte, 7);
/// # Ok::<(), LayerError>(())
/// ```
pub trait Layer<M> {
    /// The type of the layer once attached.
    type Device;

    /// Puts a new, empty layer on `medium`, whose blocks are erased. Durable on return.
    fn format(&self, medium: M) -> Result<Self::Device, LayerError>;

    /// Attaches the layer that `medium` holds, from the medium alone, whatever a power cut left.
    fn attach(&self, medium: M) -> Result<Self::Device, LayerError>;

    /// Gives the medium back as it is, without another operation, as a power cut would.
    fn power_off(&self, device: Self::Device) -> M;
}

/// No layer: the medium itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bare;

impl<M> Layer<M> for Bare {
    type Device = M;

    fn format(&self, medium: M) -> Result<M, LayerError> {
        Ok(medium)
    }

    fn attach(&self, medium: M) -> Result<M, LayerError> {
        Ok(medium)
    }

    fn power_off(&self, device: M) -> M {
        device
    }
}

impl<M, L: Layer<M> + ?Sized> Layer<M> for &L {
    type Device = L::Device;

    fn format(&self, medium: M) -> Result<L::Device, LayerError> {
        (**self).format(medium)
    }

    fn attach(&self, medium: M) -> Result<L::Device, LayerError> {
        (**self).attach(medium)
    }

    fn power_off(&self, device: L::Device) -> M {
        (**self).power_off(device)
    }
}
