//! Recognises an erased step by counting its zero bits, as `nand_check_erased_ecc_chunk` of
//! `drivers/mtd/nand/raw/nand_base.c` does.
//!
//! Linux's software codes do not need it: an erased step is a codeword of theirs, so
//! `nand_read_page_swecc` corrects its flipped bits like those of any other step, and so does
//! [`Codec::correct`](crate::Codec::correct). Many hardware codes lack this property. Their drivers
//! call an erased step uncorrectable, and ask this question before they report it.

/// Whether a step is erased: at most `most` bits of `data`, `parity` and `user` together are zero.
/// If so, sets them all and returns how many there were. Otherwise leaves all bytes as they are.
pub fn erased(data: &mut [u8], parity: &mut [u8], user: &mut [u8], most: u16) -> Option<u16> {
    let mut zeros = 0;
    for part in [&*data, parity, user] {
        zeros = count(part, zeros, u32::from(most))?;
    }
    if zeros > 0 {
        for part in [data, parity, user] {
            part.fill(0xFF);
        }
    }
    u16::try_from(zeros).ok()
}

/// Adds the zero bits of `bytes` to `zeros`; `None` once there are more than `most`.
fn count(bytes: &[u8], mut zeros: u32, most: u32) -> Option<u32> {
    for chunk in bytes.chunks(64) {
        zeros += chunk.iter().map(|byte| byte.count_zeros()).sum::<u32>();
        if zeros > most {
            return None;
        }
    }
    Some(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_zero_bits_leave_a_step_erased_and_one_more_does_not() {
        let mut data = [0xFF; 512];
        let mut parity = [0xFF; 7];
        let mut user = [0xFF; 4];
        data[500] = 0xF7;
        data[3] = 0x7F;
        parity[6] = 0xFE;
        user[0] = 0xEF;
        let before = (data, parity, user);
        assert_eq!(erased(&mut data, &mut parity, &mut user, 3), None);
        assert_eq!((data, parity, user), before);
        assert_eq!(erased(&mut data, &mut parity, &mut user, 4), Some(4));
        assert_eq!((data, parity, user), ([0xFF; 512], [0xFF; 7], [0xFF; 4]));
        assert_eq!(erased(&mut data, &mut parity, &mut user, 0), Some(0));
    }
}
