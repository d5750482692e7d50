//! A part of an image as bytes of their own.
//!
//! *Promises.* Nothing outside the part is read or written. *Knows nothing of* what the bytes mean.

use nandlab_sim::{Backing, BackingError};
use serde::Serialize;

/// A run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The offset of the part's first byte.
    pub at: u64,
    /// How many there are.
    pub len: u64,
}

impl Part {
    /// The first byte behind it.
    pub fn end(&self) -> u64 {
        self.at + self.len
    }
}

/// A part of `below`.
#[derive(Debug)]
pub struct Window<B> {
    below: B,
    part: Part,
}

impl<B: Backing> Window<B> {
    /// The bytes of `part`, as far as `below` reaches.
    pub fn new(below: B, part: Part) -> Self {
        let at = part.at.min(below.len());
        let len = part.len.min(below.len() - at);
        let part = Part { at, len };
        Self { below, part }
    }
}

impl<B: Backing> Backing for Window<B> {
    fn len(&self) -> u64 {
        self.part.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        self.check(offset, buf.len() as u64)?;
        self.below.read_at(self.part.at + offset, buf)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        self.check(offset, data.len() as u64)?;
        self.below.write_at(self.part.at + offset, data)
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        self.below.sync()
    }

    fn punch(&mut self, offset: u64, len: u64) -> Result<(), BackingError> {
        self.check(offset, len)?;
        self.below.punch(self.part.at + offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_outside_the_part_are_neither_read_nor_written() {
        let mut bytes = vec![1u8; 100];
        let mut window = Window::new(&mut bytes, Part { at: 10, len: 20 });
        window.write_at(0, &[2; 20]).unwrap();
        assert!(window.write_at(19, &[3; 2]).is_err());
        assert!(window.read_at(20, &mut [0]).is_err());
        window.punch(18, 2).unwrap();
        let expected = [vec![1; 10], vec![2; 18], vec![0; 2], vec![1; 70]].concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_part_ends_where_the_image_does() {
        let window = Window::new(
            vec![0u8; 100],
            Part {
                at: 90,
                len: u64::MAX,
            },
        );
        assert_eq!(window.len(), 10);
        let behind = Window::new(vec![0u8; 100], Part { at: 200, len: 5 });
        assert_eq!(behind.len(), 0);
    }
}
