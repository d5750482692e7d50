//! A block that is doubtful is tortured before it is used again, and each of its erases counts.

use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_ubi::{Memory, Options, Ubi};

const FORMAT: ImageFormat = ImageFormat {
    page: 512,
    oob: 0,
    pages_per_block: 16,
    layout: Layout::Raw,
    ecc: None,
};
const BLOCKS: u32 = 32;

#[test]
fn the_erases_of_a_torture_test_are_counted() {
    let options = Options {
        memory: Memory::Scan,
        ..Options::default()
    };
    let erased = vec![0xFF; FORMAT.bytes(BLOCKS) as usize];
    let ubi = Ubi::format(Image::new(erased, FORMAT).unwrap(), options).unwrap();
    let mut bytes = ubi.detach().unwrap().into_backing();
    // A damaged volume header with nothing behind it, as a torn write leaves it.
    let peb = BLOCKS - 1;
    let header = FORMAT.bytes(peb) as usize + 512;
    assert_eq!(bytes[header], 0xFF, "block {peb} is in use");
    bytes[header..header + 64].fill(0x11);
    let mut ubi = Ubi::attach(Image::new(bytes, FORMAT).unwrap(), options).unwrap();
    let before = ubi.erase_counter(peb).expect("a counter");
    while ubi.work().unwrap() {}
    // Three patterns, and the erase that leaves the block free.
    assert_eq!(ubi.erase_counter(peb), Some(before + 4));
}
