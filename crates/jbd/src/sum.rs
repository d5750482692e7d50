//! The checksum of ext4 and of its journal: CRC-32C without the inversion at the end (Linux
//! `crypto_shash` of `crc32c`, as `jbd2_chksum` calls it).

use crc::{Algorithm, CRC_32_ISCSI, Crc, Table};

static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&Algorithm {
    xorout: 0,
    ..CRC_32_ISCSI
});

/// Continues a checksum: `start` is `!0`, a seed, or the checksum of the bytes before.
pub fn crc32c(start: u32, bytes: &[u8]) -> u32 {
    // The library takes the start before the reflection.
    let mut digest = CRC.digest_with_initial(start.reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one_and_goes_on_from_part_to_part() {
        // The check value of CRC-32C is the inversion.
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
        assert_eq!(
            crc32c(crc32c(!0, b"1234"), b"56789"),
            crc32c(!0, b"123456789")
        );
    }
}
