//! Error-correcting codes of NAND pages, bit for bit as Linux's software codes have them.
//!
//! *Promises.* [`Codec::encode`] gives the parity bytes that Linux stores for a step of a page.
//! [`Codec::correct`] corrects every pattern of up to [`Code::strength`] flipped bits in the data
//! and the parity of a step. More flips end in [`Repair::Failed`], or, where the bits happen to lie
//! near another codeword, in that codeword, as in the kernel.
//!
//! *Works on* one step of data and its parity bytes; [`Codec::correct_page`] on all steps of a
//! page.
//!
//! *Knows nothing of* where parity bytes lie in the spare area, nor of devices and files.
//!
//! *Power loss.* Nothing here touches a medium. A torn page is a page with many flipped bits.
//!
//! `docs/formats/ecc.md` says which parity bit stands for what.
//!
//! ```
//! use nandlab_ecc::{Code, Codec, Repair};
//!
//! let codec = Codec::new(Code::Bch { step: 512, strength: 4 })?;
//! let mut step = [0x5A; 512];
//! let mut parity = [0; 7];
//! codec.encode(&step, &mut parity);
//! step[100] ^= 0x10;
//! parity[2] ^= 0x01;
//! assert_eq!(codec.correct(&mut step, &mut parity), Repair::Corrected { bits: 2 });
//! assert_eq!(step, [0x5A; 512]);
//! # Ok::<(), nandlab_ecc::CodeError>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bch;
mod code;
mod codec;
mod erased;
mod hamming;
mod name;
mod page;

pub use code::{Code, CodeError, Order};
pub use codec::{Codec, Repair};
pub use erased::erased;
pub use name::NameError;
pub use page::PageRepair;
