//! Raw flash as a driver sees it: pages that are programmed once, blocks that are erased whole.
//!
//! *Promises* only the contract of [`Mtd`], its addresses and its errors; the chip model and image
//! files implement it, translation layers, UBI and flash file systems stand on it, and the adapters
//! here wrap it.
//!
//! *Knows nothing of* time, wear models, translation, files.
//!
//! *Adapters.* [`Image`] is an array in a dump ([`ImageFormat`], [`Layout`], [`Corrections`]);
//! [`Partition`] a run of blocks; [`Counter`], [`Tracer`] and [`FaultInjector`] are [`Hook`]s beside an array.
//!
//! *Power loss.* See [`Mtd`]: what is guaranteed after a cut is part of the trait, not of an
//! implementation.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod bounds;
mod correction;
mod counter;
mod error;
mod fault;
mod format;
mod geometry;
mod hook;
mod image;
mod injector;
mod layer;
mod layout;
mod partition;
mod request;
mod tracer;

pub use address::{Block, Page};
pub use correction::Corrections;
pub use counter::{Counter, Counts};
pub use error::MtdError;
pub use fault::Fault;
pub use format::{Hint, ImageError, ImageFormat};
pub use geometry::{Geometry, GeometryError};
pub use hook::{Hook, Hooked};
pub use image::Image;
pub use injector::{FaultInjector, Faults};
pub use layer::{Bare, Layer, LayerError};
pub use layout::{Layout, LayoutError, OobLayout};
pub use partition::Partition;
pub use request::{Outcome, Request};
pub use tracer::{Event, Sink, Tracer};

/// How many bits of a read the error correction corrected: an outcome, not an error. A caller that
/// cares about data retention moves a page whose count nears the code's strength.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    /// The largest number of bits corrected in one codeword of the read.
    pub bits: u16,
}

/// Everything issued to a device up to some moment; meaningful only to that device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issued(pub u64);

/// One page of [`Mtd::copy_many`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// The page that is read.
    pub from: Page,
    /// The erased page that is programmed.
    pub to: Page,
}

/// One page of [`Mtd::copy_many`] with its rows of OOB bytes.
pub type MoveRow<'a> = (Move, &'a mut [u8], &'a [u8]);

/// The rows of a batch of moves: `heads` and `tails` hold one row for each move, all of one width.
pub fn rows<'a>(
    moves: &'a [Move],
    heads: &'a mut [u8],
    tails: &'a [u8],
) -> impl Iterator<Item = MoveRow<'a>> {
    let count = moves.len().max(1);
    let head = heads.len() / count;
    let tail = tails.len() / count;
    let mut heads = heads;
    moves.iter().enumerate().map(move |(i, m)| {
        let (row, rest) = core::mem::take(&mut heads).split_at_mut(head);
        heads = rest;
        (*m, row, &tails[i * tail..(i + 1) * tail])
    })
}

/// A NAND array.
///
/// **OOB.** The `oob` of a call are the *user* bytes of the spare area, [`Geometry::oob`] of them;
/// where they lie between bad-block marker and ECC bytes is the chip's business. `oob` may be
/// shorter than that: a read fills what it is given, a program leaves the rest erased. `data` is a
/// whole page or empty (then only the OOB is touched). Error correction covers both.
///
/// **Order.** Operations on one die complete in the order in which they were issued. Across dies
/// there is no order, save what [`fence`](Mtd::fence) asks for.
///
/// **Durability.** A program that returned is *issued*. It is durable when a [`sync`](Mtd::sync)
/// has returned, or when any operation ordered after it has begun.
///
/// **Power loss.** Every operation that is not durable may at a power cut be undone, done, or
/// *torn*. A torn program leaves a page that reads as erased, as [`MtdError::Uncorrectable`], or
/// correctly; a torn erase leaves each page of its block, independently, as it was, erased-looking
/// or uncorrectable. Either way the block must be erased before anything more is programmed to the
/// pages concerned. Nothing else changes: other pages of the die keep their contents.
///
/// **Failure.** A page whose program failed has undefined contents, the pages before it in its
/// block stay readable; a block whose erase failed is undefined. The caller decides when to
/// [`mark_bad`](Mtd::mark_bad).
///
/// A wrapper forwards what it does not change:
///
/// ```
/// use nandlab_mtd::{Block, Corrected, Geometry, Mtd, MtdError, Page};
///
/// /// Flash that cannot be written.
/// struct Frozen<M>(M);
///
/// impl<M: Mtd> Mtd for Frozen<M> {
///     fn geometry(&self) -> &Geometry {
///         self.0.geometry()
///     }
///     fn read(
///         &mut self,
///         page: Page,
///         data: &mut [u8],
///         oob: &mut [u8],
///     ) -> Result<Corrected, MtdError> {
///         self.0.read(page, data, oob)
///     }
///     fn program(&mut self, _: Page, _: &[u8], _: &[u8]) -> Result<(), MtdError> {
///         Err(MtdError::ReadOnly(None))
///     }
///     fn copy(
///         &mut self,
///         _: Page,
///         _: Page,
///         _: &mut [u8],
///         _: &[u8],
///     ) -> Result<Corrected, MtdError> {
///         Err(MtdError::ReadOnly(None))
///     }
///     fn erase(&mut self, _: Block) -> Result<(), MtdError> {
///         Err(MtdError::ReadOnly(None))
///     }
///     fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
///         self.0.is_bad(block)
///     }
///     fn mark_bad(&mut self, _: Block) -> Result<(), MtdError> {
///         Err(MtdError::ReadOnly(None))
///     }
///     fn sync(&mut self) -> Result<(), MtdError> {
///         self.0.sync()
///     }
/// }
///
/// fn first_byte<M: Mtd>(flash: &mut M) -> Result<u8, MtdError> {
///     let mut data = vec![0; flash.geometry().page as usize];
///     flash.read(Page(0), &mut data, &mut [])?;
///     Ok(data[0])
/// }
/// # let _ = first_byte::<Frozen<Box<dyn Mtd>>>;
/// ```
pub trait Mtd {
    /// Returns the shape of the whole array.
    fn geometry(&self) -> &Geometry;

    /// Reads a page, or with empty `data` only its OOB. An erased page reads as 0xFF.
    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError>;

    /// Programs a page, or with empty `data` only its OOB. The page must be erased (or, where the
    /// chip allows partial programs, the programmed bits must only go from one to zero); page order
    /// within a block is the chip's rule.
    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError>;

    /// Programs `to` with the data of `from`, without the caller carrying the bytes. The OOB of
    /// `to` is that of `from` for the length of `head`, which receives it, then `tail`: what
    /// identifies a page travels with it, its sequence number does not. Errors are those of reading
    /// `from` and of programming `to`.
    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError>;

    /// Copies several pages, each as [`copy`](Mtd::copy) does, until one fails. `heads` and `tails`
    /// hold one row for each move, one after the other, so that their widths are the caller's.
    /// Gives the number of pages done, and the failure.
    fn copy_many(
        &mut self,
        moves: &[Move],
        heads: &mut [u8],
        tails: &[u8],
    ) -> (usize, Result<(), MtdError>) {
        for (done, (m, head, tail)) in rows(moves, heads, tails).enumerate() {
            if let Err(error) = self.copy(m.from, m.to, head, tail) {
                return (done, Err(error));
            }
        }
        (moves.len(), Ok(()))
    }

    /// Copies as [`copy_many`](Mtd::copy_many) does. Flash with several planes may read neighbouring
    /// moves first and program them together, where their targets have one page index on different
    /// planes of one die.
    fn copy_joined(
        &mut self,
        moves: &[Move],
        heads: &mut [u8],
        tails: &[u8],
    ) -> (usize, Result<(), MtdError>) {
        self.copy_many(moves, heads, tails)
    }

    /// Erases one block, so that its pages read 0xFF.
    fn erase(&mut self, block: Block) -> Result<(), MtdError>;

    /// Pages of a block in SLC mode, one bit a cell: the first so many of its pages. `None` if the
    /// flash has no such mode.
    fn slc_pages(&self) -> Option<u32> {
        None
    }

    /// Erases one block into SLC mode, which lasts until its next erase.
    fn erase_slc(&mut self, block: Block) -> Result<(), MtdError> {
        let first = Page(block.0.saturating_mul(self.geometry().pages_per_block));
        Err(MtdError::Illegal(first, "this flash has no SLC mode"))
    }

    /// Whether a block is marked bad, by the factory or since.
    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError>;

    /// Marks a block bad for good. Durable on return.
    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError>;

    /// A mark for everything issued so far, to be used with [`fence`](Mtd::fence). A device whose
    /// operations are durable on return has nothing to mark.
    fn issued(&self) -> Issued {
        Issued(0)
    }

    /// The next operation begins only when everything that `mark` covers has completed. Does not
    /// make the caller wait: so a block is erased, or a map page written, only after what replaces
    /// the old contents is durable.
    fn fence(&mut self, mark: Issued) {
        let _ = mark;
    }

    /// Waits until everything issued is durable.
    fn sync(&mut self) -> Result<(), MtdError>;
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<M: Mtd + ?Sized> Mtd for $type {
            fn geometry(&self) -> &Geometry {
                (**self).geometry()
            }
            fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
                (**self).read(page, data, oob)
            }
            fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
                (**self).program(page, data, oob)
            }
            fn copy(&mut self, from: Page, to: Page, head: &mut [u8], tail: &[u8]) -> Result<Corrected, MtdError> {
                (**self).copy(from, to, head, tail)
            }
            fn copy_many(
                &mut self,
                moves: &[Move],
                heads: &mut [u8],
                tails: &[u8],
            ) -> (usize, Result<(), MtdError>) {
                (**self).copy_many(moves, heads, tails)
            }
            fn copy_joined(
                &mut self,
                moves: &[Move],
                heads: &mut [u8],
                tails: &[u8],
            ) -> (usize, Result<(), MtdError>) {
                (**self).copy_joined(moves, heads, tails)
            }
            fn erase(&mut self, block: Block) -> Result<(), MtdError> {
                (**self).erase(block)
            }
            fn slc_pages(&self) -> Option<u32> {
                (**self).slc_pages()
            }
            fn erase_slc(&mut self, block: Block) -> Result<(), MtdError> {
                (**self).erase_slc(block)
            }
            fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
                (**self).is_bad(block)
            }
            fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
                (**self).mark_bad(block)
            }
            fn issued(&self) -> Issued {
                (**self).issued()
            }
            fn fence(&mut self, mark: Issued) {
                (**self).fence(mark);
            }
            fn sync(&mut self) -> Result<(), MtdError> {
                (**self).sync()
            }
        }
    )*};
}
forward!(&mut M, alloc::boxed::Box<M>);
