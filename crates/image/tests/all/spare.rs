//! Dumps with ECC bytes: those that are made have them, and a conversion uses them.

use crate::common::{made, plain};
use nandlab_image::convert::convert;
use nandlab_image::make::Format;
use nandlab_image::place::Place;
use nandlab_jffs2::{Compression, Medium};
use nandlab_mtd::{Block, Corrected, Image, ImageFormat, Mtd, MtdError, Page};
use std::fs;

/// The format in which Linux keeps dumps of these pages, protected by a code.
fn linux(page: u32, oob: u32, code: &str) -> ImageFormat {
    ImageFormat::linux(page, oob, 32, Some(code.parse().unwrap())).unwrap()
}

#[test]
fn every_page_of_a_made_dump_has_its_ecc_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("dump");
    let tree = plain(scratch.path());
    for shape in [
        linux(512, 16, "hamming"),
        linux(2048, 64, "hamming"),
        linux(2048, 64, "bch-4"),
        linux(4096, 128, "hamming"),
    ] {
        let Format::Jffs2 { mut choices, .. } = Format::jffs2(65536, Compression::CLASSIC) else {
            panic!("JFFS2")
        };
        choices.medium = Some(Medium::Nand);
        made(&tree, Format::Jffs2 { choices, shape }, &path, 1);
        let bytes = fs::read(&path).unwrap();
        let stride = (shape.page + shape.oob) as usize;
        let written = |page: &[u8]| page[..shape.page as usize].iter().any(|b| *b != 0xFF);
        let pages = bytes.chunks(stride).filter(|page| written(page)).count();
        assert!(pages > 20, "{pages} pages");
        // Without ECC bytes, one bit in each page would be beyond correction.
        let mut worn = bytes.clone();
        for page in worn.chunks_mut(stride) {
            page[shape.page as usize / 3] ^= 0x20;
        }
        let mut whole = Image::new(bytes, shape).unwrap();
        let mut worn = Image::new(worn, shape).unwrap();
        let mut data = [vec![0; shape.page as usize], vec![0; shape.page as usize]];
        for page in (0..whole.geometry().pages()).map(Page) {
            let [first, second] = &mut data;
            let sound = whole.read(page, first, &mut []);
            assert_eq!(sound, Ok(Corrected::default()), "{page}");
            let repaired = worn.read(page, second, &mut []);
            assert_eq!(repaired, Ok(Corrected { bits: 1 }), "{page}");
            assert!(first == second, "{page}");
        }
    }
}

#[test]
fn a_conversion_corrects_by_the_old_code_and_protects_by_the_new_one() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let old = linux(2048, 64, "hamming");
    let new = linux(2048, 64, "bch-8");
    let mut dump = Image::new(vec![0xFF; old.bytes(4) as usize], old).unwrap();
    let data = |number: u32| vec![number as u8 + 1; 2048];
    for number in 0..3 {
        dump.program(Page(number), &data(number), &[number as u8; 9])
            .unwrap();
    }
    dump.mark_bad(Block(2)).unwrap();
    let mut bytes = dump.into_backing();
    bytes[2112 + 700] ^= 8;
    bytes[2 * 2112 + 100] ^= 3;
    fs::write(at("old"), &bytes).unwrap();
    let converted = convert(&Place::file(&at("old")), old, &at("new"), new).unwrap();
    assert_eq!(
        (
            converted.pages,
            converted.bad,
            converted.cut,
            converted.corrected
        ),
        (3, 1, 0, 1)
    );
    assert_eq!(
        (converted.failed, &converted.failed_pages[..]),
        (1, &[2][..])
    );
    let mut dump = Image::new(fs::read(at("new")).unwrap(), new).unwrap();
    for number in 0..2 {
        let mut found = vec![0; 2048];
        let mut user = [0; 9];
        let outcome = dump.read(Page(number), &mut found, &mut user);
        assert_eq!(outcome, Ok(Corrected::default()));
        assert!(found == data(number) && user == [number as u8; 9]);
    }
    // What was beyond correction is not made to look sound.
    let mut found = vec![0; 2048];
    let outcome = dump.read(Page(2), &mut found, &mut []);
    assert_eq!(outcome, Err(MtdError::Uncorrectable(Page(2))));
    assert_eq!(found[..], bytes[2 * 2112..2 * 2112 + 2048]);
    assert!(dump.is_bad(Block(2)).unwrap());
}
