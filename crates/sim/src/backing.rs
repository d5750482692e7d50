//! Bytes that outlive a run: what an image of a disk or of a NAND array is held in.
//!
//! *Promises* a fixed length, reads and writes at any offset inside it, a sync. *Knows nothing of*
//! files, sectors or pages: memory implements it here, operating-system files where the operating
//! system is known.

use alloc::{boxed::Box, vec::Vec};

/// An access that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackingError {
    /// The extent leaves the backing.
    #[error("{count} bytes at offset {offset} leave the image of {len} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Bytes that the request covers.
        count: u64,
        /// Bytes that the store holds.
        len: u64,
    },
    /// The system below refused, in its own words.
    #[error("{0}")]
    Io(&'static str),
}

impl BackingError {
    /// The failure in words that need no allocation, for the error types of the layers above.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OutOfRange { .. } => "access outside the image",
            Self::Io(reason) => reason,
        }
    }
}

/// A run of bytes of fixed length.
///
/// **Durability.** What was written is visible to every later read, and durable when a later
/// [`sync`](Backing::sync) has returned.
pub trait Backing {
    /// Returns the length of the store in bytes.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses an extent that leaves the bytes; otherwise gives its end.
    fn check(&self, offset: u64, count: u64) -> Result<u64, BackingError> {
        let len = self.len();
        match offset.checked_add(count) {
            Some(end) if end <= len => Ok(end),
            _ => Err(BackingError::OutOfRange { offset, count, len }),
        }
    }

    /// Fills `buf` from `offset` on.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError>;

    /// Stores `data` from `offset` on.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError>;

    /// Makes everything written so far durable.
    fn sync(&mut self) -> Result<(), BackingError>;

    /// Makes `len` bytes from `offset` on read as zeros, giving their space back where it can be
    /// given.
    fn punch(&mut self, offset: u64, len: u64) -> Result<(), BackingError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let end = self.check(offset, len)?;
        for at in (offset..end).step_by(ZEROS.len()) {
            self.write_at(at, &ZEROS[..ZEROS.len().min((end - at) as usize)])?;
        }
        Ok(())
    }
}

impl Backing for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        let end = self.check(offset, buf.len() as u64)?;
        buf.copy_from_slice(&self[offset as usize..end as usize]);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        let end = self.check(offset, data.len() as u64)?;
        self[offset as usize..end as usize].copy_from_slice(data);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<B: Backing + ?Sized> Backing for $type {
            fn len(&self) -> u64 {
                (**self).len()
            }
            fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
                (**self).read_at(offset, buf)
            }
            fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
                (**self).write_at(offset, data)
            }
            fn sync(&mut self) -> Result<(), BackingError> {
                (**self).sync()
            }
            fn punch(&mut self, offset: u64, len: u64) -> Result<(), BackingError> {
                (**self).punch(offset, len)
            }
        }
    )*};
}
forward!(&mut B, Box<B>);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_punched_hole_reads_as_zeros_and_its_edges_stay() {
        let mut bytes = vec![7u8; 10_000];
        bytes.punch(1, 9_998).unwrap();
        assert_eq!((bytes[0], bytes[9_999]), (7, 7));
        assert!(bytes[1..9_999].iter().all(|b| *b == 0));
    }

    #[test]
    fn an_access_past_the_end_is_refused_and_changes_nothing() {
        let mut bytes = vec![7u8; 8];
        let outside = BackingError::OutOfRange {
            offset: 6,
            count: 3,
            len: 8,
        };
        assert_eq!(bytes.write_at(6, &[0; 3]), Err(outside));
        assert_eq!(bytes.read_at(6, &mut [0; 3]), Err(outside));
        assert_eq!(bytes.punch(6, 3), Err(outside));
        assert_eq!(
            bytes.punch(1, u64::MAX),
            Err(BackingError::OutOfRange {
                offset: 1,
                count: u64::MAX,
                len: 8
            })
        );
        assert_eq!(bytes, [7; 8]);
    }
}
