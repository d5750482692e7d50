//! Fields of any width without gaps between them, least significant bit first, and the CRC-16 over
//! them.

use alloc::vec::Vec;

/// Returns the number of bits that a value needs.
pub(crate) fn width(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// The CRC-16 of IBM, reflected, which starts with ones.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| {
            let out = sum & 1 != 0;
            if out { sum >> 1 ^ 0xA001 } else { sum >> 1 }
        })
    })
}

/// Reads fields. Behind the end there are zeros.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn read(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, bit| {
            let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
            let set = byte >> (self.at % 8) & 1;
            self.at += 1;
            value | u32::from(set) << bit
        })
    }
}

/// Writes fields into zeros.
#[derive(Debug)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    at: usize,
}

impl BitWriter {
    pub fn new(bytes: usize) -> Self {
        let bytes = alloc::vec![0; bytes];
        Self { bytes, at: 0 }
    }

    pub fn write(&mut self, value: u32, bits: u32) {
        for bit in 0..bits {
            self.bytes[self.at / 8] |= ((value >> bit & 1) as u8) << (self.at % 8);
            self.at += 1;
        }
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_width_are_read_as_they_were_written() {
        let fields: Vec<(u32, u32)> = (0..=32)
            .map(|bits| (0x9E37_79B9 & ((1u64 << bits) - 1) as u32, bits))
            .collect();
        let mut writer = BitWriter::new(66);
        fields
            .iter()
            .for_each(|(value, bits)| writer.write(*value, *bits));
        let bytes = writer.finish();
        let mut reader = BitReader::new(&bytes);
        for (value, bits) in fields {
            assert_eq!(reader.read(bits), value, "{bits} bits");
        }
        assert_eq!(reader.read(32), 0);
    }

    #[test]
    fn the_sum_is_the_published_one() {
        // CRC-16/MODBUS of the usual test string.
        assert_eq!(crc16(b"123456789"), 0x4B37);
    }
}
