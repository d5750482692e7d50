//! Images with and without spare areas and codes.

use super::*;
use crate::Layout;
use nandlab_ecc::Code;

const LARGE: ImageFormat = ImageFormat {
    page: 2048,
    oob: 64,
    pages_per_block: 4,
    layout: Layout::LinuxLargePage64,
    ecc: None,
};
const SMALL: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: 4,
    layout: Layout::LinuxSmallPage,
    ecc: None,
};

fn erased(format: ImageFormat) -> Image<Vec<u8>> {
    Image::new(vec![0xFF; format.bytes(3) as usize], format).unwrap()
}

#[test]
fn data_and_user_bytes_lie_where_a_dump_has_them() {
    let mut image = erased(LARGE);
    image
        .program(Page(5), &[0x12; 2048], &[0x34, 0x56])
        .unwrap();
    let bytes = image.into_backing();
    let at = 5 * 2112;
    assert_eq!(
        (bytes[at], bytes[at + 2047], &bytes[at + 2048..at + 2053]),
        (0x12, 0x12, &[0xFF, 0xFF, 0x34, 0x56, 0xFF][..])
    );
    assert_eq!(bytes.iter().filter(|b| **b != 0xFF).count(), 2048 + 2);
}

#[test]
fn a_program_clears_bits_and_never_sets_one() {
    let mut image = erased(SMALL);
    image.program(Page(0), &[0xF0; 512], &[0x0F]).unwrap();
    let illegal = Err(MtdError::Illegal(
        Page(0),
        "program of a bit from zero to one",
    ));
    assert_eq!(image.program(Page(0), &[0xF1; 512], &[]), illegal);
    assert_eq!(image.program(Page(0), &[0x70; 512], &[0x1F]), illegal);
    assert_eq!(image.program(Page(0), &[0x70; 512], &[0x0E, 0x77]), Ok(()));
    let mut data = [0; 512];
    let mut oob = [0; 3];
    image.read(Page(0), &mut data, &mut oob).unwrap();
    assert_eq!((data, oob), ([0x70; 512], [0x0E, 0x77, 0xFF]));
    image.erase(Block(0)).unwrap();
    assert_eq!(image.program(Page(0), &[0xF1; 512], &[]), Ok(()));
}

#[test]
fn a_marker_in_either_of_the_first_pages_makes_a_block_bad() {
    for (format, marker) in [(SMALL, 512 + 5), (LARGE, 2048)] {
        let page_bytes = (format.page + format.oob) as usize;
        for (page, bad) in [(4, true), (5, true), (6, false)] {
            let mut bytes = vec![0xFF; format.bytes(3) as usize];
            bytes[page * page_bytes + marker] = 0x7F;
            let mut image = Image::new(bytes, format).unwrap();
            assert_eq!(
                [0, 1, 2].map(|b| image.is_bad(Block(b)).unwrap()),
                [false, bad, false]
            );
            let outcome = if bad {
                Err(MtdError::BadBlock(Block(1)))
            } else {
                Ok(())
            };
            assert_eq!(
                (image.program(Page(7), &[], &[1]), image.erase(Block(1))),
                (outcome, outcome)
            );
        }
    }
}

#[test]
fn a_marked_block_stays_bad_in_the_image() {
    let mut image = erased(LARGE);
    image.mark_bad(Block(2)).unwrap();
    let mut again = Image::new(image.into_backing(), LARGE).unwrap();
    assert_eq!(
        [0, 1, 2].map(|b| again.is_bad(Block(b)).unwrap()),
        [false, false, true]
    );
}

#[test]
fn an_image_of_data_only_has_no_oob_and_no_bad_blocks() {
    let format = ImageFormat { oob: 0, ..LARGE };
    let mut image = erased(format);
    assert_eq!(
        (
            image.geometry().oob,
            image.program(Page(0), &[3; 2048], &[])
        ),
        (0, Ok(()))
    );
    assert!(!image.is_bad(Block(0)).unwrap());
    assert!(matches!(
        image.mark_bad(Block(0)),
        Err(MtdError::Backing(_))
    ));
    assert_eq!(
        &image.into_backing()[..2049],
        [&[3; 2048][..], &[0xFF]].concat()
    );
}

#[test]
fn a_layout_without_a_marker_has_no_bad_blocks() {
    let mut image = erased(ImageFormat {
        layout: Layout::DiskOnChip,
        ..SMALL
    });
    image.program(Page(4), &[1; 512], &[0; 10]).unwrap();
    assert!(matches!(
        image.mark_bad(Block(2)),
        Err(MtdError::Backing(_))
    ));
    assert_eq!([0, 1, 2].map(|b| image.is_bad(Block(b))), [Ok(false); 3]);
    let bytes = image.into_backing();
    assert_eq!(
        bytes[4 * 528 + 512..5 * 528],
        [[0xFF; 6].as_slice(), &[0; 10]].concat()
    );
}

#[test]
fn a_copy_carries_data_and_head_and_takes_a_new_tail() {
    let mut image = erased(SMALL);
    image.program(Page(0), &[0x5A; 512], &[1, 2, 3, 4]).unwrap();
    let mut head = [0; 2];
    image.copy(Page(0), Page(9), &mut head, &[9]).unwrap();
    let mut data = [0; 512];
    let mut oob = [0; 4];
    image.read(Page(9), &mut data, &mut oob).unwrap();
    assert_eq!((data, oob, head), ([0x5A; 512], [1, 2, 9, 0xFF], [1, 2]));
    assert_eq!(
        image.copy(Page(0), Page(10), &mut [0; 8], &[9]),
        Err(MtdError::BadLength {
            found: 9,
            expected: 8
        })
    );
}

#[test]
fn a_read_only_image_never_changes() {
    let mut image = erased(SMALL).read_only();
    assert_eq!(
        [
            image.program(Page(0), &[0; 512], &[]),
            image.erase(Block(0)),
            image.mark_bad(Block(0))
        ],
        [Err(MtdError::ReadOnly(None)); 3]
    );
    assert_eq!(image.sync(), Ok(()));
    assert!(image.into_backing().iter().all(|b| *b == 0xFF));
}

const BCH: Code = Code::Bch {
    step: 512,
    strength: 4,
};

/// An erased image whose pages Linux would protect with this code.
fn protected(code: Code) -> Image<Vec<u8>> {
    erased(ImageFormat::linux(2048, 64, 4, Some(code)).unwrap())
}

fn sample() -> Vec<u8> {
    (0..2048_u32).map(|at| ((at * 31) >> 4) as u8).collect()
}

/// The image with bits of a page flipped: each the byte behind the page's start, and the mask.
fn flipped(image: Image<Vec<u8>>, page: usize, flips: &[(usize, u8)]) -> Image<Vec<u8>> {
    let mut bytes = image.backing;
    for (at, mask) in flips {
        bytes[page * 2112 + at] ^= mask;
    }
    Image {
        backing: bytes,
        ..image
    }
}

#[test]
fn a_program_stores_the_ecc_bytes_where_linux_has_them() {
    for (code, from) in [(Code::LINUX, 40), (BCH, 36)] {
        let mut image = protected(code);
        image.program(Page(1), &sample(), &[1, 2]).unwrap();
        let mut expected = vec![0; 64 - from];
        let codec = Codec::new(code).unwrap();
        codec.encode_page(&sample(), &mut expected);
        let spare = &image.into_backing()[2112 + 2048..2 * 2112];
        assert_eq!(spare[..5], [0xFF, 0xFF, 1, 2, 0xFF]);
        assert_eq!(spare[from..], expected);
    }
}

#[test]
fn a_read_corrects_data_and_tells_the_worst_step() {
    let mut image = protected(BCH);
    image.program(Page(2), &sample(), &[7]).unwrap();
    // One bit of the first step, three of the last with its parity, one of a user byte.
    let flips = [(0, 1), (1600, 0x88), (2111, 0x40), (2048 + 3, 4)];
    let mut image = flipped(image, 2, &flips);
    let mut data = vec![0; 2048];
    let mut oob = [0; 2];
    for _ in 0..2 {
        assert_eq!(
            image.read(Page(2), &mut data, &mut oob),
            Ok(Corrected { bits: 3 })
        );
        assert_eq!((&data, oob), (&sample(), [7, 0xFB]));
    }
    let found = image.corrections().unwrap();
    assert_eq!((found.pages, found.bits, found.failed), (1, 4, 0));
}

#[test]
fn a_page_beyond_correction_is_named_and_reads_as_it_is() {
    let mut image = protected(Code::LINUX);
    image.program(Page(3), &sample(), &[]).unwrap();
    let mut image = flipped(image, 3, &[(700, 3), (20, 1)]);
    let mut data = vec![0; 2048];
    let outcome = image.read(Page(3), &mut data, &mut []);
    assert_eq!(outcome, Err(MtdError::Uncorrectable(Page(3))));
    let mut expected = sample();
    expected[700] ^= 3;
    assert_eq!(data, expected);
    let found = image.corrections().unwrap();
    assert_eq!((found.pages, found.bits, found.failed), (0, 1, 1));
    assert_eq!(found.failed_pages, [Page(3)]);
}

#[test]
fn user_bytes_alone_leave_the_ecc_bytes_alone() {
    let mut image = protected(Code::LINUX);
    image.program(Page(0), &[], &[0x85, 0x19]).unwrap();
    assert!(image.backing[2048 + 40..2112].iter().all(|b| *b == 0xFF));
    image.program(Page(0), &sample(), &[]).unwrap();
    let before = image.backing[..2112].to_vec();
    image.program(Page(0), &[], &[0x85, 0x19, 3]).unwrap();
    let after = &image.backing[..2112];
    assert_eq!(after[2048 + 2..2048 + 5], [0x85, 0x19, 3]);
    assert_eq!(
        (&after[..2048], &after[2088..]),
        (&before[..2048], &before[2088..])
    );
}

#[test]
fn a_page_is_programmed_step_by_step_as_linux_does_in_sub_pages() {
    for code in [Code::LINUX, BCH] {
        let mut whole = protected(code);
        whole.program(Page(0), &sample(), &[]).unwrap();
        let mut parts = protected(code);
        let mut data = vec![0xFF; 2048];
        for part in [1, 3, 0, 2] {
            let range = part * 512..(part + 1) * 512;
            data[range.clone()].copy_from_slice(&sample()[range]);
            parts.program(Page(0), &data, &[]).unwrap();
        }
        assert_eq!(parts.into_backing(), whole.into_backing());
    }
}

#[test]
fn a_second_program_into_a_step_is_refused_and_changes_nothing() {
    let mut image = protected(BCH);
    let mut half = vec![0xFF; 2048];
    half[..100].fill(0);
    image.program(Page(0), &half, &[]).unwrap();
    let before = image.backing.clone();
    half[100..200].fill(0);
    assert_eq!(
        image.program(Page(0), &half, &[]),
        Err(MtdError::Illegal(Page(0), STEP_HAS_DATA))
    );
    assert_eq!(image.backing, before);
}

#[test]
fn data_written_without_ecc_bytes_get_them_with_the_next_program() {
    let format = ImageFormat::linux(2048, 64, 4, Some(Code::LINUX)).unwrap();
    let bare = ImageFormat {
        ecc: None,
        ..format
    };
    let mut image = erased(bare);
    let mut half = sample();
    half[1100..].fill(0xFF);
    image.program(Page(0), &half, &[]).unwrap();
    let mut image = Image::new(image.into_backing(), format).unwrap();
    image.program(Page(0), &sample(), &[]).unwrap();
    let mut data = vec![0; 2048];
    let outcome = image.read(Page(0), &mut data, &mut []);
    assert_eq!((outcome, data), (Ok(Corrected::default()), sample()));
}

#[test]
fn an_erased_page_with_flipped_bits_is_erased_and_takes_data() {
    for code in [Code::LINUX, BCH] {
        let mut image = flipped(protected(code), 1, &[(9, 0x10), (2048 + 50, 2)]);
        let mut data = vec![0; 2048];
        let outcome = image.read(Page(1), &mut data, &mut []);
        assert!(outcome.is_ok_and(|corrected| corrected.bits == 1), "{code}");
        assert!(data.iter().all(|byte| *byte == 0xFF));
        image.program(Page(1), &sample(), &[]).unwrap();
        let outcome = image.read(Page(1), &mut data, &mut []);
        assert_eq!((outcome, &data), (Ok(Corrected::default()), &sample()));
    }
}

#[test]
fn data_beyond_correction_are_not_programmed_over() {
    let mut image = protected(BCH);
    let mut half = sample();
    half[512..].fill(0xFF);
    image.program(Page(0), &half, &[]).unwrap();
    let mut image = flipped(image, 0, &[(0, 0x3F)]);
    let before = image.backing.clone();
    let mut rest = vec![0xFF; 2048];
    rest[512..].fill(0);
    let outcome = image.program(Page(0), &rest, &[]);
    assert!(matches!(outcome, Err(MtdError::Illegal(Page(0), _))));
    assert_eq!(image.backing, before);
}

#[test]
fn data_programmed_without_protection_are_beyond_correction() {
    for code in [Code::LINUX, BCH] {
        let mut image = protected(code);
        image.program_unprotected(Page(1), &sample(), &[5]).unwrap();
        let mut data = vec![0; 2048];
        let mut oob = [0];
        let outcome = image.read(Page(1), &mut data, &mut oob);
        assert_eq!(outcome, Err(MtdError::Uncorrectable(Page(1))));
        assert_eq!(oob, [5]);
    }
}
