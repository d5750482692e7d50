//! Raw flash as a driver sees it: pages that are programmed once, blocks that are erased whole.
//!
//! *Promises* only the contract of [`Mtd`], its addresses and its errors; the chip model and image files
//! implement it, translation layers, UBI and flash file systems stand on it, and the adapters here wrap it.
//!
//! *Knows nothing of* time, wear models, translation, files.
//!
//! *Power loss.* See [`Mtd`]: what is guaranteed after a cut is part of the trait, not of an implementation.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod error;
mod geometry;

pub use address::{Block, Page};
pub use error::MtdError;
pub use geometry::{Geometry, GeometryError};

/// How many bits of a read the error correction had to mend: an outcome, not an error.
/// A caller that cares about data retention moves a page whose count nears the code's strength.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    /// The largest number of bits corrected in one codeword of the read.
    pub bits: u16,
}

/// A NAND array.
///
/// **OOB.** The `oob` of a call are the *user* bytes of the spare area, [`Geometry::oob`] of them; where they lie
/// between bad-block marker and ECC bytes is the chip's business. `oob` may be shorter than that: a read fills what
/// it is given, a program leaves the rest erased. `data` is a whole page or empty (then only the OOB is touched).
/// Error correction covers both.
///
/// **Order.** Operations on one die complete in the order in which they were issued. Across dies there is no order, save
/// that [`erase`](Mtd::erase), and the operation after a [`fence`](Mtd::fence), begin only when everything issued before has completed.
///
/// **Durability.** A program that returned is *issued*. It is durable when a [`sync`](Mtd::sync) has returned, or when any
/// operation ordered after it has begun.
///
/// **Power loss.** Every operation that is not durable may at a power cut be undone, done, or *torn*. A torn program leaves a page
/// that reads as erased, as [`MtdError::Uncorrectable`], or correctly; a torn erase leaves each page of its block, independently, as it was,
/// erased-looking or uncorrectable. Either way the block must be erased before anything more is programmed to the pages concerned.
/// Nothing else changes: other pages of the die keep their contents.
///
/// **Failure.** A page whose program failed has undefined contents, the pages before it in its block stay readable; a block whose erase
/// failed is undefined. The caller decides when to [`mark_bad`](Mtd::mark_bad).
pub trait Mtd {
    /// The array's shape.
    fn geometry(&self) -> &Geometry;

    /// Reads a page, or with empty `data` only its OOB. An erased page reads as 0xFF.
    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError>;

    /// Programs a page, or with empty `data` only its OOB. The page must be erased (or, where the chip allows
    /// partial programs, the programmed bits must only go from one to zero); page order within a block is the chip's rule.
    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError>;

    /// Programs `to` with the data of `from` and the given OOB, without the host carrying the bytes.
    /// Errors are those of reading `from` and of programming `to`.
    fn copy(&mut self, from: Page, to: Page, oob: &[u8]) -> Result<Corrected, MtdError>;

    /// Erases a block; begins after everything issued before has completed.
    fn erase(&mut self, block: Block) -> Result<(), MtdError>;

    /// Whether a block is marked bad, by the factory or since.
    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError>;

    /// Marks a block bad for good. Durable on return.
    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError>;

    /// The next operation begins only when everything issued before has completed. Does not wait.
    fn fence(&mut self);

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
            fn copy(&mut self, from: Page, to: Page, oob: &[u8]) -> Result<Corrected, MtdError> {
                (**self).copy(from, to, oob)
            }
            fn erase(&mut self, block: Block) -> Result<(), MtdError> {
                (**self).erase(block)
            }
            fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
                (**self).is_bad(block)
            }
            fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
                (**self).mark_bad(block)
            }
            fn fence(&mut self) {
                (**self).fence();
            }
            fn sync(&mut self) -> Result<(), MtdError> {
                (**self).sync()
            }
        }
    )*};
}
forward!(&mut M, alloc::boxed::Box<M>);
